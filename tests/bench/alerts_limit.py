"""The exact optimum in delay: the CUSUM that knows the rate before and after a fall, on a lattice, as a Markov chain.

Among all rules with a given mean time to a false alarm the CUSUM of the log-likelihood ratio has the least mean delay
in the worst case (Moustakides, "Optimal stopping times for detecting changes in distributions"). A failed row lifts it
by u = log((1 - p1) / (1 - p0)), a passed one lowers it by d = log(p0 / p1), and it never goes below zero. With the
steps rounded to m down and round(m u / d) up it lives on whole numbers, and every mean time is the solution of a linear
system. Between two thresholds the rule is a draw of the two: its mean time to a false alarm is then the one asked for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

_STEPS_DOWN: Final = 4
"""Lattice points of a passed row: with 4 the optimum moves by less than half a per cent when their number doubles."""

Matrix = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Limit:
    """Mean delay in rows: `steady` after a long quiet time, `worst` when the CUSUM stood at zero; p95 of the former."""

    steady: float
    worst: float
    p95: float


@lru_cache(maxsize=64)
def limit(p0: float, p1: float, rows_to_false_alarm: float) -> Limit:
    """The optimum for a fall from p0 to p1 at a mean of so many rows between false alarms."""
    up = max(1, round(_STEPS_DOWN * math.log((1 - p1) / (1 - p0)) / math.log(p0 / p1)))
    high = 2
    while _mean_times(p0, up, high)[0] < rows_to_false_alarm:
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _mean_times(p0, up, middle)[0] < rows_to_false_alarm else (low, middle)
    below, above = (math.log(float(_mean_times(p0, up, size)[0])) for size in (low, high))
    share = (math.log(rows_to_false_alarm) - below) / (above - below) if above > below else 0.0
    first, second = (_delays(p0, p1, up, size) for size in (low, high))
    mixed = [(1 - share) * a + share * b for a, b in zip(first, second, strict=True)]
    return Limit(*mixed)


def _chain(pass_rate: float, up: int, size: int) -> Matrix:
    """Transitions among the states 0 to size - 1; what is missing from a row's sum is the alarm."""
    chain = np.zeros((size, size))
    states = np.arange(size)
    np.add.at(chain, (states, np.maximum(states - _STEPS_DOWN, 0)), pass_rate)
    staying = states[states + up < size]
    np.add.at(chain, (staying, staying + up), 1.0 - pass_rate)
    return chain


def _mean_times(pass_rate: float, up: int, size: int) -> Any:
    """Mean rows to the alarm from each state."""
    return np.linalg.solve(np.eye(size) - _chain(pass_rate, up, size), np.ones(size))


def _delays(p0: float, p1: float, up: int, size: int) -> tuple[float, float, float]:
    """Steady and worst mean delay, and the 95th percentile of the former."""
    before, after = _chain(p0, up, size), _chain(p1, up, size)
    settled = np.zeros(size)
    settled[0] = 1.0
    for _ in range(20_000):  # the law of the state given no alarm so far
        moved = settled @ before
        moved /= moved.sum()
        done = float(np.abs(moved - settled).max()) < 1e-10
        settled = moved
        if done:
            break
    delays = _mean_times(p1, up, size)
    still, rows = settled, 0
    while still.sum() > 0.05:
        still, rows = still @ after, rows + 1
    return float(settled @ delays), float(delays[0]), float(rows)
