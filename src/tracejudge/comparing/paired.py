"""What two judges say about the same traces, as four counts, and what may be concluded from these.

With n pairs, a share p_A that A passes and p_B that B passes:

    difference  p_B - p_A, with Newcombe's interval for paired shares (Newcombe 1998, method 10: Wilson's intervals of
                both, combined with the correlation phi, which is corrected for continuity)
    McNemar     exact, two-sided: the flips one way are binomial(flips, 1/2) if neither is stricter (McNemar 1947)
    kappa       Cohen's agreement beyond chance, with its large-sample interval (Fleiss, Cohen & Everitt 1969)
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from tracejudge.windows import Interval, wilson


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedCounts:
    """Traces that both settled, by what A and B said of them."""

    both_passed: int = 0
    only_a_passed: int = 0
    only_b_passed: int = 0
    both_failed: int = 0

    def adding(self, *, a_passed: bool, b_passed: bool) -> PairedCounts:
        """The counts with one more pair."""
        return PairedCounts(
            both_passed=self.both_passed + (a_passed and b_passed),
            only_a_passed=self.only_a_passed + (a_passed and not b_passed),
            only_b_passed=self.only_b_passed + (b_passed and not a_passed),
            both_failed=self.both_failed + (not a_passed and not b_passed),
        )

    @property
    def n(self) -> int:
        return self.both_passed + self.only_a_passed + self.only_b_passed + self.both_failed

    @property
    def a_passed(self) -> int:
        return self.both_passed + self.only_a_passed

    @property
    def b_passed(self) -> int:
        return self.both_passed + self.only_b_passed

    @property
    def same(self) -> int:
        return self.both_passed + self.both_failed


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A number with its interval."""

    value: float
    low: float
    high: float


def paired_difference(counts: PairedCounts, *, confidence: float = 0.95) -> Estimate | None:
    """How much more B passes than A, in [-1, 1]; None without pairs."""
    n = counts.n
    if n == 0:
        return None
    p_a, p_b = counts.a_passed / n, counts.b_passed / n
    a, b = wilson(p_a, n, confidence=confidence), wilson(p_b, n, confidence=confidence)
    phi = _phi(counts)
    below = _combined(p_b - b.low, a.high - p_a, phi)
    above = _combined(b.high - p_b, p_a - a.low, phi)
    difference = (counts.only_b_passed - counts.only_a_passed) / n
    return Estimate(value=difference, low=max(-1.0, difference - below), high=min(1.0, difference + above))


def mcnemar_p(counts: PairedCounts) -> float | None:
    """McNemar's exact two-sided p-value; None when nothing flipped, which says nothing against either."""
    flips = counts.only_a_passed + counts.only_b_passed
    if flips == 0:
        return None
    from scipy.stats import binomtest  # here: it takes a second to import, and most commands never ask

    return float(binomtest(counts.only_a_passed, flips, 0.5).pvalue)


def cohens_kappa(counts: PairedCounts) -> Estimate | None:
    """Cohen's kappa with its 95 % interval; None without pairs, and where A or B gave one verdict throughout: kappa is
    then undefined, or 0 whatever the other said.

    Where both agreed on all pairs its large-sample variance is 0 however few they are; the lower end is Wilson's of
    the share that agrees, with chance agreement as seen (Cohen 1960).
    """
    if counts.n == 0 or not {counts.a_passed, counts.b_passed}.isdisjoint((0, counts.n)):
        return None
    if counts.same == counts.n:
        passed = counts.a_passed / counts.n
        chance = passed**2 + (1.0 - passed) ** 2
        least = wilson(1.0, counts.n).low
        return Estimate(value=1.0, low=max(-1.0, (least - chance) / (1.0 - chance)), high=1.0)
    from scipy.stats import norm
    from statsmodels.stats.inter_rater import cohens_kappa as kappa_of

    table = [[counts.both_passed, counts.only_a_passed], [counts.only_b_passed, counts.both_failed]]
    import numpy as np

    # A variance of nothing comes out a hair below zero, and the library takes its root before anybody can look.
    with np.errstate(invalid="ignore"):
        result = kappa_of(_array(table))
    half = float(norm.ppf(0.975)) * sqrt(max(0.0, float(result.var_kappa)))
    value = float(result.kappa)
    return Estimate(value=value, low=max(-1.0, value - half), high=min(1.0, value + half))


def _array(table: list[list[int]]) -> object:
    import numpy as np

    return np.asarray(table)


def _phi(counts: PairedCounts) -> float:
    margins = counts.a_passed * (counts.n - counts.a_passed) * counts.b_passed * (counts.n - counts.b_passed)
    if margins == 0:
        return 0.0
    cross = counts.both_passed * counts.both_failed - counts.only_a_passed * counts.only_b_passed
    corrected = cross if cross < 0 else max(0.0, cross - counts.n / 2.0)
    return corrected / sqrt(margins)


def _combined(mine: float, other: float, phi: float) -> float:
    return sqrt(max(0.0, mine * mine - 2.0 * phi * mine * other + other * other))


def share(part: int, whole: int, *, confidence: float = 0.95) -> Estimate | None:
    """A share with Wilson's interval; None of nothing."""
    if whole == 0:
        return None
    bounds: Interval = wilson(part / whole, whole, confidence=confidence)
    return Estimate(value=part / whole, low=bounds.low, high=bounds.high)
