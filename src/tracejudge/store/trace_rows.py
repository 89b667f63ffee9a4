"""Rows of `traces` as the traces they were: what a replay does a million times, so a column at a time.

The columns held a valid trace when they were written; validating megabytes of text again would cost for nothing.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from itertools import chain, islice, repeat
from operator import setitem
from typing import Any, Final, NamedTuple

from pydantic import BaseModel

from tracejudge.store.blocks import Column
from tracejudge.store.rows import StoredTrace, TracePlace
from tracejudge.store.values import from_json, from_milliseconds
from tracejudge_sdk.trace import SourceNode, Trace, Turn

_PLAIN: Final = (
    "trace_id", "app", "environment", "version", "query", "response", "status", "error", "reference", "case_id",
    "latency_ms", "model", "prompt_version", "index_version", "category", "session_id", "user_id", "language",
    "truncated", "lossy", "head_probability", "sdk",
)  # fmt: skip
TEXTS: Final = ("query", "response", "error", "reference", "node_texts", "history_contents")
_at: Final = datetime.fromtimestamp
_UTC: Final = timezone.utc
# Of a trace that was read, every field counts as given. One set for all: pydantic copies it before it changes it.
_TRACE_FIELDS: Final = set(Trace.model_fields)
# What a field is where nothing is said. In their order, which is that of a trace written out.
_UNSAID: Final = {name: field.get_default(call_default_factory=True) for name, field in Trace.model_fields.items()}
_NODE_FIELDS: Final = set(SourceNode.model_fields)
_TURN_FIELDS: Final = set(Turn.model_fields)
# The models are frozen, and their own setters would say so.
_new: Final = object.__new__
_put_values: Final = BaseModel.__dict__["__dict__"].__set__
_put_given: Final = BaseModel.__dict__["__pydantic_fields_set__"].__set__
_put_extra: Final = BaseModel.__dict__["__pydantic_extra__"].__set__
_put_private: Final = BaseModel.__dict__["__pydantic_private__"].__set__


class TraceBatch(NamedTuple):
    """Traces in the order of their rows; `expired` are the places of those whose texts had their time."""

    traces: list[Trace]
    expired: frozenset[int]


class TraceReader:
    """Columns of these names, a cell a trace, into values."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = tuple(names)

    def __call__(self, columns: Sequence[Column]) -> list[StoredTrace]:
        if not columns:  # of no rows the driver does not know the columns either
            return []
        cells = dict(zip(self._names, columns, strict=True))
        batch = _batch(cells)
        # Batches come in together: most instants are those of a neighbour.
        ingested = {ms: from_milliseconds(ms) for ms in set(cells["ingested_at"])}
        return [
            StoredTrace(
                trace=trace,
                signals={} if signals == "{}" else from_json(signals),
                ingested_at=ingested[ms],
                source=source,
                partition=partition,
                offset=offset,
                texts_expired=place in batch.expired,
            )
            for place, (trace, signals, ms, source, partition, offset) in enumerate(
                zip(
                    batch.traces,
                    cells["signals"],
                    cells["ingested_at"],
                    cells["source"],
                    cells["partition"],
                    cells["offset"],
                    strict=True,
                )
            )
        ]


SERVED: Final = (
    *_PLAIN, "event_time", "node_ids", "node_texts", "node_scores", "node_metadata", "history_roles",
    "history_contents", "expected_ids", "tags", "text_chars",
)  # fmt: skip
"""The columns of whole traces."""

ASKED: Final = (
    "trace_id", "app", "environment", "version", "query", "response", "status", "error", "reference", "model",
    "category", "truncated", "head_probability", "event_time", "node_texts", "history_roles", "history_contents",
    "text_chars",
)  # fmt: skip
"""What a prompt or a score of ours can hold; the other fields of such traces are as if nothing was said."""


class TraceColumns:
    """Rows of `SERVED` or `ASKED`: traces without what is known of them beside, at half the cost of a StoredTrace.

    They are made a part at a time, so that no more of them than are wanted are there beside their texts.
    """

    def __init__(self, names: Sequence[str], columns: Sequence[Column]) -> None:
        self._cells = dict(zip(names, columns, strict=True)) if columns else dict.fromkeys(names, ())

    def __len__(self) -> int:
        return len(self._cells["trace_id"])

    def part(self, first: int, end: int) -> TraceBatch:
        """The traces of these rows, as of a slice."""
        cells = {name: column[first:end] for name, column in self._cells.items()}
        return _batch(cells) if cells["trace_id"] else TraceBatch([], frozenset())

    def place(self, row: int) -> TracePlace:
        """Where a row stands in the order in which traces are streamed."""
        cells = {name: self._cells[name][row] for name in ("event_time", "trace_id", "environment", "app")}
        return TracePlace(**{**cells, "event_time": _at(cells["event_time"] / 1000, _UTC)})

    @property
    def chars(self) -> int:
        """The number of characters of all texts, as they were stored."""
        return sum(self._cells["text_chars"])


