"""A replay takes nothing on while live traffic lags, and goes on when it has caught up."""

from __future__ import annotations

import pytest

from tests.support.panels import lexical_spec, make_panel
from tracejudge.judging import RunCaps
from tracejudge.replay import Selection, StoreSource, open_run, replay
from tracejudge.store import Store, StoredTrace, TraceFilter
from tracejudge.testing import ManualClock, make_trace

pytest.importorskip("chdb", reason="the embedded store needs the extra 'embedded'")


async def test_a_replay_waits_while_live_traffic_lags(store: Store) -> None:
    clock = ManualClock()
    traces = [make_trace(number) for number in range(5)]
    store.traces.insert([StoredTrace(trace=trace, ingested_at=clock.now()) for trace in traces])
    lagging, waits = [True, True, False], []

    async def sleep(seconds: float) -> None:
        assert store.query("SELECT count() FROM scores")[0][0] == 0
        waits.append(seconds)

    spec, where = lexical_spec(), TraceFilter()
    selection = Selection(where=where)
    run = open_run(store, "again", specs=[spec], selection=selection, caps=RunCaps(), now=clock.now())
    report = await replay(
        store,
        make_panel(spec),
        specs=[spec],
        source=StoreSource(store, where),
        run=run,
        clock=clock,
        live_lags=lambda: lagging.pop(0),
        sleep=sleep,
    )
    assert waits == [10.0, 10.0]
    assert report.passed + report.failed == 5
