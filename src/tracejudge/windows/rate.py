"""The weighted pass rate of a window with its interval, from sums alone.

With w_i = 1 / inclusion probability and x_i = 1 for passed, 0 for failed, over the settled scores:

    rate       q  = sum(w x) / sum(w)                            Hájek's ratio (Hájek 1971)
    variance   V  = sum(w^2 (x - q)^2) / sum(w)^2                linearised (Särndal, Swensson & Wretman 1992, 5.5)
    Kish       k  = sum(w)^2 / sum(w^2)                          effective size of unequal weights (Kish 1965, 11.7)
    effective  n  = min(k, q (1 - q) / V)
    interval      = (q + z^2/2n  ±  z sqrt(q(1 - q)/n + z^2/4n^2)) / (1 + z^2/n)              (Wilson 1927)

V speaks of the rate that this traffic has in the long run; there is no correction for a finite window, so that with all
weights equal n is the number of scores. x is 0 or 1, hence sum(w^2 (x - q)^2) = (1 - q)^2 sum(w^2 x) + q^2 (sum(w^2) -
sum(w^2 x)): four sums a bucket are enough. Why the smaller of two sizes: DESIGN.md.

Where the number of traces N_h of every stratum h is known (traces_by_stratum), with W_h = N_h / N:

    rate       q  = sum_h W_h q_h                                q_h: Hájek's ratio within h
    variance   V  = sum_h W_h^2 V_h + sum_h W_h (q_h - q)^2 / N  two-phase stratification (Cochran 1977, 12.2)

and Kish's size is that of the weights rescaled to the known sizes, w N_h / sum_h(w).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist
from typing import Final, NamedTuple

from tracejudge.scores import Bucket


@dataclass(frozen=True, slots=True, kw_only=True)
class PassRate:
    """A pass rate with its interval. `estimate`, `low`, `high` and `plain` are None when no score is settled.

    `judged` = `passed` + `failed` settled scores; `invalid` ones are counted beside them and never averaged. `plain` is
    the unweighted share, for a look beside the weighted one. `represents` is the estimated number of traces that the
    judged ones stand for (the sum of their weights). `mean_score` is the settled scores' weighted mean, in [0, 1].
    """

    estimate: float | None
    low: float | None
    high: float | None
    n_eff: float
    judged: int
    passed: int
    failed: int
    invalid: int
    plain: float | None
    represents: float
    mean_score: float | None = None


class Interval(NamedTuple):
    low: float
    high: float


class _Moments(NamedTuple):
    """An estimated rate, its linearised variance, and Kish's effective sample size of its weights."""

    rate: float
    variance: float
    kish: float


def pass_rate(
    bucket_by_stratum: Mapping[str, Bucket],
    *,
    confidence: float = 0.95,
    traces_by_stratum: Mapping[str, float] | None = None,
) -> PassRate | None:
    """The pass rate of all strata together; None when there is no score at all, settled or invalid.

    Without `traces_by_stratum` the weights alone say how much every stratum counts. With it, how many traces the
    judge could have judged in each, the combination is stratified: narrower, and right only if these numbers are
    (a judge that has nothing to say about part of a stratum does not know them). Where a stratum with traces has no
    settled score, the weights decide alone.

    Raises ValueError when `confidence` is not strictly between 0 and 1, or when weights of settled scores do not add
    up to a positive number.
    """
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence: {confidence!r} is not between 0 and 1: write 0.95 for 95 %")
    total = sum(bucket_by_stratum.values(), Bucket())
    if total.n == 0 and total.invalid == 0:
        return None
    counts = {
        "judged": total.n,
        "passed": total.passed,
        "failed": total.n - total.passed,
        "invalid": total.invalid,
    }
    if total.n == 0:
        return PassRate(estimate=None, low=None, high=None, n_eff=0.0, plain=None, represents=0.0, **counts)
    moments = _stratified(bucket_by_stratum, traces_by_stratum) if traces_by_stratum else None
    rate, variance, kish = moments or _moments(total)
    n_eff = min(kish, float(total.n))
    if variance > 0.0:
        n_eff = min(n_eff, rate * (1.0 - rate) / variance)
    low, high = wilson(rate, n_eff, confidence=confidence)
    return PassRate(
        estimate=rate,
        low=low,
        high=high,
        n_eff=n_eff,
        plain=total.passed / total.n,
        represents=total.sum_w,
        mean_score=total.sum_ws / total.sum_w,
        **counts,
    )


