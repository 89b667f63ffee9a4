"""Epochs from the leader to the consumers, on a real store: fixed ahead, chosen by event time, alike on redelivery."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.memory_store import MemoryStore
from tests.support.records import append
from tests.support.running_pipeline import run_to_the_end
from tests.support.scripted_panel import ScriptedPanel
from tracejudge.sampling import LEAD_S, Epoch, EpochBook, GovernedRates, SamplingPolicy, epoch_from_json, epoch_number
from tracejudge.sampling.governor import AIM
from tracejudge.scores import Decision, JudgeId, Usage
from tracejudge.store import SamplingEpoch, ScoreFilter, Store, StoredTrace
from tracejudge.testing import ManualClock, make_score, make_trace
from tracejudge.testing.builders import START
from tracejudge_consumer.alerting.governing import Governing
from tracejudge_consumer.alerting.store_upkeep import StoreUpkeep
from tracejudge_sdk.trace import Trace

MINUTE = timedelta(minutes=1)
POLICY = SamplingPolicy.model_validate(
    {
        "strata": [{"name": "gold", "when": {"field": "tags.tier", "is": "gold"}, "rate": 0.5}],
        "governors": [{"name": "budget", "judge": "scripted", "max_per_h": 100}],
    }
)


def epoch_row(minute: int, scale: float) -> SamplingEpoch:
    starts_at = START + minute * MINUTE
    epoch = Epoch(number=epoch_number(starts_at), starts_at=starts_at, rates={"budget": GovernedRates(scale=scale)})
    return SamplingEpoch(epoch=epoch.number, starts_at=starts_at, rates=epoch.to_json(), decided_at=starts_at)


def stored(traces: Sequence[Trace], at: datetime) -> list[StoredTrace]:
    return [
        StoredTrace(trace=trace, signals={}, ingested_at=at, source="test", partition=0, offset=n)
        for n, trace in enumerate(traces)
    ]


def test_the_rates_of_a_trace_are_those_of_its_event_time(tmp_path: Path) -> None:
    log, store = tmp_path / "queue.db", MemoryStore()
    store.sampling_epochs.rows = [epoch_row(1, 0.25), epoch_row(2, 1.0)]
    append(log, [make_trace(n) for n in range(0, 180, 2)])
    run_to_the_end(log, store, ScriptedPanel(), policy=POLICY)
    chances = {row.trace_id: row.inclusion_probability for row in store.scores.rows.values()}
    chances |= {row.trace_id: row.inclusion_probability for row in store.ledger.rows.values()}
    assert chances == {make_trace(n).trace_id: 0.25 if 60 <= n < 120 else 1.0 for n in range(0, 180, 2)}
    reasons = {row.reason for row in store.ledger.rows.values()}
    assert reasons == {"base rate 1, lowered by governor 'budget'"}


def test_redelivery_after_later_epochs_decides_alike(tmp_path: Path) -> None:
    log, first, second = tmp_path / "queue.db", MemoryStore(), MemoryStore()
    append(log, [make_trace(n) for n in range(120)])
    first.sampling_epochs.rows = [epoch_row(0, 0.3)]
    second.sampling_epochs.rows = [epoch_row(0, 0.3), epoch_row(5, 0.01), epoch_row(9, 1.0)]
    run_to_the_end(log, first, ScriptedPanel(), policy=POLICY, limits={"batch_records": 50})
    run_to_the_end(log, second, ScriptedPanel(), policy=POLICY, group="again", limits={"batch_records": 7})
    judged = [
        {row.trace_id: row.inclusion_probability for row in store.scores.rows.values()} for store in (first, second)
    ]
    assert judged[0] == judged[1]
    assert 20 < len(judged[0]) < 60


def test_live_traffic_reads_the_epochs_as_seldom_as_is_safe(tmp_path: Path) -> None:
    log, store = tmp_path / "queue.db", MemoryStore()
    now = datetime.now(START.tzinfo)
    append(log, [make_trace(n, event_time=now - timedelta(seconds=n)) for n in range(100)])
    run_to_the_end(log, store, ScriptedPanel(), policy=POLICY, limits={"batch_records": 10})
    assert store.sampling_epochs.reads == 1


def test_a_policy_without_governors_asks_for_no_epochs(tmp_path: Path) -> None:
    log, store = tmp_path / "queue.db", MemoryStore()
    append(log, [make_trace(1)])
    run_to_the_end(log, store, ScriptedPanel())
    assert store.sampling_epochs.reads == 0


def test_an_epoch_is_stored_ahead_or_not_at_all_and_once(store: Store) -> None:
    now = store.now()

    def row(seconds: float, number: int, scale: float) -> SamplingEpoch:
        return SamplingEpoch(
            epoch=number, starts_at=now + timedelta(seconds=seconds), rates={"scale": scale}, decided_at=now
        )

    epochs = store.sampling_epochs
    assert not epochs.insert_ahead(row(20, 1, 0.1), lead_s=30.0)
    assert epochs.all() == []
    assert epochs.insert_ahead(row(90, 2, 0.2), lead_s=30.0)
    assert epochs.insert_ahead(row(90, 2, 0.2), lead_s=30.0), "an answer that was lost on its way"
    assert not epochs.insert_ahead(row(90, 2, 0.9), lead_s=30.0), "the first decision for a number stands"
    assert [one.rates for one in epochs.all()] == [{"scale": 0.2}]
    assert epochs.all()[0].decided_at >= now


def test_epochs_are_read_from_the_one_in_force_on(store: Store) -> None:
    for row in (epoch_row(0, 0.1), epoch_row(10, 0.2), epoch_row(20, 0.3)):
        store.sampling_epochs.insert(row)

    def starts(begin: float, end: float | None = None) -> list[int]:
        read = store.sampling_epochs.in_force(START + begin * MINUTE, None if end is None else START + end * MINUTE)
        return [int((one.starts_at - START) / MINUTE) for one in read.epochs]

    assert starts(15) == [10, 20]
    assert starts(15, 18) == [10]
    assert starts(10) == [10, 20]
    assert starts(-5) == [0, 10, 20]
    assert starts(-5, -1) == []
    assert store.sampling_epochs.in_force(START).read_at <= store.now()


def served(store: Store, minutes: int, per_minute: int, *, until: datetime) -> list[Trace]:
    """So many traces in each of the last minutes, every fifth of them gold."""
    step = MINUTE / per_minute
    return [
        make_trace(n, event_time=until - n * step, tags={"tier": "gold"} if n % 5 == 0 else {})
        for n in range(minutes * per_minute)
    ]


def test_the_leader_fixes_rates_that_bring_the_budget(store: Store, tmp_path: Path) -> None:
    """From what consumers stored: 1200 an hour, of which a fifth asks for half; 85 of 100 an hour are aimed at."""
    log, now = tmp_path / "queue.db", store.now()
    append(log, served(store, 30, 20, until=now - timedelta(seconds=5)))
    run_to_the_end(log, store, ScriptedPanel(), policy=POLICY)
    governing = Governing(store, POLICY)
    epoch = governing.decide_next()
    assert epoch is not None
    assert epoch.starts_at - store.now() > timedelta(seconds=LEAD_S)
    assert epoch.starts_at.second == 0
    [row] = store.sampling_epochs.all()
    assert epoch_from_json(row.epoch, row.starts_at, row.rates) == epoch
    rates = epoch.rates["budget"]
    # What is spent of the running hour already depends on the minute the test runs in: at most the whole budget.
    fresh = AIM * 100 / (1200 * (0.8 + 0.2 * 0.5))
    assert rates.scale <= fresh * 1.05
    assert governing.decide_next() is None, "no newer trace: nothing new is decided"


def test_the_counts_tell_strata_chances_and_what_became_of_the_traces(store: Store, tmp_path: Path) -> None:
    log = tmp_path / "queue.db"
    traces = [make_trace(n, tags={"tier": "gold"} if n % 5 == 0 else {}, head_probability=0.5) for n in range(100)]
    append(log, traces)
    store.sampling_epochs.insert(epoch_row(1, 0.5))
    run_to_the_end(log, store, ScriptedPanel(), policy=POLICY)
    store.traces.insert(stored([make_trace(200)], START))
    found = store.sampling_counts.decided("scripted", START, START + 10 * MINUTE)
    assert {(row.minute, row.stratum, row.tail): row.traces for row in found} == {
        (START, "", 1.0): 48,
        (START, "gold", 0.5): 12,
        (START + MINUTE, "", 0.5): 32,
        (START + MINUTE, "gold", 0.25): 8,
        (START + 3 * MINUTE, "", None): 1,
    }
    judged = sum(len(batch) for batch in store.scores.stream(ScoreFilter()))
    assert (
        sum(row.scored for row in found)
        == judged
        == store.sampling_counts.judged("scripted", START, START + MINUTE * 9)
    )
    assert store.sampling_counts.frontier(START + timedelta(seconds=90)) == START + timedelta(seconds=90)
    assert store.sampling_counts.by_hour(START, START + timedelta(hours=1)) == {START: 101}


def test_money_a_day_counts_what_was_judged_today_and_what_a_verdict_cost(store: Store) -> None:
    """Six hundred verdicts at a cent are three times the day's money: hardly anything more is judged."""
    now = store.now()
    traces = [make_trace(n, event_time=now - timedelta(seconds=n)) for n in range(300)]
    store.traces.insert(stored(traces, now))
    scores = [
        make_score(
            n,
            event_time=one.event_time,
            judge_name="scripted",
            judge_id=JudgeId("scripted@000000000000"),
            usage=Usage(calls=1, cost_usd=0.01),
        )
        for n, one in enumerate(traces)
    ]
    dear = SamplingPolicy.model_validate(
        {"governors": [{"name": "money", "judge": "scripted", "max_usd_per_day": 2.0}]}
    )
    assert Governing(store, dear).decide_next() is None, "no price is known: the rates stay as written"
    store.scores.insert(scores)
    # The price is that of whole hours before: verdicts of an hour ago.
    earlier = [
        replace(one, event_time=one.event_time - timedelta(hours=2), trace_id=f"e{one.trace_id}") for one in scores
    ]
    store.scores.insert(earlier)
    epoch = Governing(store, dear).decide_next()
    assert epoch is not None
    budget = AIM * 2.0 / 0.01
    spent = sum(one.event_time.date() == epoch.starts_at.date() for one in [*scores, *earlier])
    if spent >= budget:  # at any time of the day but its first minutes
        assert epoch.rates["money"].scale == pytest.approx(1e-4, rel=0.01)
    else:
        assert epoch.rates["money"].scale < budget / 3600.0


