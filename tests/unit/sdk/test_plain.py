"""The short way to bytes: the same record as the long way, or none at all."""

from __future__ import annotations

from typing import Any

import pytest

from tracejudge_sdk import codec
from tracejudge_sdk.building import to_trace
from tracejudge_sdk.capture import capture
from tracejudge_sdk.json_values import safe_repr
from tracejudge_sdk.plain import plain_encoder

DEFAULTS = {"app": "shop", "environment": "production", "version": "v1"}
ENCODE = plain_encoder(DEFAULTS)
NODE = {"node_id": "n", "text": "t", "score": 0.5}


def _both(fields: dict[str, Any]) -> tuple[Any, Any]:
    assert ENCODE is not None
    snapshot = capture(fields, "t-1", 1_750_000_000_123, 0.25)
    long = to_trace(snapshot, DEFAULTS)
    found = ENCODE(snapshot)
    return None if found is None else (codec.decode(found[0]), found[1]), (long, long.lossy)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"response": "r", "source_nodes": [NODE, {**NODE, "metadata": {"page": 1, "draft": False, "of": None}}]},
        {
            "source_nodes": [
                {**NODE, "metadata": None},
                {"node_id": "n", "text": "t"},
                {"id": 3, "content": "c", "x": "y"},
            ]
        },
        {"source_nodes": ["text", 4, {"id": "x"}, {"text": "t", "score": float("nan")}, None]},
        {"source_nodes": [{**NODE, "metadata": {"when": {1, 2}, "share": 0.25, "deep": {"a": [1]}}}]},
        {"tags": {"plan": "pro", 2: 3}, "expected_ids": ["a"], "history": [{"role": "user", "content": "c"}]},
        {"status": "error", "error": ValueError("no"), "reference": "ref", "case_id": "c", "latency_ms": 12},
        {"latency_ms": 1.5, "model": "m" * 256, "user_id": "u", "version": "", "app": "other", "language": None},
        {"response": "ü🙂\u2028", "session_id": "s"},
    ],
    ids=safe_repr,
)
def test_both_ways_give_the_same_record(fields: dict[str, Any]) -> None:
    short, long = _both({"query": "q", **fields})
    assert short == long


@pytest.mark.parametrize(
    "fields",
    [
        {"query": None},
        {"response": 5},
        {"response": "\ud800"},
        {"source_nodes": [{**NODE, "text": "\udc00"}]},
        {"source_nodes": [{**NODE, "metadata": {"n": 1 << 70}}]},
        {"latency_ms": -1},
        {"latency_ms": float("nan")},
        {"latency_ms": True},
        {"status": "done"},
        {"app": ""},
        {"model": "m" * 257},
        {"model": 5},
        {"event_time": "2026-01-01"},
        {"respnse": "r"},
        {"respnse": None},
        {"kind": "feedback"},
        {"head_probability": 0.1},
        {"tags": "pro"},
        {"case_id": 5},
    ],
    ids=safe_repr,
)
def test_what_does_not_fit_as_it_is_goes_the_long_way_or_means_the_same(fields: dict[str, Any]) -> None:
    short, long = _both({"query": "q", **fields})
    assert short is None or short == long


def test_most_calls_go_the_short_way() -> None:
    short, _ = _both({"query": "q", "response": "r", "source_nodes": [NODE] * 5, "latency_ms": 3.5, "model": "m"})
    assert short is not None
