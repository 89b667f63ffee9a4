"""A lean client for any OpenAI-compatible endpoint: one POST to /chat/completions, its reply as a value.

TLS trust and proxies come from the environment (SSL_CERT_FILE, HTTPS_PROXY, NO_PROXY). The key is sent, and never
logged, stored or shown in an error, even where the server repeats it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Final, Literal, Protocol

import aiohttp

from tracejudge.judging.calls.failures import CallError, MalformedReply, gone_code, instant_of, retry_after_s, scrub
from tracejudge.judging.calls.loops import PerLoop
from tracejudge.judging.calls.proxy import proxy_for
from tracejudge.judging.calls.reported import name_reported, tokens_reported
from tracejudge.judging.packing import text_tokens
from tracejudge.judging.specs.spec import REPLY_BOUNDS, JudgeSpec
from tracejudge.quick import made_quickly
from tracejudge_sdk.json_values import scrub_text

_MAX_REPLY_BYTES: Final = 4_000_000
_FORM_REFUSED: Final = re.compile(r"response.?format|json_schema|structured.?output|guided", re.IGNORECASE)
_BOUND_REFUSED: Final = re.compile(r"max_tokens.{1,80}\buse .?max_completion_tokens", re.IGNORECASE)
"""Of OpenAI's reasoning models. Others name both fields where a text is too long, and mean no such thing."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the request."""

    role: Literal["system", "user"]
    content: str


@made_quickly
@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """The reply of a judge's model. Token counts are the endpoint's, or estimates where it gives none."""

    text: str
    finish_reason: str = ""
    refusal: bool = False  # the endpoint itself says that the model declined, or filtered its reply
    input_tokens: int = 0
    output_tokens: int = 0
    model: str = ""
    fingerprint: str = ""


class Completer(Protocol):
    """Anything that answers a list of messages. Raises CallError, or whatever its library raises."""

    async def complete(self, messages: Sequence[Message]) -> Completion: ...

    async def close(self) -> None: ...