YOUNG = SamplingPolicy.model_validate(
    {
        "rate": 0.0,
        "rules": [{"name": "first day", "when": {"field": "version_age_h", "below": 24}, "rate": 1.0}],
    }
)


def test_a_new_version_is_judged_more_in_its_first_hours_and_redelivery_agrees(store: Store, tmp_path: Path) -> None:
    now = store.now().replace(microsecond=0)
    old = [make_trace(n, version="v1", event_time=now - timedelta(days=9)) for n in range(3)]
    new = [make_trace(n + 10, version="v2", event_time=now - timedelta(minutes=n)) for n in range(3)]
    store.traces.insert(stored([*old, make_trace(5, version="v1", event_time=now), *new], now))
    epoch = Governing(store, YOUNG).decide_next()
    assert epoch is not None
    assert {key.version: at for key, at in epoch.first_seen.items()} == {"v2": now - timedelta(minutes=2)}
    later = epoch.starts_at + MINUTE
    traffic = [make_trace(100 + n, version=f"v{1 + n % 2}", event_time=later) for n in range(10)]
    found: list[Any] = []
    for group in ("one", "two"):
        log, memory, panel = tmp_path / f"{group}.db", MemoryStore(), ScriptedPanel()
        memory.sampling_epochs.rows = store.sampling_epochs.all()
        append(log, traffic)
        run_to_the_end(log, memory, panel, policy=YOUNG, group=group)
        found.append({trace for trace, _ in panel.asked})
        assert {row.decision for row in memory.ledger.rows.values()} == {Decision.SAMPLED_OUT}
    assert found[0] == found[1] == {trace.trace_id for trace in traffic if trace.version == "v2"}


def test_the_upkeep_of_the_leader_governs(store: Store) -> None:
    now = store.now()
    store.traces.insert(stored([make_trace(n, event_time=now - timedelta(seconds=n)) for n in range(300)], now))
    assert StoreUpkeep(store, ManualClock(now), policy=POLICY).run_if_due()
    book = EpochBook(epoch_from_json(one.epoch, one.starts_at, one.rates) for one in store.sampling_epochs.all())
    assert len(book) == 1
