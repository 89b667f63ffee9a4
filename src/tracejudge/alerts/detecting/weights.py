"""The scale of a series' weights, known before each row: without it a sampling policy would set the detector's pace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

MEMORY: Final = 1000
"""Rows after which the mean forgets: long against noise (3 % at a coefficient of variation of 1), short against a
change of the sampling policy, which would otherwise leave the detector timid or reckless for as long as the past lasts.
"""

TRIM: Final = 20.0
"""Times the mean: a heavier row is remembered, and counted, as one of so much. It bounds what one row does to the
scale, and touches no policy whose heaviest rows are more than a twentieth of all. The bets stay fixed before the row:
only their size depends on what is remembered, never their fairness."""

_FIRST: Final = 20  # rows in which the mean may itself be due to a heavy one


class Scaled(NamedTuple):
    """A weight of mean about 1, and the design effect E[w^2] / E[w]^2 of the weights so far."""

    weight: float
    deff: float

    @property
    def trimmed(self) -> float:
        """The weight, or TRIM where it is heavier."""
        return min(self.weight, TRIM)


class WeightScale:
    """w = (1/pi) / wbar, with wbar the mean of the *earlier* rows' 1/pi.

    A row's own weight must not enter its scale: where suspicious traces are sampled more, it tells something about the
    verdict, and E[w (b - x) | past] <= 0, on which the promise rests, would no longer follow from the rate. The first
    row has no scale (1); its evidence is nought anyway, as no time has passed before it.
    """

    __slots__ = ("_mean", "_mean_square", "_rows")

    def __init__(self) -> None:
        self._rows = 0
        self._mean = 1.0
        self._mean_square = 1.0

    def next(self, weight: float) -> Scaled:
        """Scales the next row's 1/pi, then remembers it."""
        mean, square = self._mean, self._mean_square
        scaled = Scaled(weight / mean, max(1.0, square / (mean * mean))) if self._rows else Scaled(1.0, 1.0)
        kept = min(weight, TRIM * mean) if self._rows else weight
        if self._rows < _FIRST and mean > TRIM * weight:
            mean = TRIM * weight
            square = mean * mean
        self._rows = min(self._rows + 1, MEMORY)
        self._mean = mean + (kept - mean) / self._rows
        self._mean_square = square + (kept * kept - square) / self._rows
        return scaled

    def to_state(self) -> dict[str, Any]:
        return {"rows": self._rows, "mean": self._mean, "mean_square": self._mean_square}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> WeightScale:
        scale = cls()
        scale._rows, scale._mean, scale._mean_square = state["rows"], state["mean"], state["mean_square"]
        return scale
