"""Record <-> bytes: JSON in UTF-8, one object a record, with the size rules.

What decoding does with JSON that only some readers accept: NaN and Infinity are refused (not JSON), of a repeated key
the last one counts (as in most readers), lone surrogates become U+FFFD (JavaScript cuts texts in the middle of a
character), whole numbers of more than 4300 digits and nesting that the parser gives up on are refused.
"""

from __future__ import annotations

import json
import reprlib
from collections.abc import Callable
from functools import cache
from typing import Any, Final, NamedTuple, NoReturn

from pydantic import ValidationError

from tracejudge_sdk import cutting
from tracejudge_sdk.errors import RecordError
from tracejudge_sdk.json_values import scrub_surrogates
from tracejudge_sdk.trace import SCHEMA_VERSION, Feedback, Record, Trace, TracePart

DEFAULT_MAX_RECORD_BYTES: Final = 900_000
"""Below Kafka's default message.max.bytes (1 048 588), with room for key, headers and framing."""

_KINDS: Final[dict[str, type[Record]]] = {"trace": Trace, "part": TracePart, "feedback": Feedback}
_MAX_MESSAGE_CHARS: Final = 500


class Encoding(NamedTuple):
    """A record as bytes, and whether texts were cut to make it fit."""

    data: bytes
    cut: bool


def encode(record: Record, *, max_bytes: int = DEFAULT_MAX_RECORD_BYTES) -> bytes:
    """The record as JSON bytes of at most `max_bytes`, cut by the rule of `tracejudge_sdk.cutting` where it must be.

    Raises RecordTooLarge when even with every text cut away it stays above the limit.
    """
    return encode_and_tell(record, max_bytes=max_bytes).data


def encode_and_tell(record: Record, *, max_bytes: int = DEFAULT_MAX_RECORD_BYTES) -> Encoding:
    """Encodes a record as `encode` does, and says whether anything was cut."""
    data = _dump(record)
    if len(data) <= max_bytes:
        return Encoding(data, cut=False)
    if isinstance(record, Feedback):
        return Encoding(_dump(cutting.fit_feedback(record, max_bytes=max_bytes, dump=_dump)), cut=True)
    return Encoding(_dump(fit(record, max_bytes=max_bytes)), cut=True)


def fit(record: Trace | TracePart, *, max_bytes: int) -> Trace | TracePart:
    """The record with its longest texts cut to one common length so that it encodes to at most `max_bytes`."""
    if isinstance(record, Trace):
        return cutting.fit(record, max_bytes=max_bytes, dump=_dump)
    return cutting.fit(record, max_bytes=max_bytes, dump=_dump)


def decode(data: bytes) -> Record:
    """The record held by `data`.

    Raises RecordError, and nothing else, with a stable reason: `not_utf8`, `not_json`, `not_an_object`,
    `schema_too_new`, `unknown_kind` or `invalid_field` (then naming the field).
    """
    quick = _quick_way()(data)
    return from_object(parse(data)) if quick is None else quick


@cache
def _quick_way() -> Callable[[bytes], Trace | None]:
    try:
        from tracejudge_sdk.quick import read_trace
    except ImportError:  # the extra `fast` is not installed: the slow way reads everything
        return lambda _: None
    return read_trace


def parse(data: bytes) -> Any:
    """The JSON value held by `data`, read by the same rules. Raises RecordError `not_utf8` or `not_json`."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise RecordError("not_utf8", f"record is not UTF-8 at byte {error.start}: send JSON in UTF-8") from error
    if not text:  # what a compacted topic keeps of a deleted key
        raise RecordError("not_json", "record is empty: send JSON, and no tombstones")
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise RecordError("not_json", f"record is not JSON: {error}") from error


def from_object(value: Any) -> Record:
    """The record held by a parsed JSON object. Raises RecordError as `decode` does."""
    if not isinstance(value, dict):
        raise RecordError("not_an_object", f"record is a JSON {type(value).__name__}, not an object: send one a record")
    _check_version(value)
    kind = value.get("kind")
    model = _KINDS.get(kind) if isinstance(kind, str) else None
    if model is None:
        known = ", ".join(map(repr, _KINDS))
        raise RecordError("unknown_kind", f"kind: {_short(kind)} is not one of {known}", field="kind")
    try:
        return model.model_validate(value)
    except ValidationError as error:
        if not _about_surrogates(error):
            raise _record_error(error) from error
    except RecursionError as error:
        raise RecordError("invalid_field", "record is nested too deep: flatten its metadata") from error
    try:
        return model.model_validate(scrub_surrogates(value))
    except ValidationError as error:
        raise _record_error(error) from error
    except RecursionError as error:
        raise RecordError("invalid_field", "record is nested too deep: flatten its metadata") from error


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a record, for producers in other languages; published as schema/record.v1.json."""
    from tracejudge_sdk.schema.build import record_schema  # not needed to log or to read

    return record_schema()


def _check_version(value: dict[str, Any]) -> None:
    if "schema_version" not in value:
        raise RecordError("invalid_field", f"schema_version: is missing, send {SCHEMA_VERSION}", field="schema_version")
    version = value["schema_version"]
    # Not isinstance: true is 1 in Python, and 1.0 is 1.
    if type(version) is int and version > SCHEMA_VERSION:
        raise RecordError(
            "schema_too_new",
            f"schema_version: {_short(version)} is newer than {SCHEMA_VERSION}, the newest this release reads: "
            "upgrade the consumer, then replay its dead letters",
            field="schema_version",
        )
    if type(version) is not int or version != SCHEMA_VERSION:
        raise RecordError(
            "invalid_field",
            f"schema_version: {_short(version)} is not the whole number {SCHEMA_VERSION}",
            field="schema_version",
        )


def _record_error(error: ValidationError) -> RecordError:
    first = error.errors(include_url=False, include_context=False)[0]
    field = ".".join(map(str, first["loc"])).encode("utf-8", "replace").decode()
    what = first["msg"].removeprefix("Value error, ").replace("a valid tuple", "a list")
    message = f"{field[:120]}: {what[:_MAX_MESSAGE_CHARS]}, got {_short(first['input'])}"
    if first["type"] == "missing":  # what pydantic saw then is all the rest, in Python's words
        message = f"{field[:120]}: is missing"
    if error.error_count() > 1:
        message += f" (and {error.error_count() - 1} more)"
    return RecordError("invalid_field", message, field=field)


def _about_surrogates(error: ValidationError) -> bool:
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    return any(fault["type"] == "string_unicode" or "lone surrogate" in fault["msg"] for fault in faults)


def _short(value: Any) -> str:
    try:
        text = _REPR.repr(value)
    except Exception:  # noqa: BLE001 - a repr may raise anything (whole numbers of 5000 digits do)
        text = f"<{type(value).__name__}>"
    return text if len(text) <= 80 else text[:77] + "..."


_REPR: Final = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = _REPR.maxlong = 80


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number: write null")


def _dump(record: Record) -> bytes:
    return record.__pydantic_serializer__.to_json(record)
