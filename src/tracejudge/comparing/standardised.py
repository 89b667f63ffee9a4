"""Two releases held against each other within slices of their traffic, so that another mix of slices is no difference.

With a slice s that both have, b_s the new one's share of it (of the weights, over the slices compared), q_s and p_s the
rates of the new and the old one in it, n_s and m_s their effective sizes (windows/rate.py):

    rates       Q = sum_s b_s q_s,  P = sum_s b_s p_s          direct standardisation to the new one's traffic
    difference  D = Q - P = sum_s b_s (q_s - p_s)              (Fleiss, Levin & Paik 2003, ch. 19)
    variance    V = sum_s b_s^2 q_s (1 - q_s) / n_s            of Q given the shares, and with p_s, m_s of P
    effective   n = min(1 / sum_s(b_s^2 / n_s), Q (1 - Q) / V) the smaller of two sizes, as for rates of known strata

and the ends of D are Newcombe's of Q and P (`unpaired.difference`, which is this for one slice), each in n effective
samples, with z^2 B added in squares for shares that are themselves seen in a sample: with d_s = q_s - p_s a row of the
new one adds w (x - q_s + d_s - D) / sum(w) to D, and of that variance

    B = max(0, sum_s (d_s - D)^2 sum_s(w^2) + 2 (d_s - D) sum_s(w^2 (x - q_s))) / sum(w)^2

is what V does not hold (linearised, Särndal, Swensson & Wretman 1992, 5.5).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import hypot, sqrt
from statistics import NormalDist
from typing import Final, NamedTuple

from tracejudge.comparing.paired import Estimate
from tracejudge.comparing.unpaired import ReleaseVerdict, Verdict, check_drop, difference_of, fewest_more, verdict_of
from tracejudge.scores import Bucket
from tracejudge.windows import PassRate, pass_rate

LEAST_IN_SLICE: Final = 5.0
"""Effective samples that either side needs in a slice; without them the slice is left out."""

LEAST_COMPARED: Final = 0.8
"""Of the new one's traffic, what the slices compared must hold for a verdict."""

MOST_LEFT_OUT: Final = 20
"""Slices left out that are named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedSlice:
    """A slice and both rates in it. Shares are of all of each one's traffic."""

    value: str
    share_new: float
    share_old: float
    new: PassRate
    old: PassRate


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A slice of which one of the two has too few effective samples, or none. Shares as in ComparedSlice."""

    value: str
    share_new: float
    share_old: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Standardised:
    """The difference within slices and its verdict. `compared` is the share of the new one's traffic that the slices
    hold; of those left out (`left_out_slices` in number) the largest are named. Largest first, both."""

    result: ReleaseVerdict
    compared: float
    slices: tuple[ComparedSlice, ...]
    left_out: tuple[LeftOut, ...]
    left_out_slices: int


class _Side(NamedTuple):
    """A rate as it would be with the new one's traffic, and its effective size."""

    rate: float
    n_eff: float


def judge_within(
    new: Mapping[str, Bucket],
    old: Mapping[str, Bucket],
    *,
    allowed_drop: float,
    minimum_effective: float = 20.0,
    confidence: float = 0.95,
) -> Standardised:
    """Whether the new release is, within the slices that both have, no worse by more than `allowed_drop`.

    Nothing is decided where the slices compared hold less than `LEAST_COMPARED` of the new one's traffic, or below
    `minimum_effective` effective samples on either side. Raises ValueError for a drop outside (0, 1).
    """
    check_drop(allowed_drop)
    total_new, total_old = _weight(new), _weight(old)
    slices: list[ComparedSlice] = []
    left_out: list[LeftOut] = []
    for value in new.keys() | old.keys():
        a, b = new.get(value, Bucket()), old.get(value, Bucket())
        if not a.n and not b.n:
            continue
        shares = {"share_new": a.sum_w / (total_new or 1.0), "share_old": b.sum_w / (total_old or 1.0)}
        rate, other = pass_rate({"": a}), pass_rate({"": b})
        if rate is None or other is None or min(rate.n_eff, other.n_eff) < LEAST_IN_SLICE:
            left_out.append(LeftOut(value=value, **shares))
        else:
            slices.append(ComparedSlice(value=value, new=rate, old=other, **shares))
    slices.sort(key=lambda one: (-one.share_new, one.value))
    left_out.sort(key=lambda one: (-one.share_new, -one.share_old, one.value))
    compared = sum(one.share_new for one in slices)
    return Standardised(
        result=_judge(slices, compared, new, allowed_drop, minimum_effective, confidence),
        compared=compared,
        slices=tuple(slices),
        left_out=tuple(left_out[:MOST_LEFT_OUT]),
        left_out_slices=len(left_out),
    )


