"""A rule played over its own healthy hours: its false alarms are counted, and keep its promise."""

from __future__ import annotations

import random
from datetime import timedelta

import pytest

from tracejudge.alerts import DriftRule, MinimumRule, SeriesKey
from tracejudge.evidence.resampled import resample
from tracejudge.store import Verdict
from tracejudge.testing.builders import START

KEY = SeriesKey(rule="r", environment="production", app="shop", judge_name="lexical", judge_id="lexical@0")


def history(days: int, *, rate: float, per_hour: int = 6, seed: int = 1) -> list[Verdict]:
    """Exactly `rate` of the rows pass, in a random order."""
    n = 24 * days * per_hour
    passes = [k < round(rate * n) for k in range(n)]
    random.Random(seed).shuffle(passes)
    return [Verdict(START + timedelta(hours=k / per_hour), passed, 1.0, f"h{k}") for k, passed in enumerate(passes)]


def test_a_rule_at_its_minimum_keeps_its_promise_and_one_far_above_is_silent() -> None:
    rule = MinimumRule(name="r", judge="lexical", minimum=0.9)
    heard: list[int] = []
    at_the_limit = resample(rule, KEY, history(10, rate=0.9), alarm_hours=120.0, days=150, told=heard.append)
    assert at_the_limit is not None
    assert heard == list(range(1, 151))
    assert at_the_limit.promise_days == 5.0
    assert 1 <= at_the_limit.alarms <= 30 + 2 * 30**0.5, "at most one in five days was promised"
    assert at_the_limit.low < at_the_limit.per_promise < at_the_limit.high
    assert at_the_limit.per_promise == pytest.approx(at_the_limit.alarms * 5 / 150)
    far = resample(rule, KEY, history(10, rate=0.99), alarm_hours=120.0, days=150)
    assert far is not None
    assert far.alarms == 0
    assert far.high == pytest.approx(3.689 * 5 / 150, rel=1e-3)


def test_a_learned_baseline_is_learned_before_the_play_begins_and_short_histories_are_cut_in_four_hours() -> None:
    rule = DriftRule(name="r", type="drift", judge="lexical")
    played = resample(rule, KEY, history(3, rate=0.95), alarm_hours=720.0, days=40)
    assert played is not None
    assert played.history_days == pytest.approx(3.0, abs=0.01)
    assert played.alarms <= 4
    assert resample(rule, KEY, history(1, rate=0.95)[:-1], alarm_hours=720.0, days=40) is None
    assert resample(rule, KEY, [], alarm_hours=720.0, days=40) is None


def test_the_same_seed_plays_the_same() -> None:
    rule = MinimumRule(name="r", judge="lexical", minimum=0.9)
    one, other = (resample(rule, KEY, history(9, rate=0.9), alarm_hours=48.0, days=20, seed=4) for _ in range(2))
    assert one == other