LEAST_EFFECTIVE: Final = 20.0
"""Effective samples from which on a rate is shown as one, where nobody says otherwise."""


def enough(rate: PassRate | None, minimum_effective: float = LEAST_EFFECTIVE) -> bool:
    """True when there are at least `minimum_effective` effective samples; without them one says "not enough data"."""
    return rate is not None and rate.estimate is not None and rate.n_eff >= minimum_effective


def wilson(rate: float, n: float, *, confidence: float = 0.95) -> Interval:
    """Wilson's score interval of a share `rate` seen in `n` > 0 samples, which need not be a whole number."""
    z = NormalDist().inv_cdf(0.5 + confidence / 2.0)
    z2 = z * z
    centre = rate + z2 / (2.0 * n)
    half = z * sqrt(rate * (1.0 - rate) / n + z2 / (4.0 * n * n))
    scale = 1.0 + z2 / n
    # The formula has the rate between its ends, at 0 and 1 exactly on one: rounding must not say otherwise.
    return Interval(
        low=0.0 if rate == 0.0 else min(rate, max(0.0, (centre - half) / scale)),
        high=1.0 if rate == 1.0 else max(rate, min(1.0, (centre + half) / scale)),
    )


def _moments(bucket: Bucket) -> _Moments:
    if not bucket.sum_w > 0.0:
        raise ValueError(
            f"weights of {bucket.n} settled scores add up to {bucket.sum_w!r}: a bucket was put together wrong"
        )
    kish = bucket.sum_w**2 / bucket.sum_w2
    # By counts: the sums of weights differ in their last digits, and a variance made of these would be noise.
    if bucket.passed in (0, bucket.n):
        return _Moments(float(bucket.passed > 0), 0.0, kish)
    rate = min(1.0, bucket.sum_wx / bucket.sum_w)
    failed_w2 = max(0.0, bucket.sum_w2 - bucket.sum_w2x)
    return _Moments(rate, ((1.0 - rate) ** 2 * bucket.sum_w2x + rate**2 * failed_w2) / bucket.sum_w**2, kish)


def _stratified(bucket_by_stratum: Mapping[str, Bucket], traces_by_stratum: Mapping[str, float]) -> _Moments | None:
    """None when a stratum with traces has no settled score, or one with scores no known number of traces."""
    sizes = {name: size for name, size in traces_by_stratum.items() if size > 0}
    buckets = {name: bucket for name, bucket in bucket_by_stratum.items() if bucket.n > 0}
    if sizes.keys() != buckets.keys():
        return None
    everything = sum(sizes.values())
    share = {name: size / everything for name, size in sizes.items()}
    within = {name: _moments(bucket) for name, bucket in buckets.items()}
    if all(bucket.passed == bucket.n for bucket in buckets.values()):
        rate = 1.0
    else:
        rate = min(1.0, sum(share[name] * moments.rate for name, moments in within.items()))
    variance = sum(share[name] ** 2 * moments.variance for name, moments in within.items())
    variance += sum(share[name] * (moments.rate - rate) ** 2 for name, moments in within.items()) / everything
    # sum(w') = N and sum(w'^2) = sum_h N_h^2 / k_h, for w' = w N_h / sum_h(w).
    kish = 1.0 / sum(share[name] ** 2 / moments.kish for name, moments in within.items())
    return _Moments(rate, variance, kish)
