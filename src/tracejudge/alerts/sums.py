"""Weighted counts of a stream so far, and places in it: the rows between two places are a subtraction."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from tracejudge.scores import Bucket


class Sums(NamedTuple):
    """Of settled rows, with w = 1 / inclusion probability, x = 1 for passed: counts and sums of w, w^2, wx, w^2 x."""

    n: int = 0
    passed: int = 0
    w: float = 0.0
    w2: float = 0.0
    wx: float = 0.0
    w2x: float = 0.0

    def plus(self, *, passed: bool, weight: float) -> Sums:
        """These and one row more."""
        square = weight * weight
        if passed:
            return Sums(
                self.n + 1, self.passed + 1, self.w + weight, self.w2 + square, self.wx + weight, self.w2x + square
            )
        return Sums(self.n + 1, self.passed, self.w + weight, self.w2 + square, self.wx, self.w2x)

    def since(self, earlier: Sums) -> Bucket:
        """The rows after `earlier`, which must be a prefix of these."""
        n = self.n - earlier.n
        if n == 0:  # what float subtraction leaves of nothing is not zero
            return Bucket()
        return Bucket(
            n=n,
            passed=self.passed - earlier.passed,
            sum_w=max(0.0, self.w - earlier.w),
            sum_w2=max(0.0, self.w2 - earlier.w2),
            sum_wx=max(0.0, self.wx - earlier.wx),
            sum_w2x=max(0.0, self.w2x - earlier.w2x),
        )

    @property
    def n_eff(self) -> float:
        """Kish's effective sample size, (sum w)^2 / sum w^2."""
        return self.w * self.w / self.w2 if self.w2 > 0 else 0.0


class Place(NamedTuple):
    """Between two rows of a stream: the sums of the rows before it and the event time of the row after it."""

    at: datetime
    before: Sums
