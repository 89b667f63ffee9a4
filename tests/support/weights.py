"""Buckets from raw weights, and the pass rate computed the slow way from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import fsum, sqrt
from typing import NamedTuple

from tracejudge.scores import Bucket

Z95 = 1.959963984540054
"""The 97.5 % point of the normal distribution, from a table."""

Weighted = tuple[float, bool]
"""A weight and whether the trace passed."""


class SlowRate(NamedTuple):
    estimate: float
    n_eff: float
    low: float
    high: float


def bucket_of(scores: Iterable[Weighted], *, invalid: int = 0) -> Bucket:
    """The bucket of these settled scores, added up one by one."""
    total = Bucket(invalid=invalid)
    for w, passed in scores:
        x = float(passed)
        total += Bucket(n=1, passed=int(passed), sum_w=w, sum_w2=w * w, sum_wx=w * x, sum_w2x=w * w * x)
    return total


def equal_bucket(*, judged: int, passed: int, weight: float) -> Bucket:
    """The bucket of `judged` settled scores of one weight, without adding them up."""
    return Bucket(
        n=judged,
        passed=passed,
        sum_w=judged * weight,
        sum_w2=judged * weight**2,
        sum_wx=passed * weight,
        sum_w2x=passed * weight**2,
    )


def slow_rate(scores: Sequence[Weighted]) -> SlowRate:
    """The definition, score by score: Hájek, residuals, Kish, Wilson."""
    weight = fsum(w for w, _ in scores)
    estimate = fsum(w for w, passed in scores if passed) / weight
    variance = fsum((w * (float(passed) - estimate) / weight) ** 2 for w, passed in scores)
    return _with_interval(estimate, variance, weight**2 / fsum(w * w for w, _ in scores))


def slow_stratified_rate(scores: Mapping[str, Sequence[Weighted]], traces: Mapping[str, int]) -> SlowRate:
    """The definition over strata of known size, with every weight rescaled to that size first."""
    everything = sum(traces.values())
    scaled = {
        name: [(w * traces[name] / fsum(v for v, _ in those), passed) for w, passed in those]
        for name, those in scores.items()
    }
    estimate = fsum(w for those in scaled.values() for w, passed in those if passed) / everything
    variance = 0.0
    for name, those in scaled.items():
        own = fsum(w for w, passed in those if passed) / traces[name]
        variance += fsum((w * (float(passed) - own) / everything) ** 2 for w, passed in those)
        variance += traces[name] * (own - estimate) ** 2 / everything**2
    return _with_interval(
        estimate, variance, everything**2 / fsum(w * w for those in scaled.values() for w, _ in those)
    )


def _with_interval(estimate: float, variance: float, kish: float) -> SlowRate:
    n = min(kish, estimate * (1 - estimate) / variance) if variance > 1e-15 else kish
    centre = (estimate + Z95**2 / (2 * n)) / (1 + Z95**2 / n)
    half = Z95 / (1 + Z95**2 / n) * sqrt(estimate * (1 - estimate) / n + Z95**2 / (4 * n**2))
    return SlowRate(estimate, n, max(0.0, centre - half), min(1.0, centre + half))
