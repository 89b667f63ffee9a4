"""What one span's attributes say, by OpenInference's names or by those of OpenTelemetry's GenAI conventions.

Attributes are flat (`retrieval.documents.0.document.content`) or JSON texts (`gen_ai.retrieval.documents`); what does
not parse is taken as the text it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from tracejudge_sdk.calls import first_of

Kind = Literal["answer", "retrieval", "rerank", "model"]

_OPENINFERENCE: Final[dict[str, Kind]] = {
    "CHAIN": "answer", "AGENT": "answer", "RETRIEVER": "retrieval", "RERANKER": "rerank", "LLM": "model",
}  # fmt: skip
_GEN_AI: Final[dict[str, Kind]] = {
    "invoke_agent": "answer", "invoke_workflow": "answer", "retrieval": "retrieval", "chat": "model",
    "text_completion": "model", "generate_content": "model",
}  # fmt: skip
_DOCUMENT: Final = re.compile(
    r"(retrieval\.documents|reranker\.output_documents)\.(\d{1,6})\.document\.(id|content|score|metadata)\Z"
)
_MESSAGE: Final = re.compile(
    r"llm\.(input|output)_messages\.(\d{1,6})\.message\.(?:(role)|(content)"
    r"|contents\.(\d{1,6})\.message_content\.text)\Z"
)
_QUERY_NAMES: Final = ("query", "question", "input", "message", "prompt", "query_str", "str_or_query_bundle", "text")
_RESPONSE_NAMES: Final = ("response", "answer", "output", "result", "text", "content")
_STREAMS: Final = ("<generator object>", "<async_generator object>")
_LIBRARIES_OWN: Final = ("ls_", "lc_", "langgraph_", "checkpoint_", "__")
_TURNS: Final = frozenset(("user", "assistant", "human", "ai", "model"))


@dataclass(frozen=True)
class Said:
    """What one span says."""

    kind: Kind
    query: str | None = None
    response: str | None = None
    documents: tuple[dict[str, Any], ...] = ()
    model: str | None = None
    history: tuple[tuple[str, str], ...] = ()


def kind_of(attributes: Mapping[str, Any]) -> Kind | None:
    """What the span is to an answer; None for one that is nothing to us."""
    kind = attributes.get("openinference.span.kind")
    if isinstance(kind, str):
        return _OPENINFERENCE.get(kind.upper())
    operation = attributes.get("gen_ai.operation.name")
    return _GEN_AI.get(operation) if isinstance(operation, str) else None


def read(kind: Kind, attributes: Mapping[str, Any]) -> Said:
    """What a span of this kind says."""
    if kind == "retrieval":
        query = attributes.get("gen_ai.retrieval.query.text") or _value(attributes, "input", _QUERY_NAMES)
        return Said(kind, query=query, documents=_documents(attributes, "retrieval.documents"))
    if kind == "rerank":
        return Said(
            kind,
            query=_text(attributes.get("reranker.query")),
            documents=_documents(attributes, "reranker.output_documents"),
        )
    asked, said = _messages(attributes, "input"), _messages(attributes, "output")
    users = [place for place, (role, _) in enumerate(asked) if role in ("user", "human")]
    last = users[-1] if users else None
    response = said[-1][1] if said and kind == "model" else _value(attributes, "output", _RESPONSE_NAMES)
    query = _value(attributes, "input", _QUERY_NAMES) if last is None or kind == "answer" else asked[last][1]
    if kind == "answer" and response is None and isinstance(_parsed(query), dict):
        query = None  # a step with arguments of its own, which nobody asked and which answers nothing
    return Said(
        kind,
        query=query,
        response=response,
        model=_text(
            attributes.get("llm.model_name")
            or attributes.get("gen_ai.response.model")
            or attributes.get("gen_ai.request.model")
        ),
        history=tuple(turn for turn in asked[:last] if turn[0] in _TURNS),
    )


def labels(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """session_id, user_id and tags, where the span has them."""
    found: dict[str, Any] = {
        "session_id": _text(attributes.get("session.id") or attributes.get("gen_ai.conversation.id")),
        "user_id": _text(attributes.get("user.id")),
    }
    metadata = _parsed(attributes.get("metadata"))
    tags: dict[str, Any] = {
        name: value
        for name, value in (metadata.items() if isinstance(metadata, dict) else ())
        if not name.startswith(_LIBRARIES_OWN)
    }
    names = attributes.get("tag.tags")
    tags.update({str(name): "true" for name in (names if isinstance(names, (list, tuple)) else ())})
    found["tags"] = tags
    return {name: value for name, value in found.items() if value}


def _documents(attributes: Mapping[str, Any], prefix: str) -> tuple[dict[str, Any], ...]:
    found: dict[int, dict[str, Any]] = {}
    for name, value in attributes.items():
        match = _DOCUMENT.match(name)
        if match is not None and match.group(1) == prefix:
            found.setdefault(int(match.group(2)), {})[match.group(3)] = value
    documents = [found[number] for number in sorted(found)]
    if not documents:
        given = _parsed(attributes.get("gen_ai.retrieval.documents"))
        documents = [document for document in given if isinstance(document, dict)] if isinstance(given, list) else []
    return tuple(map(_node, documents))


def _node(document: Mapping[str, Any]) -> dict[str, Any]:
    metadata = _parsed(document.get("metadata"))
    others = {
        name: value for name, value in document.items() if name not in ("id", "content", "text", "score", "metadata")
    }
    return {
        "node_id": str(document.get("id", "")),
        "text": document.get("content", document.get("text")),
        "score": document.get("score"),
        "metadata": {
            **others,
            **(metadata if isinstance(metadata, dict) else {"metadata": metadata} if metadata else {}),
        },
    }


def _messages(attributes: Mapping[str, Any], way: str) -> list[tuple[str, str]]:
    """(role, text) of each message, in order."""
    found: dict[int, dict[str, str]] = {}
    for name, value in attributes.items():
        match = _MESSAGE.match(name)
        if match is not None and match.group(1) == way and isinstance(value, str):
            message = found.setdefault(int(match.group(2)), {})
            part = "role" if match.group(3) else "content"
            message[part] = message.get(part, "") + value
    if found:
        return [(found[n].get("role", ""), found[n].get("content", "")) for n in sorted(found)]
    given = _parsed(attributes.get(f"gen_ai.{way}.messages"))
    if not isinstance(given, list):
        return []
    return [(str(message.get("role", "")), _message_text(message)) for message in given if isinstance(message, dict)]


def _message_text(message: Mapping[str, Any]) -> str:
    parts = message.get("parts", message.get("content"))
    if isinstance(parts, str):
        return parts
    texts = [
        part if isinstance(part, str) else part.get("content", part.get("text"))
        for part in (parts if isinstance(parts, (list, tuple)) else ())
        if isinstance(part, (str, dict))
    ]
    return "".join(text for text in texts if isinstance(text, str))


def _value(attributes: Mapping[str, Any], way: str, names: tuple[str, ...]) -> str | None:
    """`input.value` or `output.value`, the text inside where it is JSON; else the last GenAI message."""
    value = attributes.get(f"{way}.value")
    if value in _STREAMS:
        return None
    if value is None:
        messages = _messages(attributes, way)
        return messages[-1][1] if messages else None
    parsed = _parsed(value)
    if isinstance(parsed, dict):
        if "response_gen" in parsed:
            return None  # a LlamaIndex response that was still to be streamed
        inner = first_of(parsed, names)
        if isinstance(inner, dict):  # LlamaIndex's QueryBundle, a message
            inner = first_of(inner, (*names, "query_str"))
        if isinstance(inner, str):
            return inner
    return _text(value)


def _text(value: Any) -> str | None:
    return None if value is None else value if isinstance(value, str) else str(value)


def _parsed(value: Any) -> Any:
    if not isinstance(value, str) or value[:1] not in ("{", "["):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value
