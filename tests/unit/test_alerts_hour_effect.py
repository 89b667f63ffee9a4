"""Bets where hours differ by themselves, against a plain recomputation and the promise they must keep."""

from __future__ import annotations

import json
import math
import random
from datetime import datetime, timedelta, timezone

import pytest

from tracejudge.alerts.detecting.baseline import Baseline, hour_of
from tracejudge.alerts.detecting.bets import Bets
from tracejudge.alerts.detecting.detector import DropDetector
from tracejudge.alerts.detecting.hour_effect import HourSoFar, factors_within, known_share
from tracejudge.alerts.detecting.sums import Place, Sums

START = datetime(2026, 3, 1, tzinfo=timezone.utc)


def so_far(*, rows: int, failed: int, weight: float = 1.0) -> HourSoFar:
    return HourSoFar(rows * weight, (rows - failed) * weight, rows * weight * weight)


def noisy_baseline(*, noise: float, hours: int = 14 * 24, seed: int = 5) -> Baseline:
    """A baseline that has learned hours of 1000 rows, each of a rate of its own around .95."""
    rng = random.Random(seed)
    baseline = Baseline()
    first = int(START.timestamp()) // 3600
    for hour in range(hours):
        rate = min(max(0.95 + rng.gauss(0.0, noise), 0.0), 1.0)
        passed = sum(rng.random() < rate for _ in range(1000))
        baseline.see_sums(first + hour, 1000.0, float(passed), 1000.0, float(passed))
    baseline.learn_all()
    return baseline


def test_the_first_row_of_an_hour_is_bet_on_in_full() -> None:
    plain, noisy = Bets(0.95), Bets(0.95, phi=3.0, spread=0.002)
    for passed in (True, False):
        tempered, whole = noisy.factors(passed=passed), plain.factors(passed=passed)
        assert tempered == pytest.approx([factor ** (1 / 3) for factor in whole])
        # A drop that hours make by themselves stays tempered: here they differ by about one point.
        found = noisy.factors(passed=passed, hour=HourSoFar())
        told = [drop >= 3.5 * math.sqrt(0.002 * 0.95 * 0.05) for drop in noisy.drops]
        assert told == [False, False, *[True] * 5]
        expected = [w if by_hour else t for by_hour, w, t in zip(told, whole, tempered, strict=True)]
        assert found == pytest.approx(expected)


def test_the_factor_is_the_one_of_the_formula() -> None:
    hour, spread = HourSoFar(120.0, 108.0, 240.0), 0.004
    told = spread * 120.0**2 / 240.0
    k = told / (1.0 + told)
    here = 0.95 + k * (108.0 / 120.0 - 0.95)
    drops = Bets(0.95).drops
    found = factors_within(hour, boundary=0.95, drops=drops, spread=spread, passed=False, weight=1.7, deff=1.3)
    for factor, drop in zip(found, drops, strict=True):
        bet = min(drop * (1 - k / 2) * 1.7 / (here * (1 - here) * 1.3), 0.98 / (1 - here))
        assert factor == pytest.approx(1 + bet * here, rel=1e-12)


def test_a_bad_hour_lowers_the_boundary_and_a_good_one_does_not_raise_it() -> None:
    def gain(hour: HourSoFar, rate: float) -> float:
        """The mean factor of the component of the smallest drop, for a row of this rate."""
        lost, won = (
            factors_within(
                hour, boundary=0.95, drops=Bets(0.95).drops, spread=0.002, passed=passed, weight=1.0, deff=1.0
            )[0]
            for passed in (False, True)
        )
        return rate * won + (1 - rate) * lost

    bad, good = so_far(rows=500, failed=50), so_far(rows=500, failed=5)
    assert gain(HourSoFar(), 0.92) > 1.0 > gain(bad, 0.93)  # the hour told already that it is a bad one
    # The promise: whatever the hour told, no rate at or above the boundary is worth anything.
    for hour in (HourSoFar(), bad, good, so_far(rows=3, failed=3), so_far(rows=10_000, failed=10_000, weight=7.0)):
        for rate in (0.95, 0.97, 1.0):
            assert gain(hour, rate) <= 1.0 + 1e-12


def test_an_hour_is_known_the_better_the_more_rows_it_has_and_the_more_hours_differ() -> None:
    shares = [known_share(so_far(rows=rows, failed=0), 0.002) for rows in (0, 1, 100, 10_000)]
    assert shares[0] == 0.0
    assert shares == sorted(shares)
    assert shares[-1] < 1.0
    assert known_share(so_far(rows=100, failed=0, weight=50.0), 0.002) == pytest.approx(
        shares[2]
    )  # weights have no unit
    assert known_share(so_far(rows=100, failed=0), 0.2) > shares[2]


def test_how_much_hours_differ_is_learned() -> None:
    even, noisy = noisy_baseline(noise=0.0), noisy_baseline(noise=0.02)
    assert even.spread == 0.0
    assert noisy.spread == pytest.approx(0.02**2 / (0.95 * 0.05), rel=0.3)
    bets = noisy.bets_of_hour(0)
    assert bets is not None
    assert bets.spread == noisy.spread
    assert Baseline.from_state(json.loads(json.dumps(noisy.to_state()))).spread == noisy.spread


def test_the_hour_so_far_is_what_was_seen_of_it() -> None:
    baseline = noisy_baseline(noise=0.02)
    at = START + timedelta(days=20)
    assert baseline.hour_so_far(at) == HourSoFar()
    baseline.see(hour_of(at), passed=True, weight=2.0)
    baseline.see(hour_of(at + timedelta(minutes=59)), passed=False, weight=3.0)
    baseline.see(hour_of(at + timedelta(minutes=61)), passed=False, weight=5.0)
    assert baseline.hour_so_far(at) == HourSoFar(5.0, 2.0, 13.0)
    baseline.frozen = True
    assert baseline.hour_so_far(at) is None


def test_a_bad_hour_is_forgiven_and_a_fall_is_told() -> None:
    """Rows in order at 1000 an hour: one hour 2 points low against a fall of 5 points that stays."""

    def evidence(rates: list[float], *, seed: int) -> float:
        rng, worst = random.Random(seed), 0.0
        bets = Bets(0.95, phi=10.0, spread=0.01**2 / (0.95 * 0.05))
        detector, place = DropDetector(bets), Place(START, Sums())
        for rate in rates:
            w = wx = 0.0
            for _ in range(1000):
                passed = rng.random() < rate
                hour = HourSoFar(w, wx, w)
                detector.observe(passed=passed, weight=1.0, deff=1.0, hours=0.001, place=place, hour=hour)
                w, wx = w + 1.0, wx + passed
                worst = max(worst, detector.evidence_hours)
        return worst

    low = [evidence([0.95, 0.93, 0.95, 0.95], seed=seed) for seed in range(10)]
    fell = [evidence([0.95, *[0.90] * 12], seed=seed) for seed in range(10)]
    assert max(low) < 720.0 < min(fell)
    assert math.isfinite(max(fell))


def test_a_stored_detector_keeps_how_much_hours_differ_and_older_ones_temper() -> None:
    detector = DropDetector(Bets(0.95, phi=2.0, spread=0.003))
    state = json.loads(json.dumps(detector.to_state()))
    assert DropDetector.from_state(state).bets == detector.bets
    del state["spread"]
    assert DropDetector.from_state(state).bets == Bets(0.95, phi=2.0)