class OpenAICompatible:
    """The endpoint of one judge. Holds one session per event loop."""

    stops_at_once: Final = True
    """Its calls end as soon as they are cancelled."""

    def __init__(self, spec: JudgeSpec, *, api_key: str | None) -> None:
        self._url = f"{spec.base_url}/chat/completions"
        self._proxy = proxy_for(self._url)
        self._api_key = api_key or ""
        self._body: dict[str, Any] = {"model": spec.model}
        if spec.temperature is not None:
            self._body["temperature"] = spec.temperature
        if spec.max_tokens is not None and not any(name in spec.extra_body for name in REPLY_BOUNDS):
            self._body["max_tokens"] = spec.max_tokens
        self._body |= spec.extra_body
        self._response_format = spec.response_format()
        self._headers = {"Content-Type": "application/json"}
        if api_key:
            self._headers["Authorization"] = f"Bearer {api_key}"
        self._sessions: PerLoop[aiohttp.ClientSession] = PerLoop(self._new_session)

    def __repr__(self) -> str:
        return f"OpenAICompatible({self._url!r})"

    async def complete(self, messages: Sequence[Message]) -> Completion:
        """One call. Raises CallError with the HTTP status and the provider's code, or MalformedReply."""
        for stale in self._sessions.take_stale():
            await stale.close()
        while True:
            form, sent = self._response_format, self._body
            try:
                return await self._post(messages, sent, form)
            except CallError as error:
                if error.status not in (400, 422):
                    raise
                # An endpoint that takes a field by no name, or by another, says so once. Calls in flight at that
                # moment find it changed; each pass leaves a field out, so there are three at most.
                if form is not None and _FORM_REFUSED.search(str(error)):
                    self._response_format = None  # the words of the prompt ask for the same shape
                elif "max_tokens" in sent and _BOUND_REFUSED.search(str(error)):
                    self._body = {**sent, "max_completion_tokens": sent["max_tokens"]}
                    del self._body["max_tokens"]
                else:
                    raise

    async def _post(
        self, messages: Sequence[Message], fields: dict[str, Any], response_format: dict[str, Any] | None
    ) -> Completion:
        body = {**fields, "messages": [{"role": item.role, "content": item.content} for item in messages]}
        if response_format is not None:
            body["response_format"] = response_format
        try:
            async with self._sessions.get().post(
                self._url, data=json.dumps(body), headers=self._headers, proxy=self._proxy, allow_redirects=False
            ) as response:
                raw = await _read(response)
                status = response.status
                after = retry_after_s(response.headers.get("Retry-After"), now=_server_time(response))
        except (aiohttp.ClientError, OSError) as error:
            sent = not isinstance(error, (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError))
            raise CallError(scrub(f"{type(error).__name__}: {error}", secret=self._api_key), sent=sent) from None
        if 300 <= status < 400:
            # Followed, it would take the traces to wherever the reply says, and quote what stands there as an error.
            raise CallError(
                f"HTTP {status}: a redirect, which is not followed: set base_url to its target", status=status
            )
        if status != 200:
            raise self._error(status, raw, after)
        return self._completion(raw, messages)

    async def close(self) -> None:
        """Closes the running loop's session and those of loops that are gone."""
        session = self._sessions.pop()
        for old in [*self._sessions.take_stale(), *([session] if session is not None else [])]:
            await old.close()

    def _new_session(self) -> aiohttp.ClientSession:
        # The guard bounds time and concurrency; a second set of limits here would only fight it.
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=30.0),
        )

    def _error(self, status: int, raw: bytes, after_s: float | None = None) -> CallError:
        code, message = "", raw[:1000].decode("utf-8", "replace")
        try:
            body = json.loads(raw)
        except (ValueError, RecursionError):
            body = None
        if isinstance(body, list) and body:  # Gemini
            body = body[0]
        # Mistral, and vLLM as it was, give the error without a frame.
        error = body.get("error", body) if isinstance(body, dict) else None
        if isinstance(error, dict):
            codes = [str(error[key]) for key in ("code", "type") if error.get(key)]
            if error.get("param") == "model" and status in (400, 422):
                codes.insert(0, "model_not_found")
            # LiteLLM's code is the status once more, and its type says what it is.
            code = next(filter(gone_code, codes), codes[0] if codes else "")
            message = str(error.get("message", message))
        elif isinstance(error, str):
            message = error
        return CallError(
            scrub(f"HTTP {status}: {message}", secret=self._api_key),
            status=status,
            code=code,
            retry_after_s=after_s,
        )

    def _completion(self, raw: bytes, messages: Sequence[Message]) -> Completion:
        try:
            reply = json.loads(raw)
            if not reply.get("choices") and isinstance(reply.get("error"), dict):
                # OpenRouter: found out after it had said 200.
                said = reply["error"].get("code")
                raise self._error(said if isinstance(said, int) and 400 <= said < 600 else 502, raw)
            choice = reply["choices"][0]
            message = choice["message"]
            text, refusal = message.get("content"), message.get("refusal")
            finish_reason = choice.get("finish_reason") or ""
            if finish_reason == "error":
                raise LookupError
            thoughts = message.get("reasoning_content") or message.get("reasoning")
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            shown = scrub(raw[:200].decode("utf-8", "replace"), secret=self._api_key)
            raise MalformedReply(f"not a chat completion: {shown}") from error
        if isinstance(text, list):  # some servers give the content in parts, the reasoning among them
            text = "".join(part["text"] for part in text if _is_text(part))
        if text is not None and not isinstance(text, str):
            raise MalformedReply(f"content is a {type(text).__name__}, not a text")
        said = scrub_text(text or (refusal if isinstance(refusal, str) else "") or "")
        usage = reply.get("usage") if isinstance(reply.get("usage"), dict) else {}
        input_tokens = tokens_reported(usage.get("prompt_tokens")) or sum(
            text_tokens(item.content) for item in messages
        )
        return Completion(
            text=said,
            finish_reason=str(finish_reason),
            refusal=bool(refusal) or finish_reason == "content_filter",
            input_tokens=input_tokens,
            output_tokens=_output_tokens(usage, said + (thoughts if isinstance(thoughts, str) else "")),
            model=name_reported(reply.get("model")),
            fingerprint=name_reported(reply.get("system_fingerprint")),
        )


async def _read(response: aiohttp.ClientResponse) -> bytes:
    chunks, size = [], 0
    async for chunk in response.content.iter_any():
        size += len(chunk)
        if size > _MAX_REPLY_BYTES:
            raise MalformedReply(f"a reply of more than {_MAX_REPLY_BYTES} bytes")
        chunks.append(chunk)
    return b"".join(chunks)


def _is_text(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type", "text") in _TEXT_PARTS and isinstance(part.get("text"), str)


_TEXT_PARTS: Final = ("text", "output_text")


def _output_tokens(usage: dict[str, Any], text: str) -> int:
    """Tokens of output to be paid for. Gemini and xAI count reasoning in the total alone."""
    completion, prompt = tokens_reported(usage.get("completion_tokens")), tokens_reported(usage.get("prompt_tokens"))
    counted = max(completion, tokens_reported(usage.get("total_tokens")) - prompt) if prompt else completion
    return counted or text_tokens(text)


def _server_time(response: aiohttp.ClientResponse) -> datetime:
    """The endpoint's own time, since it is by its clock that it says when to come again; ours where it has none."""
    return instant_of(response.headers.get("Date")) or datetime.now(timezone.utc)
