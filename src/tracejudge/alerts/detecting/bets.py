"""What the drop detector bets on for a row: a boundary, and how strongly each hypothetical rate below it is believed.

    f_j   = o / (1 + o), o = r_j f / (1 - f)              hypothetical failure rate of component j (odds times r_j)
    lam_j = (f_j - f) / (f (1 - f) deff)                  deff = E[w^2] / E[w]^2
    L_j   = (1 + min(lam_j w, 0.98 / f) (b - x))^(1/phi)  x = 1 for passed, 0 for failed; b = 1 - f the boundary

Bets are fixed before the row is seen. phi >= 1 is the overdispersion of hourly counts: 1 where none was measured. By
Jensen's inequality E[L^(1/phi)] <= 1 wherever E[L] <= 1, so it makes the promise only more careful. Where the rows of
the hour so far are known, `hour_effect.py` takes the place of phi for large drops.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from tracejudge.alerts.detecting.hour_effect import CLIP, HourSoFar, factors_within, smallest_told

ODDS: Final = (1.25, 1.5, 1.9, 2.5, 3.6, 6.0, 12.0)
"""Multipliers of the odds of failure, one component each: from a drop hardly worth a ticket to a breakdown."""

PRIOR: Final = (0.16, 0.17, 0.17, 0.15, 0.13, 0.14, 0.08)
"""Weights of the components; they sum to 1. Not delicate: other priors cost a few per cent of delay."""

FIRST_PRIOR: Final = (0.16, 0.18, 0.18, 0.16, 0.14, 0.10, 0.08)
"""The weights until they were written down beside the evidence that was gathered under them."""


def hypothetical_rates(boundary: float) -> tuple[float, ...]:
    """The pass rates 1 - f_j that the components bet on, all below the boundary, falling."""
    fail = 1.0 - boundary
    odds = [r * fail / boundary for r in ODDS]
    return tuple(1.0 / (1.0 + o) for o in odds)


def mean_drops(boundaries: Sequence[float]) -> tuple[float, ...]:
    """How far below these boundaries each component looks on average, rising."""
    fails = [1.0 - boundary for boundary in boundaries]
    return tuple(sum(r * f / (1.0 - f + r * f) - f for f in fails) / len(fails) for r in ODDS)


@dataclass(frozen=True)
class Bets:
    """The bets on one row. `prior` is 0 for components that are not armed; `spread` is the variance among hours, in
    units of the variance of a verdict. Raises ValueError for a boundary that no rate can fall below."""

    boundary: float
    prior: tuple[float, ...] = PRIOR
    phi: float = 1.0
    spread: float = 0.0

    def __post_init__(self) -> None:
        if not 0.0 < self.boundary < 1.0:
            raise ValueError(
                f"boundary: {self.boundary!r} is not strictly between 0 and 1; choose a rate that can be missed"
            )

    @cached_property
    def drops(self) -> tuple[float, ...]:
        """How far below the boundary each component looks, rising."""
        return tuple(self.boundary - rate for rate in hypothetical_rates(self.boundary))

    @cached_property
    def _unit(self) -> tuple[float, ...]:
        return tuple(drop / ((1.0 - self.boundary) * self.boundary) for drop in self.drops)

    def factors(
        self, *, passed: bool, weight: float = 1.0, deff: float = 1.0, hour: HourSoFar | None = None
    ) -> tuple[float, ...]:
        """L_j of a verdict, for every component; `hour` is what is known of the hour it belongs to."""
        tempered = self._tempered(passed=passed, weight=weight, deff=deff)
        if hour is None or self.drops[-1] < self._told_from:
            return tempered
        within = factors_within(
            hour,
            boundary=self.boundary,
            drops=self.drops,
            spread=self.spread,
            passed=passed,
            weight=weight,
            deff=deff,
        )
        return tuple(
            by_hour if drop >= self._told_from else by_phi
            for drop, by_hour, by_phi in zip(self.drops, within, tempered, strict=True)
        )

    @cached_property
    def _told_from(self) -> float:
        return smallest_told(self.boundary, self.spread) if self.spread else math.inf

    def _tempered(self, *, passed: bool, weight: float, deff: float) -> tuple[float, ...]:
        miss = self.boundary - (1.0 if passed else 0.0)
        cap = CLIP / (1.0 - self.boundary)
        whole = tuple(1.0 + min(unit / deff * weight, cap) * miss for unit in self._unit)
        return whole if self.phi == 1.0 else tuple(factor ** (1.0 / self.phi) for factor in whole)
