"""What a governor keeps to: its budget in bursts and in quiet hours, with a dead consumer, without a leader."""

from __future__ import annotations

import math
import random
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from pydantic import ValidationError

from tests.support.governed_day import START, Day, busy_minutes
from tracejudge.sampling import Epoch, EpochBook, GovernedRates, Governor, SamplingPolicy, sample
from tracejudge.sampling.forecast import Observed, aim, decide
from tracejudge.sampling.governor import AIM
from tracejudge.sampling.solve import Cell
from tracejudge.signals import Signals
from tracejudge.testing import make_trace

HOUR = Governor(name="g", judge="faithfulness", max_per_h=200)


def test_bursts_and_a_days_wave_stay_within_the_budget_and_use_it() -> None:
    rng = random.Random(1)
    hours = Day(governor=HOUR, rng=rng).run(busy_minutes(rng, 24, per_h=1500))[1:]  # the first has no rates yet
    goal = AIM * 200
    assert sum(hours) / len(hours) == pytest.approx(goal, rel=0.05)
    assert max(abs(count - goal) for count in hours) <= 0.05 * goal + 3.0 * math.sqrt(200)


def test_where_there_is_less_than_the_budget_everything_is_judged() -> None:
    rng = random.Random(2)
    day = Day(governor=HOUR, rng=rng, cells=((Cell("", 1.0, 0.0), 1.0),))
    day.run(busy_minutes(rng, 6, per_h=30, bursts=False))
    assert [epoch.rates["g"].scale for epoch in day.epochs] == [1.0]


def test_after_a_quiet_night_the_morning_does_not_break_the_budget() -> None:
    rng = random.Random(3)
    arrivals = [25] * 240 + [0, 0, 0, 0, 1] * 72 + [25] * 240
    hours = Day(governor=HOUR, rng=rng).run(arrivals)
    goal = AIM * 200
    assert max(hours[1:]) <= goal + 0.05 * goal + 3.0 * math.sqrt(200)
    assert min(hours[5:9]) >= 5, "of the dozen traces an hour of the night most are judged"
    assert hours[-2] == pytest.approx(goal, abs=0.05 * goal + 3.0 * math.sqrt(200))


def test_a_dead_consumer_is_no_quiet_hour() -> None:
    """Nothing is stored for two hours; what comes then was served under the rates from before, not under 1."""
    rng = random.Random(4)
    day = Day(governor=HOUR, rng=rng, seen_until=lambda minute: minute if not 180 <= minute < 300 else 179)
    hours = day.run([25] * 480)
    during = [day.rates(START + timedelta(minutes=minute)).scale for minute in range(185, 300)]
    assert max(during) <= 0.2
    # For a quarter of an hour it goes on as if it had seen what it expected; then nothing is decided.
    assert not [epoch for epoch in day.epochs if 197 < (epoch.starts_at - START) / timedelta(minutes=1) < 300]
    assert max(hours[1:]) <= AIM * 200 * 1.05 + 3.0 * math.sqrt(200)


def test_without_a_leader_the_last_rates_stay() -> None:
    rng = random.Random(5)
    day = Day(governor=HOUR, rng=rng, leading=lambda minute: minute < 60)
    hours = day.run([25] * 240)
    assert day.rates(START + timedelta(hours=4)) == day.epochs[-1].rates["g"]
    assert max(hours[1:]) <= 200 * 1.3


def test_an_hour_whose_budget_is_spent_does_not_blind_the_next() -> None:
    """Before the first rates hold, 300 of a busy start are judged: more than the hour's aim."""
    rng = random.Random(10)
    day = Day(governor=HOUR, rng=rng)
    hours = day.run([100] * 120)
    kept = [sum(one.values()) for one in day.kept]
    goal = AIM * 200
    assert sum(kept[:3]) > goal
    assert 1 <= sum(kept[5:60]) <= 0.1 * goal + 3.0 * math.sqrt(0.1 * goal)
    assert sum(kept[60:75]) >= 0.1 * goal
    assert hours[1] == pytest.approx(goal, abs=0.05 * goal + 3.0 * math.sqrt(200))


def test_rates_move_smoothly() -> None:
    rng = random.Random(6)
    day = Day(governor=HOUR, rng=rng)
    day.run(busy_minutes(rng, 12, per_h=1500))
    scales = [epoch.rates["g"].scale for epoch in day.epochs]
    assert len(scales) > 20
    assert all(0.25 - 1e-9 <= after / before <= 1.5 + 1e-9 for before, after in pairwise(scales))


def test_floors_hold_in_expectation_while_the_rest_shrinks() -> None:
    rng = random.Random(7)
    cells = ((Cell("", 1.0, 0.0), 0.99), (Cell("rare", 0.1, 0.0), 0.01))
    day = Day(governor=HOUR, rng=rng, cells=cells, floors_per_h={"rare": 10.0})
    hours = day.run([100] * 600)
    rare = sum(kept.get(Cell("rare", 0.1, 0.0), 0) for kept in day.kept[60:]) / 9
    assert rare == pytest.approx(10.0, abs=3.0 * math.sqrt(10.0 / 9))
    assert sum(hours[1:]) / 9 == pytest.approx(AIM * 200, rel=0.05)


