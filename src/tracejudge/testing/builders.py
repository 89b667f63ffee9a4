"""Traces and scores with every field filled in, of which a test names only what it is about."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

from tracejudge.scores import JudgeId, Outcome, Score
from tracejudge_sdk.trace import Trace

START = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)


def make_trace(number: int = 0, **fields: Any) -> Trace:
    """A healthy trace whose id and event time (START plus `number` seconds) follow from `number`."""
    values: dict[str, Any] = {
        "trace_id": f"t-{number:06d}",
        "app": "shop",
        "version": "v1",
        "event_time": START + timedelta(seconds=number),
        "query": f"What is the limit of plan {number}?",
        "response": f"The limit of plan {number} is ten users.",
        "source_nodes": [
            {
                "node_id": f"n-{number}",
                "text": f"The limit of plan {number} is ten users per account.",
                "score": 0.9,
            }
        ],
    }
    return Trace.model_validate({**values, **fields})


def make_score(number: int = 0, *, passed: bool = True, **fields: Any) -> Score:
    """A settled live score of the trace `make_trace(number)`, judged one minute after it was served."""
    event_time = START + timedelta(seconds=number)
    values: dict[str, Any] = {
        "environment": "production",
        "app": "shop",
        "version": "v1",
        "category": "",
        "trace_id": f"t-{number:06d}",
        "event_time": event_time,
        "judge_name": "lexical",
        "judge_id": JudgeId("lexical@000000000000"),
        "outcome": Outcome.PASSED if passed else Outcome.FAILED,
        "score": 1.0 if passed else 0.0,
        "judged_at": event_time + timedelta(minutes=1),
    }
    return Score(**{**values, **fields})
