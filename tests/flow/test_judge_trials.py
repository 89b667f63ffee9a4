"""Judges on trial, and judges behind which the provider puts another model: seen, told, never mistaken for traffic."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from tests.support.judge_script import always
from tests.support.judge_server import JudgeServer
from tests.support.records import append, intake
from tests.support.running_pipeline import quick_limits
from tracejudge.alerts import AlertEvent
from tracejudge.judging import JudgeSpec, NothingSpent, Panel
from tracejudge.reports import read_rates
from tracejudge.sampling import SamplingPolicy
from tracejudge.scores import Decision, JudgeId
from tracejudge.store import RateQuery, ScoreFilter, Store
from tracejudge.testing import ManualClock, make_score, make_trace
from tracejudge.testing.builders import START
from tracejudge_consumer.background.model_changes import ModelChanges
from tracejudge_consumer.flow.pipeline import Pipeline
from tracejudge_consumer.wiring import register_judges

pytest.importorskip("chdb", reason="the embedded store needs the extra 'embedded'")


@pytest.fixture
def server() -> Iterator[JudgeServer]:
    with JudgeServer(always('{"unsupported": [], "verdict": "YES"}')) as running:
        yield running


def specs(server: JudgeServer, *, shadow: bool) -> list[JudgeSpec]:
    trial = {"name": "trial", "kind": "faithfulness", "base_url": server.base_url, "model": "judge", "shadow": shadow}
    return [
        JudgeSpec(name="lexical", kind="lexical"),
        JudgeSpec.model_validate({**trial, "max_calls_per_h": 1000}),
    ]


def consume(log: Path, store: Store, judges: list[JudgeSpec], policy: SamplingPolicy | None = None) -> None:
    register_judges(judges, store)
    panel = Panel(judges, clock=ManualClock(datetime.now(timezone.utc)), spend=NothingSpent(), environ={})
    Pipeline(
        intake=intake(log), store=store, panel=panel, policy=policy or SamplingPolicy(), limits=quick_limits()
    ).run(until_idle=True)


def runs(store: Store) -> dict[str, set[str]]:
    return {run: set(store.scores.judge_names(run)) for run in store.scores.run_ids()}


def test_a_shadow_judge_scores_live_traffic_beside_it_and_is_asked_once(
    tmp_path: Path, store: Store, server: JudgeServer
) -> None:
    log = tmp_path / "queue.db"
    append(log, [make_trace(n) for n in range(12)])
    consume(log, store, specs(server, shadow=True), SamplingPolicy(judges={"trial": 0.5}))
    judged = store.scores.count(ScoreFilter(run_id="shadow"))
    assert 0 < judged < 12
    assert server.stats.calls == judged
    assert runs(store) == {"live": {"lexical"}, "shadow": {"trial"}}
    cut = [row for n in range(12) for row in store.ledger.of_trace(f"t-{n:06d}")]
    assert {(row.run_id, row.judge_name, row.decision) for row in cut} == {("shadow", "trial", Decision.SAMPLED_OUT)}
    assert len(cut) == 12 - judged
    assert store.judges.adoptions("trial") == []
    # Its rate can be read; what rates and alerts read of live traffic does not hold it.
    whole = RateQuery(start=START - timedelta(hours=1), end=START + timedelta(hours=1), step_s=None, run_id="shadow")
    assert [(line.judge_name, line.rate.judged) for line in read_rates(store, whole) if line.rate] == [
        ("trial", judged)
    ]
    assert {line.judge_name for line in read_rates(store, replace(whole, run_id="live"))} == {"lexical"}
    folded = store.scores.since(None, until=store.now() + timedelta(hours=1), limit=1000)
    assert {score.judge_name for score in folded} == {"lexical"}
    # The same records once more: nothing is judged again in either run.
    append(log, [make_trace(n) for n in range(12)])
    consume(log, store, specs(server, shadow=True), SamplingPolicy(judges={"trial": 0.5}))
    assert server.stats.calls == judged


def test_what_a_judge_said_on_trial_settles_nothing_once_it_is_live(
    tmp_path: Path, store: Store, server: JudgeServer
) -> None:
    log = tmp_path / "queue.db"
    append(log, [make_trace(n) for n in range(3)])
    consume(log, store, specs(server, shadow=True))
    assert specs(server, shadow=True)[1].judge_id() == specs(server, shadow=False)[1].judge_id()
    append(log, [make_trace(n) for n in range(3)])
    consume(log, store, specs(server, shadow=False))
    assert runs(store) == {"live": {"lexical", "trial"}, "shadow": {"trial"}}
    assert [one.judge_id for one in store.judges.adoptions("trial")] == [specs(server, shadow=False)[1].judge_id()]


async def run_now(call: Callable[[], Any]) -> Any:
    return await asyncio.to_thread(call)


def test_a_model_or_fingerprint_not_seen_before_is_one_event(store: Store) -> None:
    now = store.now()
    told: list[AlertEvent] = []

    def judged(start: int, minutes: int, model: str, fingerprint: str, **fields: Any) -> None:
        store.scores.insert(
            [
                make_score(
                    n,
                    judge_name="faithful",
                    judge_id=JudgeId("faithful@0123456789ab"),
                    event_time=now - timedelta(hours=2),
                    judged_at=now - timedelta(minutes=minutes) + timedelta(milliseconds=n),
                    model_reported=model,
                    fingerprint=fingerprint,
                    **fields,
                )
                for n in range(start, start + 3)
            ]
        )

    def looks() -> ModelChanges:
        clock = ManualClock(now)
        return ModelChanges(store=store, calls=run_now, clock=clock, announce=told.append)  # type: ignore[arg-type]

    async def look(chore: ModelChanges) -> None:
        assert await chore.due()
        await chore.work(lambda: True)
        assert not await chore.due()

    judged(0, 60, "judge-2026-01", "fp_1")
    judged(3, 50, "", "")  # an endpoint that reports nothing says nothing
    judged(6, 45, "other", "fp_9", run_id="replay-1")
    asyncio.run(look(looks()))
    assert told == []
    judged(9, 40, "judge-2026-01", "fp_2")
    judged(12, 30, "judge-2026-01", "fp_1")
    judged(15, 20, "judge-2026-09", "fp_2")
    asyncio.run(look(looks()))
    assert [event.kind for event in told] == ["judge_changed"] * 2
    assert [event.evidence["fingerprint"] for event in told] == ["fp_2", "fp_2"]
    assert "judge-2026-09 (fp_2) instead of judge-2026-01 (fp_1)" in told[1].summary
    assert told[0].at == now - timedelta(minutes=40) + timedelta(milliseconds=9)
    # Another process, or this one started anew, means the same events.
    asyncio.run(look(looks()))
    assert [event.event_id for event in told[2:]] == [event.event_id for event in told[:2]]
    store.alert_events.insert(told)
    assert len({event.event_id for event in told}) == 2