def _batch(cells: Mapping[str, Column]) -> TraceBatch:
    rows = len(cells["trace_id"])
    fields: dict[str, Iterable[Any]] = {
        # A float holds milliseconds to less than half a microsecond until the year 2242.
        "event_time": [_at(ms / 1000, _UTC) for ms in cells["event_time"]],
        "source_nodes": _nodes(
            cells.get("node_ids"), cells["node_texts"], cells.get("node_scores"), cells.get("node_metadata")
        ),
        "tags": map(dict, cells["tags"]) if "tags" in cells else [{} for _ in range(rows)],
    }
    # Most fields say the same in a whole block (nothing, often), and are not told again for each trace.
    alike = dict(_UNSAID)
    for name in cells.keys() & _PLAIN:
        column = cells[name]
        if column.count(column[0]) == rows:
            alike[name] = column[0]
        else:
            fields[name] = column
    if any(cells["history_roles"]):
        fields["history"] = _histories(cells["history_roles"], cells["history_contents"])
    if any(cells.get("expected_ids", ())):
        fields["expected_ids"] = map(tuple, cells["expected_ids"])
    # To copy what is alike and to change the rest a column at a time: half of what a new dictionary for each row takes.
    values = [alike.copy() for _ in range(rows)]
    for name, given in fields.items():
        deque(map(setitem, values, repeat(name), given), maxlen=0)
    return TraceBatch(_made(Trace, values, _TRACE_FIELDS), _expired(cells))


def _expired(cells: Mapping[str, Column]) -> frozenset[int]:
    """The places of the traces that have fewer characters than were stored."""
    # Only the fewer: so where the sums agree each of them does, and the sums cost a fifth of looking at each.
    left = sum(
        sum(map(len, filter(None, texts)))
        for texts in (
            *(cells[name] for name in ("query", "response", "error", "reference")),
            chain.from_iterable(cells["node_texts"]),
            chain.from_iterable(cells["history_contents"]),
        )
    )
    if left == sum(cells["text_chars"]):
        return frozenset()
    of_each = map(text_chars, *(cells[name] for name in TEXTS))
    pairs = enumerate(zip(of_each, cells["text_chars"], strict=True))
    return frozenset(place for place, (kept, chars) in pairs if kept < chars)


def text_chars(
    query: str,
    response: str | None,
    error: str | None,
    reference: str | None,
    node_texts: Sequence[str | None],
    history_contents: Sequence[str],
) -> int:
    """Characters in the columns that expire, `TEXTS`. What was stored beside them does not, and so tells that they
    have."""
    chars = len(query) + len(response or "") + len(error or "") + len(reference or "")
    chars += sum(map(len, filter(None, node_texts)))
    return chars + sum(map(len, history_contents)) if history_contents else chars


def _nodes(
    ids: Sequence[Sequence[str]] | None,
    texts: Sequence[Sequence[str | None]],
    scores: Sequence[Sequence[float | None]] | None,
    metadata: Sequence[Sequence[str]] | None,
) -> Iterator[tuple[SourceNode, ...]]:
    """The passages of each trace; of their texts alone where the rest was not read."""
    if ids is None or scores is None or metadata is None:
        every = chain.from_iterable(texts)
        values: list[dict[str, Any]] = [{"node_id": "", "text": text, "score": None, "metadata": {}} for text in every]
        known: Sequence[Sequence[object]] = texts
    else:
        # Texts expire before the rest: then these lists are empty while the ids are still there.
        every_text = chain.from_iterable(of or [None] * len(known) for of, known in zip(texts, ids, strict=True))
        every_meta = chain.from_iterable(of or ["{}"] * len(known) for of, known in zip(metadata, ids, strict=True))
        values = [
            {"node_id": node_id, "text": text, "score": score, "metadata": {} if meta == "{}" else json.loads(meta)}
            for node_id, text, score, meta in zip(
                chain.from_iterable(ids), every_text, chain.from_iterable(scores), every_meta, strict=True
            )
        ]
        known = ids
    made = iter(_made(SourceNode, values, _NODE_FIELDS))
    return (tuple(islice(made, len(of))) for of in known)


def _histories(roles: Sequence[Sequence[str]], contents: Sequence[Sequence[str]]) -> Iterator[tuple[Turn, ...]]:
    """The turns before each trace."""
    if not any(roles):
        return repeat((), len(roles))
    values = [
        {"role": role, "content": content}
        for of_trace, said in zip(roles, contents, strict=True)
        for role, content in zip(of_trace, said or [""] * len(of_trace), strict=True)
    ]
    made = iter(_made(Turn, values, _TURN_FIELDS))
    return (tuple(islice(made, len(of_trace))) for of_trace in roles)


def _made(kind: type[Any], values: Sequence[dict[str, Any]], given: set[str]) -> list[Any]:
    """Models of this kind with these fields, one step for all at a time: a call of Python for each would cost more."""
    made = [_new(kind) for _ in values]
    for put, what in ((_put_values, values), (_put_given, repeat(given)), (_put_extra, repeat(None))):
        deque(map(put, made, what), maxlen=0)
    deque(map(_put_private, made, repeat(None)), maxlen=0)
    return made
