"""What a plan reads of stored traces: their signals, also of those that an older release stored."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest

from tracejudge.reports.sampling_plan import decidable, stored_signals, with_signals
from tracejudge.sampling import SamplingPolicy
from tracejudge.signals import compute_signals
from tracejudge.store import StoredTrace
from tracejudge.testing import make_trace

AT = datetime(2026, 1, 2, tzinfo=timezone.utc)


def test_stored_signals_are_read_and_others_computed_anew() -> None:
    traces = [make_trace(n, response=f"The limit is {'ten ' * n}users.") for n in range(3)]
    known = {**compute_signals(traces[0]).as_dict(), "response_chars": 7}
    older = {"response_chars": 7}
    stored = [
        StoredTrace(trace=traces[0], signals=known, ingested_at=AT),
        StoredTrace(trace=traces[1], signals=older, ingested_at=AT),
        StoredTrace(trace=traces[2], signals={}, ingested_at=AT),
    ]
    found = with_signals(stored)
    assert found[0] is stored[0]
    assert [one.trace for one in found] == traces
    expected = [{**known}, *(compute_signals(trace).as_dict() for trace in traces[1:])]
    assert [stored_signals(one).as_dict() for one in found] == expected
    assert [stored_signals(one).as_dict() for one in stored] == expected


@pytest.mark.parametrize(
    ("when", "left"),
    [
        ({"field": "tags.tier", "is": "gold"}, ["t-000000", "t-000001", "t-000002"]),
        ({"field": "signals.query_chars", "above": 3}, ["t-000000", "t-000002"]),
        ({"any": [{"field": "signals.refusal", "is": True}, {"field": "app", "is": "a"}]}, ["t-000000", "t-000002"]),
        ({"field": "query", "contains": "refund"}, ["t-000000"]),
        ({"all": [{"field": "error", "present": True}]}, ["t-000000"]),
    ],
)  # fmt: skip
def test_a_trace_without_its_texts_is_left_out_where_the_policy_asks_for_what_went_with_them(
    when: dict[str, Any], left: list[str]
) -> None:
    bare: dict[str, Any] = {"query": "", "response": None, "source_nodes": []}
    stored = [
        StoredTrace(trace=make_trace(0), signals={}, ingested_at=AT),
        StoredTrace(trace=make_trace(1, **bare), signals={"query_chars": 0}, ingested_at=AT, texts_expired=True),
        StoredTrace(
            trace=make_trace(2, **bare), signals=compute_signals(make_trace(2)).as_dict(), ingested_at=AT,
            texts_expired=True,
        ),
    ]  # fmt: skip
    policy = SamplingPolicy.model_validate({"rules": [{"name": "r", "rate": 1.0, "when": when}]})
    assert [one.trace.trace_id for one in decidable(stored, policy)] == left
