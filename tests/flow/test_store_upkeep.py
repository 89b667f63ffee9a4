"""The leader keeps the store: long windows are rolled up, and who was forgotten late is swept out, once a minute."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from tracejudge.errors import StoreError
from tracejudge.store import RateQuery, Store, StoredTrace, TraceFilter
from tracejudge.testing import ManualClock, make_score, make_trace
from tracejudge_consumer.alerting.loop import AlertLoop
from tracejudge_consumer.alerting.store_upkeep import EVERY_S, StoreUpkeep

START = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
DAY = RateQuery(start=START, end=START + timedelta(days=1))


def test_a_tick_of_the_leader_rolls_up_and_sweeps(store: Store) -> None:
    store.scores.insert([make_score(number) for number in range(90)])
    store.forgetting.forget("user", "u1", at=START)
    store.traces.insert([StoredTrace(trace=make_trace(1, user_id="u1"), ingested_at=START)])
    loop = AlertLoop(store=store, rules=[], notifiers=[], clock=ManualClock(START), holder="one")
    loop.tick()
    assert sum(row.bucket.n for row in store.minutes.buckets(DAY)) == 90 - 1, "the score of the forgotten trace is gone"
    assert store.traces.count(TraceFilter()) == 0
    loop.close()


def test_it_is_done_once_a_minute_and_a_fault_of_it_silences_nobody(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock(START)
    upkeep = StoreUpkeep(store, clock)
    assert upkeep.run_if_due()
    assert not upkeep.run_if_due()
    clock.advance(EVERY_S)

    def refused() -> int:
        raise StoreError("no right to INSERT", code=497)

    monkeypatch.setattr(store.minutes, "rollup", refused)
    assert not upkeep.run_if_due()
    assert "no right to INSERT" in caplog.text
    monkeypatch.undo()
    assert not upkeep.run_if_due(), "it is tried again a minute later, not at each tick"
    clock.advance(EVERY_S)
    assert upkeep.run_if_due()
