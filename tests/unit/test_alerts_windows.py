"""Classic thresholds: the rate of each window against a number, with how often that fires by chance beside it."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

import pytest

from tests.support.verdicts import row
from tracejudge.alerts import AlertEvent, Engine, MinimumRule, ThresholdRule
from tracejudge.alerts.event import SeriesKey
from tracejudge.alerts.rules.budget import Budget
from tracejudge.alerts.rules.chance import binomial_tail, false_alarms_per_30d
from tracejudge.scores import Score


def rule(**fields: Any) -> ThresholdRule:
    return ThresholdRule(**{"type": "threshold", "name": "classic", "judge": "lexical", "below": 0.9, **fields})


def hours(*rates: float, per_hour: int = 60, seed: int = 1) -> list[Score]:
    rng, rows = random.Random(seed), []
    for hour, rate in enumerate(rates):
        for k in range(per_hour):
            number = hour * per_hour + k
            rows.append(row(number, passed=rng.random() < rate, minute=60 * hour + 60 * k / per_hour))
    return rows


def said(events: list[AlertEvent]) -> list[tuple[str, str]]:
    return [(event.kind, event.severity) for event in events]


@pytest.mark.parametrize(
    ("below", "window", "n", "expected"),
    [
        # The figures of the design: 95 % while all is well.
        (0.90, timedelta(minutes=5), 5, 1955),
        (0.90, timedelta(minutes=15), 15, 492),
        (0.90, timedelta(hours=1), 20, 54),
        (0.90, timedelta(hours=1), 60, 21),
        (0.93, timedelta(hours=1), 60, 130),
        (0.93, timedelta(hours=1), 1000, 1.7),
    ],
)
def test_how_often_a_threshold_fires_by_chance(below: float, window: timedelta, n: int, expected: float) -> None:
    found = false_alarms_per_30d(rate=0.95, below=below, n=n, window=window)
    assert found == pytest.approx(expected, rel=0.03)


@pytest.mark.parametrize(("n", "p"), [(1, 0.5), (7, 0.9), (60, 0.95), (200, 0.5), (1000, 0.99)])
def test_the_tail_of_the_binomial_is_the_sum_of_its_terms(n: int, p: float) -> None:
    terms = [1.0]
    for _ in range(n):
        terms = [a * (1 - p) + b * p for a, b in zip([*terms, 0.0], [0.0, *terms], strict=True)]
    for k in range(-1, n + 1):
        assert binomial_tail(k, n=n, p=p) == pytest.approx(sum(terms[: k + 1]), rel=1e-9, abs=1e-12)


def test_the_expectation_is_what_a_stream_really_does() -> None:
    events = Engine([rule()]).fold(hours(*[0.95] * 720, seed=4))
    windows_below = sum(event.kind == "firing" for event in events)
    expected = false_alarms_per_30d(rate=0.95, below=0.9, n=60, window=timedelta(hours=1))
    # Two windows in a row are one alert, and thirty days have a spread of their own.
    assert abs(windows_below - expected * 0.97) < 3 * expected**0.5


def test_a_window_fires_once_it_is_complete_and_the_next_good_one_ends_it() -> None:
    events = Engine([rule()]).fold(hours(0.97, 0.97, 0.5, 0.5, 0.97, 0.97))
    assert said(events) == [("firing", "ticket"), ("resolved", "ticket")]
    fired, ended = events
    assert fired.at == row(0, minute=3 * 60 + 10).judged_at, "an hour, and ten minutes for what comes late"
    assert fired.evidence["started_about"] == row(0, minute=120).event_time.isoformat(timespec="milliseconds")
    assert "in a window of 1h (60 judged traces), below 90 %; by chance alone" in fired.summary
    assert ended.evidence["fired_event_id"] == fired.event_id
    per_month = fired.evidence["expected_false_alarms_per_30d"]
    assert isinstance(per_month, float)
    assert per_month > 0


def test_too_few_samples_decide_nothing_and_leave_an_alert_open() -> None:
    few = [row(1000 + k, passed=True, minute=120 + k) for k in range(5)]
    engine = Engine([rule()])
    events = engine.fold([*hours(0.97, 0.2), *few, row(2000, minute=260)])
    assert said(events) == [("firing", "ticket")]
    assert engine.status()[0].state == "firing"


def test_a_row_of_a_window_that_was_decided_is_counted_as_too_late() -> None:
    engine = Engine([rule()])
    late = row(5000, passed=False, minute=30, judged_at=row(0, minute=200).judged_at)
    engine.fold([*hours(0.97, 0.97, 0.97), late])
    assert engine.status()[0].too_late == 1


def test_weights_count_and_so_does_how_far_below_it_is() -> None:
    heavy = [row(k, passed=k % 10 != 0, inclusion_probability=0.05 if k % 10 == 0 else 1.0) for k in range(140)]
    events = Engine([rule(severity="page", heuristic_may_page=True, min_effective_samples=5)]).fold(heavy)
    assert said(events) == [("firing", "page")], "one in ten failed, and stands for twenty"
    mild = hours(0.97, 0.88, 0.88, 0.6, 0.97, 0.97, per_hour=400)
    events = Engine([rule(severity="page", heuristic_may_page=True, page_drop=0.1)]).fold(mild)
    assert said(events) == [("firing", "ticket"), ("escalated", "page"), ("resolved", "page")]


def test_any_restart_continues_exactly() -> None:
    rows = hours(0.97, 0.5, 0.97, 0.97, 0.5, 0.97, 0.97, per_hour=30)
    whole = Engine([rule()]).fold(rows)
    assert len(whole) == 4
    engine, parts = Engine([rule()]), []
    for first in range(0, len(rows), 17):
        parts += engine.fold(rows[first : first + 17])
        taken = engine.snapshot()
        engine = Engine([rule()])
        assert engine.restore(taken) == []
    assert parts == whole


def test_a_rule_that_promises_nothing_takes_nothing_from_the_budget() -> None:
    quality = MinimumRule(name="quality", judge="lexical", minimum=0.9)
    key = SeriesKey(rule="quality", environment="production", app="a", judge_name="lexical", judge_id="x")
    assert Budget((quality, rule())).share(key) == 1.0


@pytest.mark.parametrize("fields", [{"window": "1m"}, {"below": 1.0}, {"window": "30d"}])
def test_what_cannot_be_meant_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(fields))):
        rule(**fields)
