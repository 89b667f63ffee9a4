"""What a scripted judge is asked and what it answers: the request, the reply, and OpenAI's error bodies."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

Malformed = Literal["not_json", "no_choices", "empty", "truncated"]
"""A 200 whose body is prose, has no choice, is empty, or ends before its announced length."""


class Usage(NamedTuple):
    """Tokens the server claims to have used."""

    prompt_tokens: int
    completion_tokens: int


@dataclass(frozen=True)
class JudgeRequest:
    """One chat completion as the server received it."""

    model: str
    messages: Sequence[Mapping[str, Any]]
    prompt: str
    """The text of all messages, one a line, without their roles."""
    prompt_hash: str
    attempt: int
    """How many times this model was asked this, this call included: 1 for the first."""
    stream: bool
    response_format: Mapping[str, Any] | None
    headers: Mapping[str, str]
    """Names in lower case."""
    body: Mapping[str, Any]


@dataclass(frozen=True)
class Reply:
    """What the server does with one request; the default is an ordinary completion."""

    content: str = ""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    """Before the first byte."""
    hang: bool = False
    """Answer only after `JudgeServer.release()`."""
    drop: bool = False
    """Close the connection without an answer."""
    malformed: Malformed | None = None
    usage: Usage | tuple[int, int] | None = None
    """By default the words of the prompt and of the content are counted."""
    model_reported: str | None = None
    """By default the model that was asked for."""
    system_fingerprint: str | None = None
    finish_reason: str = "stop"
    refusal: str | None = None
    error: Mapping[str, Any] | None = None
    """The `error` object of a status of 400 and above; by default a plain one is made from the status."""


Script = Callable[[JudgeRequest], Reply]
"""Called for one request after the other, in the server's thread: it needs no lock and must not block."""


def text_of(messages: Sequence[Mapping[str, Any]]) -> str:
    """The text of all messages, one a line; of content given in parts, the text parts."""
    texts: list[str] = []
    for message in messages:
        content = message.get("content")
        if isinstance(content, str):
            texts.append(content)
        elif isinstance(content, Sequence):
            texts += [str(part["text"]) for part in content if isinstance(part, Mapping) and "text" in part]
    return "\n".join(texts)


def prompt_hash(model: str, messages: Sequence[Mapping[str, Any]]) -> str:
    """What attempts are counted by: the model and the messages, not the sampling parameters."""
    canonical = json.dumps([model, list(messages)], sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def uniform(*parts: object) -> float:
    """A number in [0, 1) that depends on the parts alone: the same in every run, process and call order."""
    digest = hashlib.sha256("\x1f".join(map(str, parts)).encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def error_reply(
    status: int,
    message: str,
    *,
    type: str,  # noqa: A002 - the field's name on the wire
    code: str | None,
    headers: Mapping[str, str] | None = None,
) -> Reply:
    """An OpenAI-style error: `{"error": {"message", "type", "param", "code"}}`."""
    body = {"message": message, "type": type, "param": None, "code": code}
    return Reply(status=status, error=body, headers=dict(headers or {}))


def invalid_api_key() -> Reply:
    """401: no retry will help."""
    return error_reply(
        401, "Incorrect API key provided: sk-****.", type="invalid_request_error", code="invalid_api_key"
    )


def model_not_found(model: str) -> Reply:
    """404: no retry will help."""
    message = f"The model `{model}` does not exist or you do not have access to it."
    return error_reply(404, message, type="invalid_request_error", code="model_not_found")


def rate_limit_exceeded(*, retry_after_s: float | None = None) -> Reply:
    """429 that passes: retry, after `Retry-After` where it is given."""
    headers = {} if retry_after_s is None else {"Retry-After": f"{retry_after_s:g}"}
    message = "Rate limit reached for requests. Please try again later."
    return error_reply(429, message, type="requests", code="rate_limit_exceeded", headers=headers)


def insufficient_quota() -> Reply:
    """429 that does not pass: the account is out of money."""
    message = "You exceeded your current quota, please check your plan and billing details."
    return error_reply(429, message, type="insufficient_quota", code="insufficient_quota")


def context_length_exceeded(*, limit: int = 8192) -> Reply:
    """400: this prompt will never fit."""
    message = f"This model's maximum context length is {limit} tokens. Please reduce the length of messages."
    return error_reply(400, message, type="invalid_request_error", code="context_length_exceeded")


def server_error(status: int = 500) -> Reply:
    """A 5xx that may pass."""
    message = "The server had an error while processing your request."
    return error_reply(status, message, type="server_error", code=None)


def dropped() -> Reply:
    """The connection closes without an answer."""
    return Reply(drop=True)


def completion_body(request: JudgeRequest, reply: Reply, *, number: int, created: int) -> dict[str, Any]:
    """The JSON of a whole (not streamed) chat completion."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.content, "refusal": reply.refusal}
    if reply.refusal is not None:
        message["content"] = None
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reply.finish_reason}
    return {
        **envelope(request, reply, number=number, created=created, object_name="chat.completion"),
        "choices": [] if reply.malformed == "no_choices" else [choice],
        "usage": usage_body(request, reply),
    }


def chunk_bodies(request: JudgeRequest, reply: Reply, *, number: int, created: int) -> list[dict[str, Any]]:
    """The JSON of each chunk of a streamed completion: the role, the words, the end, and usage when asked for."""
    head = envelope(request, reply, number=number, created=created, object_name="chat.completion.chunk")
    field_name, text = ("content", reply.content) if reply.refusal is None else ("refusal", reply.refusal)
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{field_name: piece} for piece in re.findall(r"\S+\s*|\s+", text)]
    chunks = [{**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    chunks.append({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": reply.finish_reason}]})
    if reply.malformed == "no_choices":
        chunks = [{**head, "choices": []}]
    options = request.body.get("stream_options")
    if isinstance(options, Mapping) and options.get("include_usage"):
        chunks.append({**head, "choices": [], "usage": usage_body(request, reply)})
    return chunks


def envelope(request: JudgeRequest, reply: Reply, *, number: int, created: int, object_name: str) -> dict[str, Any]:
    """What a completion and each chunk of it have in common."""
    return {
        "id": f"chatcmpl-{number}",
        "object": object_name,
        "created": created,
        "model": reply.model_reported or request.model,
        "system_fingerprint": reply.system_fingerprint,
    }


def usage_body(request: JudgeRequest, reply: Reply) -> dict[str, int]:
    """The `usage` object: as scripted, else one token a word."""
    prompt, completion = reply.usage or (len(request.prompt.split()), len(reply.content.split()))
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def error_body(reply: Reply) -> dict[str, Any]:
    """The JSON of a reply with a status of 400 and above."""
    if reply.error is not None:
        return {"error": dict(reply.error)}
    message = reply.content or f"scripted status {reply.status}"
    return {"error": {"message": message, "type": "error", "param": None, "code": None}}
