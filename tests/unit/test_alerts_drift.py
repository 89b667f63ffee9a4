"""Rules against a learned baseline: what fires, what stays silent, and what people may do about it."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from tests.support.verdicts import row, verdicts
from tracejudge.alerts import AlertEvent, DriftRule, Engine, MaxDropRule, MinimumRule, Rule, SeriesKey
from tracejudge.alerts.rules.rule import RULE
from tracejudge.alerts.series.snapshots import SeriesSnapshot
from tracejudge.alerts.series.state import Series, Turn
from tracejudge.alerts.series.wording import percent
from tracejudge.scores import JudgeId

DAY = 1440  # verdicts come once a minute
DRIFT: Rule = DriftRule(name="drift", type="drift", judge="lexical", no_data_after="never")
MAX_DROP: Rule = MaxDropRule(
    name="drop", type="max_drop", judge="lexical", max_drop=0.05, reference="3d", no_data_after="never"
)


def kinds(events: list[AlertEvent]) -> list[str]:
    return [event.kind for event in events]


def test_a_fall_from_what_it_has_been_fires_once_and_resolves() -> None:
    engine = Engine([DRIFT])
    rates = [0.95] * (5 * DAY) + [0.80] * 400 + [0.95] * DAY
    fell, back = engine.fold(verdicts(rates, seed=1))
    assert (fell.kind, back.kind) == ("firing", "resolved")
    assert fell.summary.startswith("lexical of shop fell from its learned baseline of 9")
    assert "expected less than one such false alarm in 30 days" in fell.summary
    evidence: Any = fell.evidence
    assert evidence["type"] == "drift"
    assert evidence["baseline"] == pytest.approx(0.95, abs=0.01)
    assert evidence["boundary"] < evidence["baseline"]
    assert evidence["before"]["rate"] == pytest.approx(0.95, abs=0.01)
    assert "the firing boundary is" in back.summary


def test_a_drop_is_told_under_the_name_of_what_it_is_held_against() -> None:
    engine = Engine([MAX_DROP])
    (fell,) = engine.fold(verdicts([0.95] * (5 * DAY) + [0.75] * 400, seed=1))
    level: Any = fell.evidence["baseline"]
    assert f"lexical of shop fell more than 5 points below its reference of {percent(level)}: about " in fell.summary


def test_whatever_level_it_has_is_normal() -> None:
    for seed, rate in enumerate((0.99, 0.9, 0.6, 0.3)):
        engine = Engine([DRIFT])
        assert engine.fold(verdicts([rate] * (6 * DAY), seed=seed)) == []
        (status,) = engine.status()
        assert status.state in ("ok", "pending")
        assert status.baseline == pytest.approx(rate, abs=0.03)


def test_it_warms_up_and_sharpens_by_itself() -> None:
    engine = Engine([DRIFT])
    stream = verdicts([0.95] * (6 * DAY), seed=2)
    engine.fold(stream[:30])
    (status,) = engine.status()
    assert (status.state, status.boundary, status.smallest_drop) == ("warming_up", None, None)
    engine.fold(stream[30:DAY])
    (young,) = engine.status()
    engine.fold(stream[DAY:])
    (old,) = engine.status()
    assert young.smallest_drop is not None
    assert old.smallest_drop is not None
    assert old.smallest_drop < young.smallest_drop
    assert old.state == "ok"


def test_a_new_judge_starts_a_baseline_of_its_own_and_alarms_nobody() -> None:
    engine = Engine([DRIFT])
    engine.fold(verdicts([0.95] * (4 * DAY), seed=3))
    stricter = [
        row(4 * DAY + k, passed=verdict.outcome.value == "passed", judge_id=JudgeId("lexical@222222222222"))
        for k, verdict in enumerate(verdicts([0.7] * DAY, seed=4))
    ]
    (said,) = engine.fold(stricter)
    assert (said.kind, said.severity) == ("judge_changed", "ticket")
    assert said.summary.endswith("drift relearns its baseline, as no answer was judged by both")
    states = {status.key.judge_id: status for status in engine.status()}
    assert states["lexical@222222222222"].baseline == pytest.approx(0.7, abs=0.05)


def test_a_fall_smaller_than_matters_is_not_told() -> None:
    careful = DriftRule(name="drift", type="drift", judge="lexical", min_drop=0.2, no_data_after="never")
    rates = [0.95] * (4 * DAY) + [0.88] * (2 * DAY)
    assert kinds(Engine([DRIFT]).fold(verdicts(rates, seed=5))) == ["firing"]
    assert Engine([careful]).fold(verdicts(rates, seed=5)) == []


def test_a_slow_decline_passes_into_a_growing_baseline_but_not_past_a_reference() -> None:
    days = 30
    rates = [0.95 - 0.15 * max(0, minute - 3 * DAY) / ((days - 3) * DAY) for minute in range(0, days * DAY, 6)]
    stream = [row(6 * k, passed=verdict.outcome.value == "passed") for k, verdict in enumerate(verdicts(rates, seed=6))]
    fired = [event for event in Engine([MAX_DROP]).fold(stream) if event.kind == "firing"]
    assert fired
    assert "more than 5 points below its reference" in fired[0].summary


def first_turn(series: Series, rates: list[float], *, seed: int, first: int = 0) -> Turn | None:
    """Folds verdicts until the series changes its mind."""
    turns = (series.fold(score, alarm_hours=720.0) for score in verdicts(rates, seed=seed, first=first))
    return next((turn for turn in turns if turn is not None), None)


def drifting() -> Series:
    key = SeriesKey(rule="drift", environment="production", app="shop", judge_name="lexical", judge_id="lexical@1")
    return Series(key=key, rule=DRIFT)


def test_what_is_accepted_is_the_new_normal() -> None:
    series = drifting()
    assert first_turn(series, [0.95] * (4 * DAY) + [0.8] * DAY, seed=7) is Turn.FIRED
    series.accept()
    assert series.baseline is not None
    assert series.baseline.m < 0.9  # few rows so far, picked at their worst: it goes on learning
    assert first_turn(series, [0.8] * (3 * DAY), seed=8, first=6 * DAY) is None
    assert series.baseline.m == pytest.approx(0.8, abs=0.04)
    assert first_turn(series, [0.6] * 600, seed=9, first=9 * DAY) is Turn.FIRED


def test_a_dismissed_alarm_teaches_the_baseline() -> None:
    series = drifting()
    assert first_turn(series, [0.95] * (4 * DAY) + [0.85] * 600, seed=10) is Turn.FIRED
    assert series.baseline is not None
    before = series.baseline.hours
    series.dismiss()
    assert series.alert is None
    assert series.baseline.hours > before + 40  # the two days of lag, and what came since
    assert series.detector.evidence_hours == 0.0


def test_batches_and_restarts_change_nothing() -> None:
    stream = verdicts([0.95] * (3 * DAY) + [0.8] * 500 + [0.95] * 900, seed=11)
    straight = Engine([DRIFT, MAX_DROP])
    events = straight.fold(stream)
    engine = Engine([DRIFT, MAX_DROP])
    told: list[AlertEvent] = []
    for begin in range(0, len(stream), 700):
        told += engine.fold(stream[begin : begin + 700])
        taken = [SeriesSnapshot(s.name, s.state) for s in engine.snapshot()]
        engine = Engine([DRIFT, MAX_DROP])
        assert engine.restore(taken) == []
    assert told == events
    assert engine.status() == straight.status()


def test_another_question_starts_anew() -> None:
    engine = Engine([DRIFT])
    engine.fold(verdicts([0.95] * (3 * DAY), seed=12))
    other = DriftRule(name="drift", type="drift", judge="lexical", min_drop=0.05)
    changed = Engine([other])
    changed.restore(engine.snapshot())
    assert changed.status() == []


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"type": "drift", "min_drop": 3}, "less than or equal to 0.5"),
        ({"type": "max_drop"}, "max_drop"),
        ({"type": "max_drop", "max_drop": 0.05, "reference": "90d"}, "between 1 hour and 28 days"),
        ({"type": "trend"}, "write minimum, drift, max_drop, threshold or volume"),
    ],
)
def test_a_rule_that_cannot_be_is_refused_with_the_remedy(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        RULE.validate_python({"name": "r", "judge": "lexical", **fields})


def test_a_rule_without_a_type_is_a_minimum() -> None:
    assert isinstance(RULE.validate_python({"name": "r", "judge": "lexical", "minimum": 0.8}), MinimumRule)
