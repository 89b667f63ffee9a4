"""The one rule by which a record that is too large is made to fit.

The longest texts are shortened first, to one common number of characters, the largest with which the record fits.
Texts are: query, response, error, reference, the texts of source nodes and of earlier turns, tag values, and texts in
the metadata of source nodes. Ids, scores, names, keys and every text at or below the common length stay as they are,
no character is split, and `truncated` becomes true.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from tracejudge_sdk.errors import RecordTooLarge
from tracejudge_sdk.trace import Feedback, Trace, TracePart

_Cuttable = TypeVar("_Cuttable", Trace, TracePart)


def fit(record: _Cuttable, *, max_bytes: int, dump: Callable[[_Cuttable], bytes]) -> _Cuttable:
    """The record, cut so that `dump` gives at most `max_bytes`; the record itself where it fits.

    Raises RecordTooLarge when it stays above the limit with every text empty.
    """
    if len(dump(record)) <= max_bytes:
        return record
    best: _Cuttable | None = None
    # Size grows with the common length, so the largest that fits is found by halving.
    low, high = 0, max((len(text) for text in _texts(record)), default=0)
    while low <= high:
        length = (low + high) // 2
        candidate = _cut(record, length)
        if len(dump(candidate)) <= max_bytes:
            best, low = candidate, length + 1
        else:
            high = length - 1
    if best is None:
        raise RecordTooLarge(len(dump(_cut(record, 0))), max_bytes)
    return best


def fit_feedback(record: Feedback, *, max_bytes: int, dump: Callable[[Feedback], bytes]) -> Feedback:
    """The feedback with its comment cut likewise. Raises RecordTooLarge when the ids alone are above the limit."""
    comment = record.comment or ""
    best: Feedback | None = record if len(dump(record)) <= max_bytes else None
    low, high = 0, len(comment)
    while best is not record and low <= high:
        length = (low + high) // 2
        candidate = record.model_copy(update={"comment": comment[:length] if record.comment is not None else None})
        if len(dump(candidate)) <= max_bytes:
            best, low = candidate, length + 1
        else:
            high = length - 1
    if best is None:
        raise RecordTooLarge(len(dump(record.model_copy(update={"comment": None}))), max_bytes)
    return best


def _texts(record: Trace | TracePart) -> Iterator[str]:
    yield from filter(None, (record.query, record.response, record.error, record.reference))
    yield from (turn.content for turn in record.history or ())
    yield from (record.tags or {}).values()
    for node in record.source_nodes or ():
        yield node.text or ""
        yield from _texts_of_value(node.metadata)


def _texts_of_value(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _texts_of_value(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _texts_of_value(item)


def _cut(record: _Cuttable, length: int) -> _Cuttable:
    def short(text: str | None) -> str | None:
        return text if text is None else text[:length]

    changes: dict[str, Any] = {
        "query": short(record.query),
        "response": short(record.response),
        "error": short(record.error),
        "reference": short(record.reference),
        "truncated": True,
    }
    # In a part None means "says nothing", which an empty tuple would not.
    if record.history is not None:
        changes["history"] = tuple(
            turn.model_copy(update={"content": turn.content[:length]}) for turn in record.history
        )
    if record.tags is not None:
        changes["tags"] = {key: value[:length] for key, value in record.tags.items()}
    if record.source_nodes is not None:
        changes["source_nodes"] = tuple(
            node.model_copy(update={"text": short(node.text), "metadata": _cut_value(node.metadata, length)})
            for node in record.source_nodes
        )
    return record.model_copy(update=changes)


def _cut_value(value: Any, length: int) -> Any:
    if isinstance(value, str):
        return value[:length]
    if isinstance(value, dict):
        return {key: _cut_value(item, length) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_cut_value(item, length) for item in value]
    return value
