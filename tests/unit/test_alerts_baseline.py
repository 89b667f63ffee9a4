"""What a learned baseline knows, against plain recomputations from the rows."""

from __future__ import annotations

import json
import math
import random
from datetime import datetime, timedelta, timezone
from typing import NamedTuple

import pytest

from tracejudge.alerts.detecting.baseline import LAG_H, MEMORY_H, Baseline, hour_of
from tracejudge.alerts.detecting.bets import hypothetical_rates
from tracejudge.alerts.detecting.fit import ARM_AT, dispersion

START = datetime(2026, 3, 1, tzinfo=timezone.utc)


class Row(NamedTuple):
    at: datetime
    passed: bool
    weight: float = 1.0


def rows_of(hours: int, *, seed: int, per_hour: int = 60, wave: float = 0.0, noise: float = 0.0) -> list[Row]:
    """Rows at 95 %, with a daily wave and a random offset of each hour."""
    rng = random.Random(seed)
    rows = []
    for hour in range(hours):
        rate = min(0.999, 0.95 - wave * math.sin(2 * math.pi * (hour % 24) / 24) + rng.gauss(0, noise))
        for minute in range(per_hour):
            at = START + timedelta(hours=hour, minutes=60 * minute / per_hour)
            rows.append(Row(at, rng.random() < rate, rng.choice([1.0, 1.0, 4.0])))
    return rows


def taught(rows: list[Row], baseline: Baseline | None = None) -> Baseline:
    """A baseline that has seen the rows as a series would show them."""
    baseline = baseline or Baseline()
    for row in rows:
        baseline.move_to(hour_of(row.at))
        baseline.see(hour_of(row.at), passed=row.passed, weight=row.weight)
    return baseline


def weighted_rate(rows: list[Row]) -> float:
    return sum(row.weight * row.passed for row in rows) / sum(row.weight for row in rows)


def test_it_knows_what_is_older_than_the_lag_and_nothing_younger() -> None:
    rows = rows_of(120, seed=1)
    baseline = taught(rows)
    last = rows[-1].at.replace(minute=0)
    old = [row for row in rows if row.at < last - timedelta(hours=LAG_H - 1)]
    unit = sum(row.weight**2 for row in old) / sum(row.weight for row in old)
    w = sum(row.weight for row in old)
    assert baseline.m == pytest.approx((weighted_rate(old) * w + 0.5 * unit) / (w + unit), rel=1e-12)
    assert baseline.hours == len({row.at.replace(minute=0, second=0, microsecond=0) for row in old})


def test_a_young_series_learns_the_older_half_of_its_life() -> None:
    baseline = taught(rows_of(13, seed=2))
    assert baseline.hours == 7  # hours 0 to 6 of 0 to 12: they are 6 hours old or more


def test_a_row_has_no_part_in_the_bets_it_is_judged_by() -> None:
    rows = rows_of(60, seed=3)
    told = []
    for last in (True, False):
        baseline = taught(rows)
        before = baseline.bets(rows[-1].at)
        baseline.see(hour_of(rows[-1].at), passed=last, weight=1e6)
        told.append((before, baseline.bets(rows[-1].at)))
    assert told[0][0] is not None
    assert told[0] == told[1]
    assert told[0][0] == told[0][1]


def test_the_standard_error_is_the_linearised_one() -> None:
    rows = rows_of(50, seed=4)
    baseline = Baseline()
    for row in rows:
        baseline.see(hour_of(row.at), passed=row.passed, weight=row.weight)
    baseline.learn_all()
    assert baseline.phi == 1.0
    squares = sum(row.weight**2 * (row.passed - baseline.m) ** 2 for row in rows)
    assert baseline.se == pytest.approx(math.sqrt(squares) / sum(row.weight for row in rows), rel=1e-9)


def test_components_are_armed_only_where_their_drop_stands_out_from_the_error() -> None:
    few, many = taught(rows_of(14, seed=5)), taught(rows_of(24 * 14, seed=5))
    assert few.smallest_drop is not None
    assert many.smallest_drop is not None
    assert few.smallest_drop > many.smallest_drop
    for baseline in (few, many):
        bets = baseline.bets(START)
        assert bets is not None
        for rate, prior in zip(hypothetical_rates(bets.boundary), bets.prior, strict=True):
            drop = bets.boundary - rate
            assert (prior > 0) == (drop >= ARM_AT * baseline.se) or baseline.phi > 1 or abs(drop) < 0.02


