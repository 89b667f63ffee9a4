"""The keywords of `log()`, and how a value of each is read that is no plain text or number.

What is read here is only what could still change, or has to be asked in the service's own thread (`capture`); whether
it fits the wire contract is found out later, in the sending thread (`building`).
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from tracejudge_sdk.ids import new_trace_id
from tracejudge_sdk.json_values import COERCED_ITEMS, coerce_json, scrub_text
from tracejudge_sdk.trace import MAX_ID_CHARS

if TYPE_CHECKING:
    from typing_extensions import TypedDict

    class TraceFields(TypedDict, total=False):
        """The keywords of `log()`: the fields of a Trace, each in whatever form the service has it."""

        query: Any
        """What was asked: a text, a LlamaIndex QueryBundle, a chat message."""
        response: Any
        """What was answered: a text, None, or an object with the text (LlamaIndex Response, a chat message)."""
        source_nodes: Any
        """The passages in the order shown to the generator; see tracejudge_sdk.nodes for what counts as one."""
        trace_id: str | None
        """By default a new UUIDv7."""
        event_time: datetime | None
        """When the answer was served, aware; by default now."""
        status: str
        """ok, error or incomplete."""
        error: Any
        history: Any
        """Earlier turns: dicts with role and content, (role, content) pairs, chat messages."""
        reference: Any
        expected_ids: Any
        case_id: str | None
        latency_ms: float | timedelta | None
        app: str
        environment: str
        version: str
        model: str | None
        prompt_version: str | None
        index_version: str | None
        category: str | None
        session_id: str | None
        user_id: str | None
        language: str | None
        tags: Mapping[str, Any] | None


_ENTRY_BYTES: Final = 150
NAMES: Final = frozenset(
    (
        "app",
        "environment",
        "version",
        "model",
        "prompt_version",
        "index_version",
        "category",
        "session_id",
        "user_id",
        "language",
    )
)
"""Fields that hold a name: a text of at most 256 characters."""
TEXT_FIELDS: Final = frozenset(("query", "response", "error", "reference"))
FIELD_NAMES: Final = TEXT_FIELDS | {
    "source_nodes", "trace_id", "event_time", "status", "history", "expected_ids", "case_id", "latency_ms", "app",
    "environment", "version", "model", "prompt_version", "index_version", "category", "session_id", "user_id",
    "language", "tags",
}  # fmt: skip
"""Every keyword of `log()`."""


def wire_id(value: Any) -> str:
    """The id under which a trace is stored: a new one for None or "", the value itself where it is an id.

    Ids above 128 characters keep their first 63 and get the SHA-256 of the whole, so that the same id is always the
    same trace; what is no text becomes one.
    """
    if value is None or value == "":
        return new_trace_id()
    text = str.__str__(value) if isinstance(value, str) else str(value)
    if not text.isascii():
        text = scrub_text(text)
    if len(text) > MAX_ID_CHARS:
        text = f"{text[:63]}-{hashlib.sha256(text.encode()).hexdigest()}"
    return text or new_trace_id()


def plain_field(name: str, value: Any) -> tuple[Any, bool]:
    """What JSON can hold of the value of a field, and whether something was lost on the way. Never raises."""
    try:
        return _plain_field(name, value)
    except Exception:  # noqa: BLE001 - any foreign method may raise anything; the trace must survive it
        return None, True


def _plain_field(name: str, value: Any) -> tuple[Any, bool]:
    if name in TEXT_FIELDS:
        return text_of(value)
    if name == "history":
        return _history_of(value)
    if name == "expected_ids":
        return _texts_of(value)
    if name == "tags":
        return _tags_of(value)
    if isinstance(value, str):
        return str.__str__(value), False
    if isinstance(value, datetime):
        return value, False
    if isinstance(value, timedelta):
        return value.total_seconds() * 1000, False
    return coerce_json(value)


def response_nodes(response: Any) -> Any:
    """The source nodes that an answer brings itself (a LlamaIndex Response); None for any other."""
    return None if response is None or isinstance(response, str) else _attribute(response, "source_nodes")


def _attribute(value: Any, name: str) -> Any:
    try:
        return getattr(value, name, None)
    except Exception:  # noqa: BLE001 - a property of a foreign object may raise anything
        return None


def text_of(value: Any) -> tuple[str | None, bool]:
    """The text of a text field: itself, or what an object has as query_str, response, content or text.

    An answer that is still a stream (LlamaIndex: it has `response_gen`) gives None: only its reader may read it.
    """
    if value is None:
        return None, False
    if isinstance(value, str):
        return str.__str__(value), False
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).decode("utf-8", "backslashreplace"), True
    if isinstance(value, BaseException):
        return error_text(value), False
    if _attribute(value, "response_gen") is not None:
        return None, True
    for name in ("query_str", "response", "content", "text"):
        text = _attribute(value, name)
        if isinstance(text, str):
            return str.__str__(text), False
        if name == "response" and text is None and _attribute(value, "source_nodes") is not None:
            return None, False  # a LlamaIndex Response without an answer
    plain, _ = coerce_json(value)
    return (plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)), True


def error_text(error: BaseException) -> str:
    """Type and message of an exception, the type alone where it has no message."""
    try:
        message = str(error)
        return f"{type(error).__name__}: {message}" if message else type(error).__name__
    except Exception:  # noqa: BLE001 - __str__ may raise anything
        return type(error).__name__


def _history_of(value: Any) -> tuple[list[dict[str, str]], bool]:
    if isinstance(value, Mapping) or not isinstance(value, Iterable):
        value, lossy = (value,), True
    else:
        lossy = False
    turns: list[dict[str, str]] = []
    given, cut = first_items(value, most=COERCED_ITEMS)
    lossy = lossy or cut
    for turn in given:
        if isinstance(turn, Mapping):
            role, content = turn.get("role"), turn.get("content")
        elif isinstance(turn, tuple) and len(turn) == 2:
            role, content = turn
        else:
            role = _attribute(turn, "role") or _attribute(turn, "type")
            content = turn if role is None else _attribute(turn, "content")
        content_text, content_lossy = text_of(content)
        plain_role, role_lossy = coerce_json(role if role is not None else "user")
        role_text = plain_role if isinstance(plain_role, str) else str(plain_role)
        lossy = lossy or content_lossy or role is None or (role_lossy and not isinstance(role, str))
        turns.append({"role": role_text, "content": content_text or ""})
    return turns, lossy


def _texts_of(value: Any) -> tuple[list[str], bool]:
    if isinstance(value, Mapping) or not isinstance(value, Iterable):
        value = (value,)
    given, cut = first_items(value, most=COERCED_ITEMS)
    plain, lossy = coerce_json(given)
    texts = [item if isinstance(item, str) else json.dumps(item) for item in plain]
    return texts, lossy or cut


def first_items(value: Iterable[Any], *, most: int) -> tuple[list[Any], bool]:
    """The first `most` items, and whether there were more or the rest could not be read."""
    found: list[Any] = []
    try:
        iterator = iter(value)
        found.extend(islice(iterator, most))
        return found, len(found) == most and next(iterator, found) is not found
    except Exception:  # noqa: BLE001 - a foreign iterator may raise anything; what came before stays
        return found, True


def _tags_of(value: Any) -> tuple[dict[str, str], bool]:
    plain, lossy = coerce_json(value)
    if not isinstance(plain, dict):
        return ({} if plain is None else {"tags": json.dumps(plain)}), True
    return {
        key: item if isinstance(item, str) else json.dumps(item, ensure_ascii=False)
        for key, item in plain.items()
        if item is not None
    }, lossy


def size_of(value: Any) -> int:
    """About how many bytes a plain value holds in memory."""
    if isinstance(value, str):
        return _ENTRY_BYTES + sys.getsizeof(value)
    if isinstance(value, dict):
        return _ENTRY_BYTES + sum(size_of(item) for item in value.values())
    if isinstance(value, list):
        return _ENTRY_BYTES + sum(size_of(item) for item in value)
    return _ENTRY_BYTES
