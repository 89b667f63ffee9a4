"""Record <-> bytes: JSON in UTF-8, one object a record, with the size rules.

A record above the limit is cut by one documented rule: the longest texts are shortened first, to one common length on
character boundaries; ids, scores and every short field stay; `truncated` becomes true.
"""

from __future__ import annotations

import json
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from tracejudge_sdk.errors import RecordError, RecordTooLarge
from tracejudge_sdk.trace import SCHEMA_VERSION, Feedback, Record, Trace, TracePart

DEFAULT_MAX_RECORD_BYTES: Final = 900_000
"""Below Kafka's default message.max.bytes (1 048 588), with room for key, headers and framing."""

_KINDS: Final[dict[str, type[Record]]] = {"trace": Trace, "part": TracePart, "feedback": Feedback}


def encode(record: Record, *, max_bytes: int = DEFAULT_MAX_RECORD_BYTES) -> bytes:
    """The record as JSON bytes of at most `max_bytes`, cut by the rule above where it must be.

    Raises RecordTooLarge when even with every text cut away it stays above the limit.
    """
    data = _dump(record)
    if len(data) <= max_bytes:
        return data
    if isinstance(record, Feedback):
        comment = record.comment or ""
        over = len(data) - max_bytes
        shorter = comment.encode()[: max(0, len(comment.encode()) - over)].decode("utf-8", "ignore")
        data = _dump(record.model_copy(update={"comment": shorter}))
        if len(data) > max_bytes:
            raise RecordTooLarge(len(data), max_bytes)
        return data
    return _dump(fit(record, max_bytes=max_bytes))


def fit(record: Trace | TracePart, *, max_bytes: int) -> Trace | TracePart:
    """The record with its longest texts cut to one common length so that it encodes to at most `max_bytes`."""
    size = len(_dump(record))
    if size <= max_bytes:
        return record
    low, high = 0, max(_text_lengths(record), default=0)
    best: Trace | TracePart | None = None
    while low <= high:
        limit = (low + high) // 2
        candidate = _cut(record, limit)
        if len(_dump(candidate)) <= max_bytes:
            best, low = candidate, limit + 1
        else:
            high = limit - 1
    if best is None:
        raise RecordTooLarge(len(_dump(_cut(record, 0))), max_bytes)
    return best


def decode(data: bytes) -> Record:
    """The record held by `data`.

    Raises RecordError with a stable reason: `not_utf8`, `not_json`, `not_an_object`, `schema_too_new`, `unknown_kind`
    or `invalid_field` (then naming the field).
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise RecordError("not_utf8", f"record is not UTF-8 at byte {error.start}") from error
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RecordError("not_json", f"record is not JSON: {error}") from error
    return from_object(value)


def from_object(value: Any) -> Record:
    """The record held by a parsed JSON object. Raises RecordError as `decode` does."""
    if not isinstance(value, dict):
        raise RecordError("not_an_object", f"record is a JSON {type(value).__name__}, not an object")
    version = value.get("schema_version")
    if isinstance(version, int) and not isinstance(version, bool) and version > SCHEMA_VERSION:
        raise RecordError(
            "schema_too_new",
            f"schema_version: {version} is newer than {SCHEMA_VERSION}, the newest this release reads: "
            "upgrade the consumer, then replay its dead letters",
            field="schema_version",
        )
    kind = value.get("kind")
    model = _KINDS.get(kind) if isinstance(kind, str) else None
    if model is None:
        raise RecordError("unknown_kind", f"kind: {kind!r} is not one of {', '.join(map(repr, _KINDS))}", field="kind")
    missing = [name for name in ("schema_version",) if name not in value]
    if missing:
        raise RecordError("invalid_field", "schema_version: Field required", field="schema_version")
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise _record_error(error) from error


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a record, for producers in other languages."""
    schema = TypeAdapter(Record).json_schema(mode="validation", ref_template="#/$defs/{model}")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"tracejudge record, schema_version {SCHEMA_VERSION}",
        **schema,
    }


def _record_error(error: ValidationError) -> RecordError:
    first = error.errors(include_url=False, include_context=False)[0]
    field = ".".join(map(str, first["loc"]))
    value = repr(first["input"])
    if len(value) > 80:
        value = value[:77] + "..."
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    return RecordError("invalid_field", f"{field}: {first['msg']}, got {value}{more}", field=field)


def _dump(record: Record) -> bytes:
    return record.model_dump_json(exclude_defaults=False).encode()


def _text_lengths(record: Trace | TracePart) -> list[int]:
    texts = [record.query or "", record.response or "", record.reference or "", record.error or ""]
    texts += [node.text or "" for node in record.source_nodes or ()]
    texts += [turn.content for turn in record.history or ()]
    texts += [value for node in record.source_nodes or () for value in node.metadata.values() if isinstance(value, str)]
    texts += list((record.tags or {}).values())
    return [len(text) for text in texts]


def _cut(record: Trace | TracePart, limit: int) -> Trace | TracePart:
    def short(text: str | None) -> str | None:
        return text if text is None else text[:limit]

    nodes = record.source_nodes
    if nodes is not None:
        nodes = tuple(
            node.model_copy(
                update={
                    "text": short(node.text),
                    "metadata": {k: short(v) if isinstance(v, str) else v for k, v in node.metadata.items()},
                }
            )
            for node in nodes
        )
    history = record.history
    if history is not None:
        history = tuple(turn.model_copy(update={"content": short(turn.content)}) for turn in history)
    return record.model_copy(
        update={
            "query": short(record.query),
            "response": short(record.response),
            "reference": short(record.reference),
            "error": short(record.error),
            "source_nodes": nodes,
            "history": history,
            "tags": None if record.tags is None else {k: v[:limit] for k, v in record.tags.items()},
            "truncated": True,
        }
    )
