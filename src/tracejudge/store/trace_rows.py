"""A row of `traces` as the trace it was: what a replay does a million times, so in as few steps as Python allows.

The columns held a valid trace when they were written; validating megabytes of text again would cost for nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any, Final

from pydantic import BaseModel

from tracejudge.store.connection import Row
from tracejudge.store.rows import StoredTrace
from tracejudge.store.values import from_json, from_milliseconds
from tracejudge_sdk.trace import SCHEMA_VERSION, SourceNode, Trace, Turn

_PLAIN: Final = (
    "trace_id", "app", "environment", "version", "query", "response", "status", "error", "reference", "case_id",
    "latency_ms", "model", "prompt_version", "index_version", "category", "session_id", "user_id", "language",
    "truncated", "lossy", "head_probability", "sdk",
)  # fmt: skip
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
    """Rows of these columns into values."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = tuple(names)
        self._plain = itemgetter(*(self._names.index(name) for name in _PLAIN))

    def __call__(self, row: Row) -> StoredTrace:
        cells = dict(zip(self._names, row, strict=True))
        values = dict(zip(_PLAIN, self._plain(row), strict=True))
        values |= _WIRE
        values["event_time"] = from_milliseconds(cells["event_time"])
        values["source_nodes"] = _nodes(cells) if cells["node_ids"] else ()
        values["history"] = _turns(cells["history_roles"], cells["history_contents"]) if cells["history_roles"] else ()
        values["expected_ids"] = tuple(cells["expected_ids"])
        values["tags"] = dict(cells["tags"])
        signals = cells["signals"]
        return StoredTrace(
            trace=_made(Trace, values, _TRACE_FIELDS),
            signals={} if signals == "{}" else from_json(signals),
            ingested_at=from_milliseconds(cells["ingested_at"]),
            source=cells["source"],
            partition=cells["partition"],
            offset=cells["offset"],
            texts_expired=text_chars(cells) < cells["text_chars"],
        )


def text_chars(cells: Mapping[str, Any]) -> int:
    """Characters in the columns that expire. What was stored beside them does not, and so tells that they have."""
    plain = len(cells["query"]) + len(cells["response"] or "") + len(cells["error"] or "")
    contents = sum(map(len, cells["node_texts"] and filter(None, cells["node_texts"])))
    return plain + len(cells["reference"] or "") + contents + sum(map(len, cells["history_contents"]))


def _nodes(cells: Mapping[str, Any]) -> tuple[SourceNode, ...]:
    ids = cells["node_ids"]
    # Texts expire before the rest: then these arrays are empty while the ids are still there.
    texts = cells["node_texts"] or [None] * len(ids)
    metadata = cells["node_metadata"] or ["{}"] * len(ids)
    return tuple(
        [
            _made(
                SourceNode,
                {
                    "node_id": node_id,
                    "text": text,
                    "score": score,
                    "metadata": {} if meta == "{}" else json.loads(meta),
                },
                _NODE_FIELDS,
            )
            for node_id, text, score, meta in zip(ids, texts, cells["node_scores"], metadata, strict=True)
        ]
    )


def _turns(roles: Sequence[str], contents: Sequence[str]) -> tuple[Turn, ...]:
    pairs = zip(roles, contents or [""] * len(roles), strict=True)
    return tuple([_made(Turn, {"role": role, "content": content}, _TURN_FIELDS) for role, content in pairs])


def _made(kind: type[Any], values: dict[str, Any], given: set[str]) -> Any:
    made = _new(kind)
    _put_values(made, values)
    _put_given(made, given)
    _put_extra(made, None)
    _put_private(made, None)
    return made
