"""How judging and answering went, on the detector of the pass rate: shares with a promise and a budget of their own."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from tests.support.verdicts import row
from tracejudge.alerts import AlertEvent, DriftRule, Engine, MinimumRule
from tracejudge.alerts.event import SeriesKey
from tracejudge.alerts.rules.budget import Budget
from tracejudge.evidence import tells_of_a_fall
from tracejudge.scores import JudgeId, Score, TraceFacts, TraceKey, Usage

MEASURES: dict[str, dict[str, Any]] = {
    "invalid": {},
    "lag_s": {"at_most": 60},
    "judge_latency_ms": {"at_most": 3000},
    "tokens": {"at_most": 2000},
    "usd": {"at_most": 0.01},
    "latency_ms": {"at_most": 1500},
}


def rule(measure: str, **fields: Any) -> MinimumRule:
    values = {"name": measure, "judge": "lexical", "minimum": 0.9, "measure": measure, **MEASURES.get(measure, {})}
    return MinimumRule(**{**values, **fields})


def traffic(
    measure: str, *, bad_from: int, length: int, seed: int = 1
) -> tuple[list[Score], dict[TraceKey, TraceFacts]]:
    """One trace a minute; 3 % are bad in the measure, and half of them from `bad_from` on."""
    rng, rows, facts = random.Random(seed), [], {}
    for k in range(length):
        bad = rng.random() < (0.5 if k >= bad_from else 0.03)
        usage = Usage(
            calls=1,
            input_tokens=5000 if bad and measure == "tokens" else 500,
            output_tokens=10,
            cost_usd=0.05 if bad and measure == "usd" else 0.001,
            latency_ms=9000.0 if bad and measure == "judge_latency_ms" else 400.0,
        )
        one = row(k, passed=None if bad and measure == "invalid" else True, usage=usage)
        wait = timedelta(seconds=600 if bad and measure == "lag_s" else 20)
        rows.append(row(k, passed=None if one.score is None else True, usage=usage, judged_at=one.event_time + wait))
        facts[one.key] = TraceFacts(5000.0 if bad and measure == "latency_ms" else 300.0, {})
    return rows, facts


def fired(events: list[AlertEvent]) -> list[tuple[str, str]]:
    return [(event.kind, event.series.rule) for event in events if event.kind in ("firing", "resolved")]


@pytest.mark.parametrize("measure", MEASURES)
def test_each_measure_tells_of_its_own_trouble_and_of_no_other(measure: str) -> None:
    rows, facts = traffic(measure, bad_from=400, length=500)
    rules = [*(rule(name) for name in MEASURES), MinimumRule(name="quality", judge="lexical", minimum=0.9)]
    events = Engine(rules).fold(rows, facts=facts)
    assert fired(events) == [("firing", measure)]
    event = next(event for event in events if event.kind == "firing")
    assert event.evidence["measure"] == measure
    assert event.evidence["at_most"] == MEASURES[measure].get("at_most")
    assert "of app" in event.summary or "of shop" in event.summary
    assert "fell below 90 %" in event.summary
    healthy, known = traffic(measure, bad_from=900, length=900, seed=3)
    assert fired(Engine(rules).fold(healthy, facts=known)) == []


def backfilled(*, hours: float, count: int = 300) -> list[Score]:
    """Old traces that are judged one after the other, now."""
    late = timedelta(hours=hours)
    return [row(k, judged_at=row(k).event_time + late, minute=k) for k in range(count)]


def test_old_files_that_are_read_are_no_lag_and_a_queue_that_waits_is() -> None:
    assert fired(Engine([rule("lag_s")]).fold(backfilled(hours=24 * 90))) == []
    watched = [row(1000 + k, minute=k - 100) for k in range(60)]
    assert fired(Engine([rule("lag_s")]).fold(watched + backfilled(hours=5))) == [("firing", "lag_s")]
    counting = rule("lag_s", backfill_after="never")
    assert fired(Engine([counting]).fold(backfilled(hours=24 * 90))) == [("firing", "lag_s")]
    young = rule("lag_s", backfill_after="4h")
    assert fired(Engine([young]).fold(backfilled(hours=5))) == []
    of_days = rule("lag_s", at_most=2 * 86_400)
    assert fired(Engine([of_days]).fold(backfilled(hours=24 * 3))) == [("firing", "lag_s")], "its limit is above a day"


def test_what_was_served_before_anybody_judged_is_no_lag_and_what_came_after_is() -> None:
    """A log of this morning, read by a consumer that has just been set up, and one that does not get through it."""
    engine = Engine([rule("lag_s")])
    assert fired(engine.fold(backfilled(hours=5, count=300))) == []
    again = Engine([rule("lag_s")])
    again.restore(engine.snapshot())
    for one in (engine, again):
        events = one.fold(backfilled(hours=5, count=400)[300:])
        assert fired(events) == [("firing", "lag_s")]
    assert again.status() == engine.status()


def test_a_queue_that_waits_is_lag_also_where_its_judge_has_just_been_replaced() -> None:
    """Nobody was judging before the first verdict of a series; before that of a new JudgeId somebody was."""
    before = [row(1000 + k, minute=k - 100, judge_id=JudgeId("lexical@1")) for k in range(60)]
    waiting = [replace(one, judge_id=JudgeId("lexical@2")) for one in backfilled(hours=5)]
    assert fired(Engine([rule("lag_s")]).fold(before + waiting)) == [("firing", "lag_s")]
    elsewhere = [replace(one, app="another") for one in before]
    assert fired(Engine([rule("lag_s")]).fold(elsewhere + waiting)) == []


def test_live_traces_beside_a_backfill_are_watched_as_ever() -> None:
    live = [
        row(1000 + k, minute=k, judged_at=row(k).event_time + timedelta(hours=2 if k > 150 else 0.01))
        for k in range(300)
    ]
    old = [row(k, minute=k - 60 * 24 * 30, judged_at=one.judged_at) for k, one in enumerate(live)]
    mixed = [one for pair in zip(live, old, strict=True) for one in pair]
    assert fired(Engine([rule("lag_s")]).fold(mixed)) == [("firing", "lag_s")]
    prompt = [row(1000 + k, minute=k) for k in range(300)]
    mixed = [one for pair in zip(prompt, old, strict=True) for one in pair]
    assert fired(Engine([rule("lag_s")]).fold(mixed)) == []


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"measure": "lag_s", "at_most": 7200, "backfill_after": "2h"}, "no trace would ever be late"),
        ({"measure": "tokens", "at_most": 10, "backfill_after": "2h"}, "is about measure 'lag_s'"),
        ({"measure": "lag_s", "at_most": 60, "backfill_after": "soon"}, "is not a duration"),
    ],
)
def test_a_backfill_that_means_nothing_is_refused(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        MinimumRule(name="lag", judge="lexical", minimum=0.9, **fields)


def test_a_learned_baseline_serves_them_too() -> None:
    rows, _ = traffic("lag_s", bad_from=8000, length=8200)
    drift = DriftRule(type="drift", name="lag", judge="lexical", measure="lag_s", at_most=60)
    assert fired(Engine([drift]).fold(rows))[0] == ("firing", "lag")


def test_a_trace_that_says_nothing_about_a_measure_is_no_observation() -> None:
    cached = [row(k, passed=True, usage=Usage()) for k in range(300)]
    engine = Engine([rule("judge_latency_ms"), rule("usd"), rule("latency_ms"), rule("invalid")])
    assert fired(engine.fold(cached)) == []
    seen = {status.key.rule: status.n_eff for status in engine.status()}
    assert seen == {"judge_latency_ms": 0, "usd": 0, "latency_ms": 0, "invalid": 300}


def test_judging_counts_each_row_once_and_traffic_by_its_weight() -> None:
    same = [row(k, passed=True, content_hash="same", inclusion_probability=0.1) for k in range(50)]
    engine = Engine([rule("invalid"), rule("latency_ms"), MinimumRule(name="quality", judge="lexical", minimum=0.9)])
    engine.fold(same, facts={one.key: TraceFacts(10.0, {}) for one in same})
    seen = {status.key.rule: status.n_eff for status in engine.status()}
    assert seen["invalid"] == 50, "each copy was really judged, or failed to be"
    assert seen["latency_ms"] == 50
    assert seen["quality"] == 1


def test_health_has_a_budget_of_its_own_and_takes_nothing_from_quality() -> None:
    quality = MinimumRule(name="quality", judge="lexical", minimum=0.9)
    rules = (quality, rule("lag_s"), rule("invalid"), rule("usd"))

    def share(name: str) -> float:
        key = SeriesKey(rule=name, environment="production", app="a", judge_name="lexical", judge_id="x")
        return Budget(rules).share(key)

    assert share("quality") == 1.0
    assert [share(name) for name in ("lag_s", "invalid", "usd")] == [pytest.approx(1 / 3)] * 3


def test_how_long_judging_took_is_a_fact_also_of_a_judge_without_a_model() -> None:
    rows, _ = traffic("lag_s", bad_from=100, length=200)
    flagged = [Score(**{**_fields(one), "flags": ("heuristic",)}) for one in rows]
    (event,) = [
        event
        for event in Engine([rule("lag_s", severity="page", page_drop=0.0)]).fold(flagged)
        if event.kind == "firing"
    ]
    assert event.severity == "page"


def _fields(score: Score) -> dict[str, Any]:
    return {name: getattr(score, name) for name in Score.__slots__}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"measure": "lag_s"}, "at_most: measure 'lag_s' needs one, in seconds"),
        ({"measure": "invalid", "at_most": 3}, "at_most: measure 'invalid' has no limit"),
        ({"measure": "colour"}, "measure"),
    ],
)
def test_a_measure_without_its_limit_is_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        MinimumRule(name="r", judge="lexical", minimum=0.9, **fields)


def test_another_limit_is_another_question() -> None:
    rows, _ = traffic("lag_s", bad_from=100, length=200)
    engine = Engine([rule("lag_s")])
    assert ("firing", "lag_s") in fired(engine.fold(rows))
    other = Engine([rule("lag_s", at_most=30)])
    (closed,) = other.restore(engine.snapshot())
    assert closed.evidence["closed_because"] == "rule_changed"


def test_only_alerts_on_verdicts_have_slices_to_explain_them() -> None:
    rows, _ = traffic("lag_s", bad_from=100, length=200)
    fallen = [row(k, passed=k < 100) for k in range(200)]
    (slow,) = (event for event in Engine([rule("lag_s")]).fold(rows) if event.kind == "firing")
    (worse,) = Engine([MinimumRule(name="quality", judge="lexical", minimum=0.9)]).fold(fallen)
    assert not tells_of_a_fall(slow)
    assert tells_of_a_fall(worse)
