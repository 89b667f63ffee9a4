"""From a budget and the traffic to expect to the rates of an epoch: pure arithmetic.

The traffic is a list of cells, each with its own rate, the largest rate of its rules, and how many traces an hour it
brings. Wanted are `scale` and `rules` such that the sum of chances is the budget. In this order:

1. floors hold, in expectation, as long as they fit into the budget, else all of them shrink alike;
2. rules stay as written as long as the rest keeps half of the budget, or all it asks for: a sample made of exceptions
   alone says nothing of the whole;
3. the rest shrinks by one factor, so that the proportions between strata are the policy's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from tracejudge.sampling.epoch import GovernedRates

SMALLEST_SCALE: Final = 1e-4
"""Nothing with a rate of its own is ever left unseen: what has no chance has no weight."""

_STEPS: Final = 50
_ALIKE: Final = 0.02


class Cell(NamedTuple):
    """Traces that a policy treats alike: their stratum, own rate and largest rate of a rule (0: none)."""

    stratum: str
    own: float
    rule: float


def chances(per_h: Mapping[Cell, float], rates: GovernedRates) -> float:
    """The expected number of traces of this traffic that are chosen in an hour."""
    return sum(count * rates.chance(cell.own, cell.rule, cell.stratum) for cell, count in per_h.items())


def solve(
    per_h: Mapping[Cell, float],
    budget_per_h: float,
    floors_per_h: Mapping[str, float],
    *,
    volume_per_h: Mapping[str, float] | None = None,
) -> GovernedRates:
    """The rates under which this traffic brings `budget_per_h` chosen traces, or all the policy asks for if fewer.

    `floors_per_h` names how many of a stratum are wanted at least, each hour; `volume_per_h` how many it brings, where
    a longer look than that of `per_h` knows it better.
    """
    budget = max(0.0, budget_per_h)
    floors = _floors(per_h, budget, floors_per_h, volume_per_h or {})

    def total(scale: float, rules: float) -> float:
        return chances(per_h, GovernedRates(scale=scale, rules=rules, floors=floors))

    def rest(scale: float) -> float:
        rates = GovernedRates(scale=scale, floors=floors)
        return sum(count * rates.chance(cell.own, 0.0, cell.stratum) for cell, count in per_h.items())

    scale = _greatest(lambda value: total(value, 1.0), budget)
    reserved = min(budget / 2.0, rest(1.0))
    if total(scale, 1.0) <= budget and rest(scale) >= reserved * (1.0 - 1e-6):
        return GovernedRates(scale=scale, rules=1.0, floors=floors)
    scale = _greatest(rest, reserved)
    rules = _greatest(lambda value: total(scale, value), budget)
    return GovernedRates(scale=scale, rules=rules, floors=floors)


def smoothed(wanted: GovernedRates, before: GovernedRates | None) -> GovernedRates:
    """`wanted`, no more than half as much again as before and no less than a quarter: an epoch is a minute."""
    if before is None:
        return wanted
    return GovernedRates(
        scale=_near(wanted.scale, before.scale), rules=_near(wanted.rules, before.rules), floors=wanted.floors
    )


def alike(one: GovernedRates, other: GovernedRates | None) -> bool:
    """True when no rate differs by more than the share `_ALIKE`: a new epoch would be a row for nothing."""
    if other is None or one.floors.keys() != other.floors.keys():
        return False
    pairs = [(one.scale, other.scale), (one.rules, other.rules)]
    pairs += [(rate, other.floors[name]) for name, rate in one.floors.items()]
    return all(abs(a - b) <= _ALIKE * b for a, b in pairs)


def _floors(
    per_h: Mapping[Cell, float], budget: float, wanted: Mapping[str, float], better: Mapping[str, float]
) -> dict[str, float]:
    volume: defaultdict[str, float] = defaultdict(float)
    for cell, count in per_h.items():
        if cell.own > 0.0:
            volume[cell.stratum] += count
    volume.update(better)
    asked = {name: min(1.0, floor / volume[name]) if volume[name] > 0.0 else 1.0 for name, floor in wanted.items()}
    expected = sum(rate * volume[name] for name, rate in asked.items())
    shrink = min(1.0, budget / expected) if expected > 0.0 else 1.0
    return {name: rate * shrink for name, rate in asked.items()}


def _greatest(value: Callable[[float], float], limit: float) -> float:
    """The greatest number up to 1 whose value, which grows with it, is within the limit; else the smallest scale."""
    if value(1.0) <= limit:
        return 1.0
    low, high = SMALLEST_SCALE, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if value(middle) <= limit else (low, middle)
    return low


def _near(wanted: float, before: float) -> float:
    return min(1.0, max(SMALLEST_SCALE, before / 4.0, min(wanted, before * 1.5)))