def _weight(buckets: Mapping[str, Bucket]) -> float:
    return sum(bucket.sum_w for bucket in buckets.values() if bucket.n)


def _judge(
    slices: list[ComparedSlice],
    compared: float,
    new: Mapping[str, Bucket],
    allowed_drop: float,
    minimum_effective: float,
    confidence: float,
) -> ReleaseVerdict:
    if not slices:
        return ReleaseVerdict(verdict=Verdict.NOT_ENOUGH, difference=None, needed=None)
    new_side = _side([(one.share_new / compared, one.new) for one in slices])
    old_side = _side([(one.share_new / compared, one.old) for one in slices])
    of_shares = _variance_of_shares(slices, new_side.rate - old_side.rate, new)

    def difference_with(more: int) -> tuple[Estimate, float]:
        times = 1.0 + more / judged  # the weights stay as unequal, and the slices as large, as they are
        larger = new_side._replace(n_eff=new_side.n_eff * times)
        return _difference(larger, old_side, of_shares / times, confidence), larger.n_eff

    def verdict(more: int) -> Verdict:
        seen, n_eff = difference_with(more)
        return verdict_of(seen, allowed_drop) if n_eff >= minimum_effective else Verdict.NOT_ENOUGH

    judged = sum(one.new.judged for one in slices)
    found = ReleaseVerdict(verdict=Verdict.NOT_ENOUGH, difference=difference_with(0)[0], needed=None)
    if compared < LEAST_COMPARED or old_side.n_eff < minimum_effective:
        return found
    if (now := verdict(0)) is not Verdict.NOT_ENOUGH:
        return replace(found, verdict=now)
    return replace(found, needed=fewest_more(lambda more: verdict(more) is not Verdict.NOT_ENOUGH))


def _side(slices: list[tuple[float, PassRate]]) -> _Side:
    rates = [(share, one.estimate or 0.0, one.n_eff) for share, one in slices]
    rate = min(1.0, sum(share * p for share, p, _ in rates))
    if all(one.failed == 0 for _, one in slices):
        rate = 1.0  # whatever the last digits of the shares add up to
    n_eff = 1.0 / sum(share**2 / n for share, _, n in rates)
    variance = sum(share**2 * p * (1.0 - p) / n for share, p, n in rates)
    return _Side(rate, min(n_eff, rate * (1.0 - rate) / variance) if variance > 0.0 else n_eff)


def _variance_of_shares(slices: list[ComparedSlice], value: float, new: Mapping[str, Bucket]) -> float:
    """B, without z^2."""
    total = weight = 0.0
    for one in slices:
        bucket, rate = new[one.value], one.new.estimate or 0.0
        beyond = rate - (one.old.estimate or 0.0) - value
        total += beyond**2 * bucket.sum_w2 + 2.0 * beyond * (bucket.sum_w2x - rate * bucket.sum_w2)
        weight += bucket.sum_w
    return max(0.0, total) / weight**2


def _difference(new: _Side, old: _Side, of_shares: float, confidence: float) -> Estimate:
    seen = difference_of(new.rate, new.n_eff, old.rate, old.n_eff, confidence=confidence)
    z = NormalDist().inv_cdf(0.5 + confidence / 2.0)
    beyond = z * sqrt(of_shares)
    return Estimate(
        value=seen.value,
        low=max(-1.0, seen.value - hypot(seen.value - seen.low, beyond)),
        high=min(1.0, seen.value + hypot(seen.high - seen.value, beyond)),
    )
