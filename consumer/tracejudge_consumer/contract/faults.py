"""A refused record in words that its producer can act on: the field, the value seen, the limit and the remedy.

Whether a record is refused is the codec's decision alone; this only explains it. Values are shortened: they go back to
the producer that sent them, never into a log.
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from tracejudge_sdk import codec
from tracejudge_sdk.errors import RecordError
from tracejudge_sdk.trace import SCHEMA_VERSION

MAX_FAULTS: Final = 10
"""Of one record: who sent a thousand nodes with the same mistake learns no more from the rest."""


_MOST_DETAILS: Final = 1_000
"""Above it the first fault stands for all: a hostile record of a hundred thousand would cost seconds to describe."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that is wrong. `reason` is a stable code; the rest is for people."""

    reason: str
    field: str  # as a dotted path; "" when it is about the whole record
    value: str  # what was seen, shortened; "" where there is nothing to show
    limit: str  # what is allowed
    remedy: str  # what to do

    def __str__(self) -> str:
        place = f"{self.field}: " if self.field else ""
        seen = f"{self.value}; " if self.value else ""
        return f"{place}{seen}allowed: {self.limit}; {self.remedy}"


def faults_of(error: RecordError, value: Any = None) -> tuple[Fault, ...]:
    """What is wrong with the record that the codec refused with `error`; at most MAX_FAULTS, at least one.

    The codec looks no further than a version or kind that is missing. Given the parsed `value`, this tells what would
    come next: a producer is mended at once, not in rounds.
    """
    if error.field in ("schema_version", "kind") and error.reason != "schema_too_new" and isinstance(value, dict):
        kind = value["kind"] if value.get("kind") in ("trace", "part", "feedback") else "trace"
        wrong_kind = RecordError("unknown_kind", f"kind: is {short(value.get('kind'))}", field="kind")
        found = list(_faults(error))
        if error.field != "kind" and kind != value.get("kind"):
            found += _faults(wrong_kind)
        try:
            codec.from_object({**value, "schema_version": SCHEMA_VERSION, "kind": kind})
        except RecordError as more:
            found += _faults(more)
        return tuple(found)[:MAX_FAULTS]
    return _faults(error)


def _faults(error: RecordError) -> tuple[Fault, ...]:
    cause = error.__cause__
    if isinstance(cause, ValidationError) and cause.error_count() <= _MOST_DETAILS:
        found = cause.errors(include_url=False)
        # A field that may be one of several things is told once for each of them: the first is enough.
        by_field: dict[str, Fault] = {}
        for one in found:
            by_field.setdefault(_path(one["loc"]), _fault(error.reason, one))
        return tuple(by_field.values())[:MAX_FAULTS]
    limit, remedy = _WHOLE.get(error.reason, ("see the JSON Schema", "run `tracejudge contract schema`"))
    if error.field == "kind":
        limit, remedy = _KINDS
    elif error.field == "schema_version":
        limit, remedy = f"the whole number {SCHEMA_VERSION}", f'send "schema_version": {SCHEMA_VERSION}'
        if error.reason == "schema_too_new":
            remedy = "upgrade the consumer, or send the older version"
    # The codec's message begins with the field, which has a place of its own here.
    seen = str(error).removeprefix(f"{error.field}: ") if error.field else str(error)
    return (Fault(reason=error.reason, field=error.field or "", value=_clean(seen), limit=limit, remedy=remedy),)


def too_large(size_bytes: int, limit_bytes: int) -> Fault:
    """The fault of a record above the queue's limit."""
    return Fault(
        reason="too_large",
        field="",
        value=f"a record of {size_bytes} bytes",
        limit=f"{limit_bytes} bytes",
        remedy='cut its longest texts on character boundaries and set "truncated": true',
    )