def test_rules_keep_what_they_say_as_long_as_half_is_left_for_the_rest() -> None:
    rng = random.Random(8)
    rule = Cell("", 1.0, 1.0)
    day = Day(governor=HOUR, rng=rng, cells=((Cell("", 1.0, 0.0), 0.97), (rule, 0.03)))
    day.run([25] * 300)
    assert day.epochs[-1].rates["g"].rules == 1.0
    crowded = Day(governor=HOUR, rng=rng, cells=((Cell("", 1.0, 0.0), 0.5), (rule, 0.5)))
    hours = crowded.run([25] * 300)
    assert crowded.epochs[-1].rates["g"].rules < 0.3
    assert sum(hours[1:]) / 4 == pytest.approx(AIM * 200, rel=0.08)


def test_money_a_day_is_spread_over_the_day() -> None:
    rng = random.Random(9)
    governor = Governor(name="g", judge="faithfulness", max_usd_per_day=4.0)
    day = Day(governor=governor, rng=rng, cost_usd=0.004)
    hours = day.run(busy_minutes(rng, 24, per_h=200, bursts=False))
    goal = AIM * 4.0 / 0.004
    assert sum(hours) == pytest.approx(goal, rel=0.05)
    assert max(hours[1:]) < goal / 8


def test_a_price_that_is_not_known_changes_nothing() -> None:
    governor = Governor(name="g", judge="faithfulness", max_usd_per_day=4.0)
    observed = Observed(minutes={START: {Cell("", 1.0, 0.0): 100.0}}, frontier=START + timedelta(minutes=1))
    starts_at = START + timedelta(minutes=3)
    assert decide(governor, observed, starts_at=starts_at, epochs=EpochBook(), floors_per_h={}) is None


@pytest.mark.parametrize(("rate", "effect", "judged"), [(None, 1.0, 2641), (0.9, 1.0, 951), (0.9, 2.0, 1902)])
def test_an_interval_says_how_many_are_needed(rate: float | None, effect: float, judged: int) -> None:
    governor = Governor(name="g", judge="faithfulness", within_points=2.0)
    observed = Observed(minutes={}, frontier=START, rate=rate, design_effect=effect)
    assert aim(governor, observed) == pytest.approx(judged, abs=1)


def test_the_chance_of_a_trace_under_a_governor() -> None:
    rates = GovernedRates(scale=0.1, rules=0.5, floors={"gold": 0.3})
    assert rates.chance(0.5, 0.0, "") == 0.05
    assert rates.chance(0.5, 0.4, "") == 0.2
    assert rates.chance(0.5, 0.4, "gold") == 0.3
    assert rates.chance(0.0, 0.0, "gold") == 0.0
    assert GovernedRates(scale=1e-4).chance(1e-5, 0.0, "") == 1e-6


def test_of_two_rules_the_higher_is_the_one_a_governor_lowers() -> None:
    policy = SamplingPolicy.model_validate(
        {
            "rate": 0.1,
            "rules": [
                {"name": "errors", "when": {"field": "status", "is": "error"}, "rate": 0.8},
                {"name": "one app", "when": {"field": "app", "is": "docs"}, "rate": 0.2},
            ],
            "governors": [{"name": "g", "judge": "faithfulness", "max_per_h": 200}],
        }
    )
    epoch = Epoch(number=1, starts_at=START, rates={"g": GovernedRates(scale=0.5, rules=0.5)})
    trace = make_trace(app="docs", status="error")
    decision = sample(trace, Signals(), policy, ["faithfulness"], epoch).decisions["faithfulness"]
    assert decision.inclusion_probability == 0.4


@pytest.mark.parametrize(
    ("governors", "fault"),
    [
        ([{"name": "a", "judge": "f"}], "has none of max_per_h"),
        ([{"name": "a", "judge": "f", "max_per_h": 1, "within_points": 2}], "max_per_h and within_points"),
        ([{"name": "a", "judge": "f", "max_per_h": 0}], "greater than 0"),
        ([{"name": "a", "judge": "f", "max_per_h": 1}] * 2, "name of two"),
    ],
)
def test_faults_of_governors_are_named(governors: list[dict[str, Any]], fault: str) -> None:
    with pytest.raises(ValidationError, match=fault):
        SamplingPolicy.model_validate({"governors": governors})


def test_a_floor_without_a_governor_is_a_fault() -> None:
    strata = [{"name": "gold", "when": {"field": "tags.tier", "is": "gold"}, "floor_per_h": 3}]
    with pytest.raises(ValidationError, match="floor_per_h, which is kept by governors"):
        SamplingPolicy.model_validate({"strata": strata})