def test_nothing_is_known_at_first() -> None:
    baseline = Baseline()
    assert not baseline.known
    assert baseline.bets(START) is None
    assert baseline.smallest_drop is None


def test_a_flat_day_has_no_season_and_a_wave_is_found() -> None:
    flat = taught(rows_of(24 * 14, seed=6, per_hour=120))
    boundaries = [flat.bets_of_hour(hour) for hour in range(24)]
    assert max(b.boundary for b in boundaries if b) - min(b.boundary for b in boundaries if b) < 0.01
    waving = taught(rows_of(24 * 14, seed=7, per_hour=120, wave=0.03))
    low, high = waving.bets_of_hour(6), waving.bets_of_hour(18)
    assert low is not None
    assert high is not None
    assert high.boundary - low.boundary == pytest.approx(0.06, abs=0.015)


def test_overdispersion_is_one_for_independent_rows_and_found_where_hours_differ() -> None:
    assert taught(rows_of(24 * 10, seed=8, wave=0.02)).phi == 1.0
    # Per hour 240 rows of three weights: the variance of an hour's rate doubles or more with offsets of 2 points.
    assert taught(rows_of(24 * 10, seed=9, per_hour=240, noise=0.02)).phi > 1.5


def test_chi_squared_from_sums_is_that_of_the_hours_themselves() -> None:
    baseline = Baseline()
    rows = rows_of(24 * 5, seed=10)
    for row in rows:
        baseline.see(hour_of(row.at), passed=row.passed, weight=row.weight)
    baseline.learn_all()
    fit: list[float | None] = [0.9 + 0.002 * hour for hour in range(24)]
    expected = 0.0
    for number in range(24 * 5):
        cell = [row for row in rows if row.at.replace(minute=0, second=0) == START + timedelta(hours=number)]
        rate = fit[number % 24]
        assert rate is not None
        residual = sum(row.weight * (row.passed - rate) for row in cell)
        expected += residual**2 / (0.05 * sum(row.weight**2 for row in cell))
    assert dispersion(fit, baseline._day, variance=0.05, freedom=7.0) == pytest.approx(expected / 7.0, rel=1e-9)


def test_old_hours_fade_so_that_a_change_is_learned_in_a_month() -> None:
    baseline = Baseline()
    hours = int(3 * MEMORY_H)
    for hour in range(hours):
        good = 58.0 if hour < hours // 2 else 54.0
        baseline.see_sums(493_000 + hour, 60.0, good, 60.0, good)
    baseline.learn_all()
    assert baseline.hours == pytest.approx(MEMORY_H, rel=0.01)
    assert baseline.m == pytest.approx(0.9, abs=0.02)  # half a memory of 58 in 60 would be .933


def test_a_reference_is_frozen_when_it_is_complete() -> None:
    rows = rows_of(100, seed=11)
    baseline = taught(rows, Baseline(reference_h=48))
    assert baseline.frozen
    learned = [row for row in rows if row.at < START + timedelta(hours=48)]
    assert baseline.m == pytest.approx(weighted_rate(learned), abs=2e-3)
    before = baseline.to_state()
    baseline.see(hour_of(rows[-1].at), passed=False, weight=1e6)
    assert baseline.to_state() == before


def test_what_belongs_to_a_fall_is_taken_out_and_can_be_put_back() -> None:
    rows = rows_of(72, seed=12)
    whole, split = taught(rows), taught(rows)
    fall = START + timedelta(hours=65)
    aside = split.split_since(fall)
    split.learn_all()
    kept = [row for row in rows if row.at < fall]
    assert split.m == pytest.approx(weighted_rate(kept), abs=2e-3)
    split.absorb(aside)
    whole.learn_all()
    assert split.m == pytest.approx(whole.m, rel=1e-12)
    assert split.se == pytest.approx(whole.se, rel=1e-12)


@pytest.mark.parametrize("hours", [0, 5, 60, 200])
def test_a_stored_baseline_goes_on_exactly(hours: int) -> None:
    rows = rows_of(hours + 30, seed=13, wave=0.02, noise=0.01)
    cut = len(rows_of(hours, seed=13, wave=0.02, noise=0.01))
    straight = taught(rows)
    stored = Baseline.from_state(json.loads(json.dumps(taught(rows[:cut]).to_state())))
    continued = taught(rows[cut:], stored)
    assert continued.to_state() == straight.to_state()
    assert continued.bets(rows[-1].at) == straight.bets(rows[-1].at)
