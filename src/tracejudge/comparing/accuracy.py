"""How well a judge's verdicts agree with what people said.

    sensitivity        share of the good answers that it passes
    specificity        share of the bad answers that it fails
    balanced accuracy  their mean: 0.5 for any judge that does not look, whatever the share of good answers

Sensitivity and specificity have Wilson's intervals. The mean of two independent shares takes the square root of the sum
of squares of their half-distances (MOVER: Zou & Donner 2008).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import hypot

from tracejudge.comparing.paired import Estimate, share


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelCounts:
    """Settled verdicts on labelled traces."""

    good_passed: int = 0
    good_failed: int = 0
    bad_passed: int = 0
    bad_failed: int = 0

    @property
    def n(self) -> int:
        return self.good_passed + self.good_failed + self.bad_passed + self.bad_failed

    def adding(self, *, good: bool, passed: bool) -> LabelCounts:
        """The counts with one more verdict."""
        return LabelCounts(
            good_passed=self.good_passed + (good and passed),
            good_failed=self.good_failed + (good and not passed),
            bad_passed=self.bad_passed + (passed and not good),
            bad_failed=self.bad_failed + (not passed and not good),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """How well one judge agrees with labels; a value is None when no label bears on it."""

    counts: LabelCounts
    sensitivity: Estimate | None
    specificity: Estimate | None
    balanced: Estimate | None


def accuracy(counts: LabelCounts) -> Accuracy:
    """Sensitivity, specificity and balanced accuracy with their 95 % intervals."""
    sensitivity = share(counts.good_passed, counts.good_passed + counts.good_failed)
    specificity = share(counts.bad_failed, counts.bad_passed + counts.bad_failed)
    balanced = None
    if sensitivity is not None and specificity is not None:
        value = (sensitivity.value + specificity.value) / 2.0
        below = hypot(sensitivity.value - sensitivity.low, specificity.value - specificity.low) / 2.0
        above = hypot(sensitivity.high - sensitivity.value, specificity.high - specificity.value) / 2.0
        balanced = Estimate(value=value, low=max(0.0, value - below), high=min(1.0, value + above))
    return Accuracy(counts=counts, sensitivity=sensitivity, specificity=specificity, balanced=balanced)
