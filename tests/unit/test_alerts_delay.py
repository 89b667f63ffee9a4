"""The delay that is promised to people is the one that the shipped detector has."""

from __future__ import annotations

import math
import random

import pytest

from tracejudge.alerts.detecting.bets import Bets
from tracejudge.alerts.detecting.delay import expected_traces, smallest_drop
from tracejudge.alerts.detecting.detector import DropDetector
from tracejudge.alerts.detecting.sums import Place, Sums
from tracejudge.testing.builders import START

NOWHERE = Place(START, Sums())


def simulated(rate: float, boundary: float, *, per_hour: float, alarm_hours: float, paths: int, phi: float) -> float:
    """Mean traces until the shipped detector fires, after 30 hours at its boundary."""
    total = 0
    for seed in range(paths):
        rng = random.Random(seed)
        detector = DropDetector(Bets(boundary, phi=phi))
        before = int(30 * per_hour)
        n = 0
        while True:
            passed = rng.random() < (boundary if n < before else rate)
            detector.observe(passed=passed, weight=1.0, deff=1.0, hours=1 / per_hour, place=NOWHERE)
            n += 1
            if n == before and detector.evidence_hours > alarm_hours / 2:
                detector.reset()  # an alarm before the fall is not a delay
            if n > before and detector.evidence_hours >= alarm_hours:
                break
        total += n - before
    return total / paths


@pytest.mark.parametrize(
    ("boundary", "rate", "per_hour", "phi"),
    [(0.95, 0.85, 60, 1.0), (0.9, 0.8, 60, 1.0), (0.98, 0.9, 60, 1.0), (0.8, 0.5, 20, 1.0), (0.95, 0.8, 60, 2.0)],
)
def test_the_formula_is_within_a_quarter_of_simulation(
    boundary: float, rate: float, per_hour: float, phi: float
) -> None:
    expected = expected_traces(rate, boundary, per_hour=per_hour, alarm_hours=720.0, phi=phi)
    seen = simulated(rate, boundary, per_hour=per_hour, alarm_hours=720.0, paths=60, phi=phi)
    assert expected == pytest.approx(seen, rel=0.25)


def test_no_fall_is_never_told_and_a_breakdown_at_once() -> None:
    assert expected_traces(0.95, 0.95, per_hour=60, alarm_hours=720) == math.inf
    assert expected_traces(0.99, 0.95, per_hour=60, alarm_hours=720) == math.inf
    assert expected_traces(0.5, 0.95, per_hour=0, alarm_hours=720) == math.inf
    assert 5 <= expected_traces(0.0, 0.95, per_hour=60, alarm_hours=720) < 10


def test_the_smallest_drop_within_a_time_is_told_in_that_time() -> None:
    drop = smallest_drop(0.95, level=0.95, within_h=4.0, per_hour=60, alarm_hours=720)
    assert drop is not None
    assert expected_traces(0.95 - drop, 0.95, per_hour=60, alarm_hours=720) / 60 == pytest.approx(4.0, rel=1e-6)
    later = smallest_drop(0.95, level=0.95, within_h=24.0, per_hour=60, alarm_hours=720)
    assert later is not None
    assert later < drop
    # What lies between the level and a boundary below it is part of the fall.
    careful = smallest_drop(0.93, level=0.95, within_h=4.0, per_hour=60, alarm_hours=720)
    assert careful is not None
    assert careful > drop


def test_at_a_trickle_no_drop_is_told_within_the_hour() -> None:
    assert smallest_drop(0.95, level=0.95, within_h=1.0, per_hour=2, alarm_hours=720) is None