_WHOLE: Final[Mapping[str, tuple[str, str]]] = {
    "not_utf8": ("JSON in UTF-8", "encode the text as UTF-8 before it is sent"),
    "not_json": ("one JSON object a record", "write it with a JSON library; NaN and Infinity become null"),
    "not_an_object": ("one JSON object a record", "send each record as its own object"),
    "unknown_kind": ("'trace', 'part' or 'feedback'", 'send "kind": "trace"'),
    "invalid_field": ("what the JSON Schema says", "see `tracejudge contract schema`"),
    "unmapped": ("what [intake.mapping] names", "correct the path in the settings, or the record"),
}
_KINDS: Final = _WHOLE["unknown_kind"]

# pydantic's type of fault -> (what is allowed, what to do). {names} are filled from the fault's context.
_TYPES: Final[Mapping[str, tuple[str, str]]] = {
    "missing": ("it is required", "send it"),
    "string_type": ("a text", "send a JSON string"),
    "string_too_short": ("at least {min_length} character", "send a name, not an empty text"),
    "string_too_long": ("at most {max_length} characters", "shorten it, or put it into tags"),
    "string_unicode": ("text that UTF-8 can hold", "replace lone surrogates by U+FFFD"),
    "literal_error": ("{expected}", "send one of these"),
    "bool_type": ("true or false", "send a JSON boolean, not a text or a number"),
    "float_type": ("a number", "send a JSON number, not a text"),
    "int_type": ("a whole number", "send a JSON number, not a text"),
    "finite_number": ("a finite number", "send null where there is none"),
    "greater_than_equal": ("at least {ge}", "correct it, or leave it out"),
    "less_than_equal": ("at most {le}", "correct it, or leave it out"),
    "tuple_type": ("a list", "send a JSON array"),
    "list_type": ("a list", "send a JSON array"),
    "dict_type": ("an object", "send a JSON object of names and values"),
    "model_type": ("an object", 'send a JSON object; a passage is {"node_id": "...", "text": "..."}'),
}

# Where the field says more than the type of fault.
_FIELDS: Final[Mapping[str, str]] = {
    "trace_id": "send an id of your own or a UUIDv7; the same one when you send the trace again",
    "app": "send the name of the service that answers",
    "event_time": 'send when the answer was served, with its zone, as "2026-01-31T12:00:00Z"',
    "query": "send what was asked, as text",
    "response": "send the final answer as text, or null when there was none",
    "source_nodes": 'send the passages as [{"node_id": "...", "text": "...", "score": 0.5}]',
    "head_probability": "send the share of traces you log, such as 0.25; 1 if you log all",
    "feedback_id": "send an id of the feedback, the same one when you send it again",
}


def _fault(reason: str, found: ErrorDetails) -> Fault:
    kind, context = found["type"], found.get("ctx", {})
    message = found["msg"].removeprefix("Value error, ")
    limit, remedy = _TYPES.get(kind, (message, "correct it"))
    if kind in _TYPES:
        limit = limit.format_map({name: str(value) for name, value in context.items()})
    name = str(found["loc"][-1]) if found["loc"] else ""
    if len(found["loc"]) == 1 and name in _FIELDS and kind not in ("string_too_long", "greater_than_equal"):
        remedy = _FIELDS[name]
    return Fault(
        reason=reason,
        field=_clean(_path(found["loc"]), 120),
        value="is missing" if kind == "missing" else _seen(kind, found["input"]),
        limit=_clean(limit),
        remedy=remedy,
    )


def _seen(kind: str, value: Any) -> str:
    if kind == "string_too_long" and isinstance(value, str):
        return f"a text of {len(value)} characters"
    return short(value)


def short(value: Any) -> str:
    """A value as it may be shown: at most 80 characters, whatever it is."""
    try:
        text = _REPR.repr(value)
    except Exception:  # noqa: BLE001 - a repr may raise anything (whole numbers of 5000 digits do)
        text = f"<{type(value).__name__}>"
    return _clean(text, 80)


def _path(loc: tuple[int | str, ...]) -> str:
    return ".".join(map(str, loc))


def _clean(text: str, limit: int = 300) -> str:
    text = text.encode("utf-8", "replace").decode()
    return text if len(text) <= limit else text[: limit - 1] + "…"


_REPR: Final = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = _REPR.maxlong = 80
