"""A judge that fails on many traces wakes nobody about answers that may all be good, and hides no real fall."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from tests.support.verdicts import row
from tracejudge.alerts import AlertEvent, Engine, MinimumRule, ThresholdRule
from tracejudge.alerts.series.snapshots import SeriesSnapshot
from tracejudge.scores import Score

RULE = MinimumRule(name="quality", judge="lexical", minimum=0.9, severity="page", heuristic_may_page=True)


def judged(stretches: Iterable[tuple[int, float, float, float]], *, seed: int, first: int = 0) -> list[Score]:
    """Rows, one a minute, of stretches of (length, rate of good answers, share of failures on good, on bad ones)."""
    rng = random.Random(seed)
    rows: list[Score] = []
    for length, rate, on_good, on_bad in stretches:
        for _ in range(length):
            good = rng.random() < rate
            failed = rng.random() < (on_good if good else on_bad)
            rows.append(row(first + len(rows), passed=None if failed else good))
    return rows


def of_quality(events: Sequence[AlertEvent]) -> list[tuple[str, str]]:
    return [(event.kind, event.severity) for event in events if event.series.rule == RULE.name]


@pytest.mark.parametrize("seed", range(4))
def test_a_judge_that_fails_on_good_answers_only_pages_nobody(seed: int) -> None:
    events = Engine([RULE]).fold(
        judged([(400, 0.97, 0.01, 0.01), (600, 0.97, 1.0, 0.0), (2000, 0.97, 0.01, 0.01)], seed=seed)
    )
    assert "evaluator_unhealthy" in {event.kind for event in events}
    assert of_quality(events) == [("firing", "ticket"), ("resolved", "ticket")]


def test_such_an_alert_says_why_it_is_a_ticket() -> None:
    events = Engine([RULE]).fold(judged([(400, 0.97, 0.01, 0.01), (600, 0.97, 1.0, 0.0)], seed=0))
    fired: Any = next(event for event in events if event.kind == "firing")
    assert "a ticket only, as these could explain the whole fall" in fired.summary
    assert "until enough are judged" in fired.evidence["severity_lowered"]
    assert fired.evidence["coverage_low"]["high"] >= 0.9


@pytest.mark.parametrize("seed", range(4))
def test_a_real_fall_pages_while_the_judge_fails_on_three_traces_of_ten(seed: int) -> None:
    events = Engine([RULE]).fold(judged([(400, 0.97, 0.01, 0.01), (120, 0.4, 0.3, 0.3)], seed=seed))
    assert [severity for _, severity in of_quality(events)][-1] == "page"  # a row or two after a ticket, or at once
    assert not any("severity_lowered" in event.evidence for event in events)


def test_a_fall_that_failures_could_explain_pages_once_enough_is_judged_also_after_a_restart() -> None:
    before = judged([(400, 0.97, 0.01, 0.01), (200, 0.5, 0.85, 0.85)], seed=3)
    after = judged([(400, 0.5, 0.01, 0.01)], seed=4, first=len(before))
    engine = Engine([RULE])
    assert of_quality(engine.fold(before)) == [("firing", "ticket")]
    stored = [(one.name, json.loads(json.dumps(one.state))) for one in engine.snapshot()]
    restarted = Engine([RULE])
    restarted.restore([SeriesSnapshot(name, state) for name, state in stored])
    expected, events = engine.fold(after), restarted.fold(after)
    assert events == expected
    assert of_quality(events) == [("escalated", "page")]
    (escalated,) = (event for event in events if event.kind == "escalated")
    assert "not only because its judge failed on many traces" in escalated.summary


THRESHOLD = ThresholdRule(
    name="quality", type="threshold", judge="lexical", below=0.9, severity="page", heuristic_may_page=True
)


def test_a_window_whose_failures_could_explain_it_pages_nobody_also_after_a_restart() -> None:
    good = [(300, 0.99, 0.0, 0.0)]
    few = [row(360 + k, passed=k < 10) for k in range(20)]  # ten good, ten bad, of a window
    failed = [row(380 + k, passed=None) for k in range(39)]
    rows = judged([(360, 0.99, 0.0, 0.0)], seed=1) + few + failed + judged(good, seed=2, first=420)
    engine = Engine([THRESHOLD])
    events = engine.fold(rows[:400])
    stored = [(one.name, json.loads(json.dumps(one.state))) for one in engine.snapshot()]
    restarted = Engine([THRESHOLD])
    restarted.restore([SeriesSnapshot(name, state) for name, state in stored])
    later = engine.fold(rows[400:])
    assert restarted.fold(rows[400:]) == later
    assert of_quality(events + later) == [("firing", "ticket"), ("resolved", "ticket")]
    fired: Any = next(event for event in events + later if event.kind == "firing")
    assert "failed on 39 more traces of this window; a ticket only" in fired.summary
    assert "until enough are judged" in fired.evidence["severity_lowered"]


def test_a_window_that_fell_whatever_the_failed_ones_were_pages() -> None:
    fell = [row(360 + k, passed=k < 10) for k in range(40)]
    failed = [row(400 + k, passed=None) for k in range(20)]
    events = Engine([THRESHOLD]).fold(judged([(360, 0.99, 0.0, 0.0)], seed=1) + fell + failed + [row(600), row(601)])
    assert of_quality(events)[0] == ("firing", "page")
