"""The judged volume against its hour of the week: a change is told, a daily wave and a quiet weekend are none."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import pytest

from tests.support.verdicts import minute, row
from tracejudge.alerts import Action, AlertEvent, Engine, VolumeRule
from tracejudge.alerts.series.volume import VolumeProfile
from tracejudge.scores import Score

WEEK = 7 * 24


def rule(**fields: Any) -> VolumeRule:
    return VolumeRule(**{"type": "volume", "name": "volume", "judge": "lexical", **fields})


def usual(hour: int) -> float:
    """Of each hour: more by day, less at weekends."""
    return 12.0 * (1 + 0.5 * math.sin(2 * math.pi * hour / 24)) * (0.5 if hour // 24 % 7 >= 5 else 1.0)


def traffic(levels: Iterable[float], *, seed: int = 1, first: int = 0) -> list[Score]:
    """Poisson traffic, so many times the usual in each hour."""
    rng = random.Random(seed)
    rows: list[Score] = []
    for hour, level in enumerate(levels, start=first):
        at, rate = 0.0, usual(hour) * level
        while rate > 0 and (at := at + rng.expovariate(rate)) < 1.0:
            number = len(rows) + 1_000_000 * (first > 0)
            rows.append(row(number, passed=True, minute=60 * (hour + at)))
    return rows


def said(events: list[AlertEvent]) -> list[tuple[str, object]]:
    return [(event.kind, event.evidence.get("direction")) for event in events if event.kind in ("firing", "resolved")]


def after(events: list[AlertEvent], hour: int) -> list[float]:
    return [(event.at - minute(60 * hour)) / timedelta(hours=1) for event in events if event.kind == "firing"]


@pytest.mark.parametrize("seed", range(3))
def test_a_wave_by_day_and_a_quiet_weekend_are_no_change(seed: int) -> None:
    assert said(Engine([rule()]).fold(traffic([1.0] * 5 * WEEK, seed=seed))) == []


def test_far_fewer_is_told_within_hours_and_so_is_their_return() -> None:
    levels = [1.0] * (3 * WEEK + 10) + [0.2] * 30 + [1.0] * 60
    events = Engine([rule()]).fold(traffic(levels))
    assert said(events) == [("firing", "fewer"), ("resolved", None)]
    (delay,) = after(events, 3 * WEEK + 10)
    assert 1 < delay < 15
    fired = events[0]
    assert "far fewer judged traces than usual" in fired.summary
    assert events[1].evidence["fired_event_id"] == fired.event_id


def test_far_more_is_told_too() -> None:
    events = Engine([rule()]).fold(traffic([1.0] * (3 * WEEK + 10) + [4.0] * 10))
    assert said(events) == [("firing", "more")]
    assert after(events, 3 * WEEK + 10)[0] < 6


def test_nothing_is_said_before_a_week_is_known() -> None:
    engine = Engine([rule()])
    assert said(engine.fold(traffic([1.0] * (WEEK - 48) + [0.0] * 10 + [5.0] * 20))) == []
    assert engine.status()[0].state == "warming_up"


def test_an_outage_of_more_than_a_day_is_no_volume() -> None:
    levels = [1.0] * 3 * WEEK + [0.0] * 30 + [1.0] * 30
    assert said(Engine([rule()]).fold(traffic(levels))) == []


def test_what_comes_out_of_order_within_half_an_hour_changes_nothing() -> None:
    rows = traffic([1.0] * (2 * WEEK + 80) + [0.2] * 30)
    mixed, rng = [], random.Random(2)
    for first in range(0, len(rows), 5):
        part = rows[first : first + 5]
        rng.shuffle(part)
        mixed += part
    plain, other = Engine([rule()]).fold(rows), Engine([rule()]).fold(mixed)
    assert said(plain) == said(other) == [("firing", "fewer")]
    assert plain[0].evidence["traces"] == other[0].evidence["traces"]


def test_any_restart_continues_exactly() -> None:
    rows = traffic([1.0] * (2 * WEEK + 80) + [0.2] * 20 + [1.0] * 40)
    whole = Engine([rule()]).fold(rows)
    assert said(whole) == [("firing", "fewer"), ("resolved", None)]
    engine, parts = Engine([rule()]), []
    for first in range(0, len(rows), 211):
        parts += engine.fold(rows[first : first + 211])
        taken = engine.snapshot()
        engine = Engine([rule()])
        assert engine.restore(taken) == []
    assert parts == whole


@pytest.mark.parametrize("verb", ["accept", "dismiss"])
def test_what_a_person_takes_for_normal_is_not_told_again(verb: Any) -> None:
    change = 2 * WEEK + 80
    engine = Engine([rule()])
    assert said(engine.fold(traffic([1.0] * change + [0.2] * 30))) == [("firing", "fewer")]
    at = minute(60 * (change + 30))
    (closed,) = engine.apply(Action(action_id="a", verb=verb, matchers={}, start=at, at=at))
    assert closed.evidence["closed_because"] == {"accept": "accepted", "dismiss": "dismissed"}[verb]
    if verb == "accept":
        later = engine.fold(traffic([0.2] * 3 * WEEK, first=change + 31, seed=5))
        assert said(later) == [], "the new level is how things are now"


def test_the_hour_of_the_week_is_shrunk_to_that_of_the_day() -> None:
    profile = VolumeProfile()
    for hour in range(WEEK):
        profile.learn(hour, 100 if hour % 24 == 3 else 10)
    assert profile.known
    assert profile.expected(WEEK + 3) == pytest.approx(100, rel=0.05)
    assert profile.expected(WEEK + 4) == pytest.approx(10, rel=0.05)
    assert VolumeProfile.from_state(profile.to_state()).expected(7) == profile.expected(7)


def test_a_rule_about_volume_has_no_other_measure() -> None:
    with pytest.raises(ValueError, match="measure: a rule of type volume counts traces"):
        rule(measure="invalid")
