"""Rows of `traces` as the traces they were: what a replay does a million times, so a column at a time.

The columns held a valid trace when they were written; validating megabytes of text again would cost for nothing.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from itertools import chain, islice, repeat
from typing import Any, Final

from pydantic import BaseModel

from tracejudge.store.blocks import Column
from tracejudge.store.rows import StoredTrace
from tracejudge.store.values import from_json, from_milliseconds
from tracejudge_sdk.trace import SCHEMA_VERSION, SourceNode, Trace, Turn

_PLAIN: Final = (
    "trace_id", "app", "environment", "version", "query", "response", "status", "error", "reference", "case_id",
    "latency_ms", "model", "prompt_version", "index_version", "category", "session_id", "user_id", "language",
    "truncated", "lossy", "head_probability", "sdk",
)  # fmt: skip
TEXTS: Final = ("query", "response", "error", "reference", "node_texts", "history_contents")
_at: Final = datetime.fromtimestamp
_UTC: Final = timezone.utc
_WIRE: Final = {"schema_version": SCHEMA_VERSION, "kind": "trace"}
# Of a trace that was read, every field counts as given. One set for all: pydantic copies it before it changes it.
_TRACE_FIELDS: Final = set(Trace.model_fields)
_NODE_FIELDS: Final = set(SourceNode.model_fields)
_TURN_FIELDS: Final = set(Turn.model_fields)
# The models are frozen, and their own setters would say so.
_new: Final = object.__new__
_put_values: Final = BaseModel.__dict__["__dict__"].__set__
_put_given: Final = BaseModel.__dict__["__pydantic_fields_set__"].__set__
_put_extra: Final = BaseModel.__dict__["__pydantic_extra__"].__set__
_put_private: Final = BaseModel.__dict__["__pydantic_private__"].__set__


class TraceReader:
    """Columns of these names, a cell a trace, into values."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = tuple(names)

    def __call__(self, columns: Sequence[Column]) -> list[StoredTrace]:
        if not columns:  # of no rows the driver does not know the columns either
            return []
        cells = dict(zip(self._names, columns, strict=True))
        fields = {
            **{name: cells[name] for name in _PLAIN},
            **{name: repeat(value, len(columns[0])) for name, value in _WIRE.items()},
            # A float holds milliseconds to less than half a microsecond until the year 2242.
            "event_time": [_at(ms / 1000, _UTC) for ms in cells["event_time"]],
            "source_nodes": _nodes(
                cells["node_ids"], cells["node_texts"], cells["node_scores"], cells["node_metadata"]
            ),
            "history": _histories(cells["history_roles"], cells["history_contents"]),
            "expected_ids": map(tuple, cells["expected_ids"]),
            "tags": map(dict, cells["tags"]),
        }
        names = tuple(fields)
        values = [dict(zip(names, row, strict=True)) for row in zip(*fields.values(), strict=True)]
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
                texts_expired=left < chars,
            )
            for trace, signals, ms, source, partition, offset, left, chars in zip(
                _made(Trace, values, _TRACE_FIELDS),
                cells["signals"],
                cells["ingested_at"],
                cells["source"],
                cells["partition"],
                cells["offset"],
                map(text_chars, *(cells[name] for name in TEXTS)),
                cells["text_chars"],
                strict=True,
            )
        ]


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
    ids: Sequence[Sequence[str]],
    texts: Sequence[Sequence[str | None]],
    scores: Sequence[Sequence[float | None]],
    metadata: Sequence[Sequence[str]],
) -> Iterator[tuple[SourceNode, ...]]:
    """The passages of each trace."""
    # Texts expire before the rest: then these lists are empty while the ids are still there.
    every_text = chain.from_iterable(of or [None] * len(known) for of, known in zip(texts, ids, strict=True))
    every_meta = chain.from_iterable(of or ["{}"] * len(known) for of, known in zip(metadata, ids, strict=True))
    values = [
        {"node_id": node_id, "text": text, "score": score, "metadata": {} if meta == "{}" else json.loads(meta)}
        for node_id, text, score, meta in zip(
            chain.from_iterable(ids), every_text, chain.from_iterable(scores), every_meta, strict=True
        )
    ]
    made = iter(_made(SourceNode, values, _NODE_FIELDS))
    return (tuple(islice(made, len(known))) for known in ids)


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
