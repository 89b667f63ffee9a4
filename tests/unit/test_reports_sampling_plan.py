"""What a plan reads of stored traces: their signals, also of those that an older release stored."""

from __future__ import annotations

from datetime import datetime, timezone

from tracejudge.reports.sampling_plan import stored_signals, with_signals
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
