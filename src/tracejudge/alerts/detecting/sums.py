"""Weighted counts of a stream so far, and places in it: the rows between two places are a subtraction."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from tracejudge.scores import Bucket


class Sums(NamedTuple):
    """Counts of settled rows, and sums of w, w^2, w x and w^2 x, with w = 1 / inclusion probability and x = 1 for
    passed, else 0.

    t is w in units of the weights before it, and trimmed where it is far above them (`weights.py`): effective samples
    are counted by it, so that one heavy row does not make all others count for nothing. Rates are never trimmed.
    """

    n: int = 0
    passed: int = 0
    w: float = 0.0
    w2: float = 0.0
    wx: float = 0.0
    w2x: float = 0.0
    t: float = 0.0
    t2: float = 0.0

    def plus(self, *, passed: bool, weight: float, trimmed: float | None = None) -> Sums:
        """The sums with one more row."""
        square = weight * weight
        counted = weight if trimmed is None else trimmed
        return Sums(
            self.n + 1,
            self.passed + passed,
            self.w + weight,
            self.w2 + square,
            self.wx + (weight if passed else 0.0),
            self.w2x + (square if passed else 0.0),
            self.t + counted,
            self.t2 + counted * counted,
        )

    def plus_repeat(self, *, passed: bool, weight: float, before: float) -> Sums:
        """The sums with one more row of a content of which rows of weight `before` were added already: together they
        count as one observation.

        It moves the rate; it is no further row, and no further effective sample.
        """
        square = weight * weight + 2.0 * weight * before
        return self._replace(
            w=self.w + weight,
            w2=self.w2 + square,
            wx=self.wx + (weight if passed else 0.0),
            w2x=self.w2x + (square if passed else 0.0),
        )

    def with_all(self, other: Sums) -> Sums:
        """The sums of these rows and those of `other`; the two must not share a row."""
        return Sums(
            self.n + other.n,
            self.passed + other.passed,
            self.w + other.w,
            self.w2 + other.w2,
            self.wx + other.wx,
            self.w2x + other.w2x,
            self.t + other.t,
            self.t2 + other.t2,
        )

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
        """Kish's effective sample size, (sum t)^2 / sum t^2."""
        return self.n_eff_since(Sums())

    def n_eff_since(self, earlier: Sums) -> float:
        """The effective sample size of the rows after `earlier`, which must be a prefix of these."""
        total, squares = self.t - earlier.t, self.t2 - earlier.t2
        return total * total / squares if self.n > earlier.n and squares > 0 else 0.0

    @classmethod
    def from_state(cls, values: Sequence[float]) -> Sums:
        """Sums that were written as a list. Older ones have six numbers: each of their rows counts as one sample."""
        n, passed, *sums = values
        if len(sums) == 4:
            sums += [n, n]
        return cls(int(n), int(passed), *(float(value) for value in sums))


class Place(NamedTuple):
    """Between two rows of a stream: the sums of the rows before it, and when the row after it was served and judged."""

    at: datetime
    before: Sums
    judged_at: datetime | None = None  # older snapshots do not know
