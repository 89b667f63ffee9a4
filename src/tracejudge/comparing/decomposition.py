"""A change of a pass rate, split by the slices of the traffic into what changed within them and how their shares moved.

With a_s and b_s the shares of slice s before and since (of the weights), p_s and q_s its rates, P = sum(a p) and
Q = sum(b q), c = (P + Q) / 2, and the slices that are there in both periods in `both`:

    within of s  = (q_s - p_s) (a_s + b_s) / 2                      s in both
    mix of s     = (b_s - a_s) ((p_s + q_s) / 2 - c)                s in both
    new or gone  = b_s (q_s - c)  or  -a_s (p_s - c)                s in one period only, where a rate is missing
    Q - P        = sum(within) + sum(mix) + sum(new or gone)        exactly

The symmetric form of Kitagawa (1955, Components of a difference between two rates), known to economists as the
decomposition of Oaxaca (1973) and Blinder (1973). c changes no total where no slice comes or goes, as shares add up to
one; it makes a slice's own mix tell whether better or worse traffic than the mean grew.

Intervals of the totals are linearised: each row's influence on the total is a_s' + b_s' (x - rate_s), whose squares add
up from the sums of a Bucket. Rows are taken as independent; copies are put together before (evidence, slicing.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist
from typing import NamedTuple

from tracejudge.comparing.paired import Estimate
from tracejudge.scores import Bucket
from tracejudge.windows import PassRate, pass_rate


@dataclass(frozen=True, slots=True, kw_only=True)
class SlicePart:
    """One slice and its part of the change. Rates are None in a period that has no settled score of it."""

    value: str
    before: PassRate | None
    since: PassRate | None
    share_before: float
    share_since: float
    within: float
    mix: float
    new_or_gone: float

    @property
    def contribution(self) -> float:
        """The slice's whole contribution to the change."""
        return self.within + self.mix + self.new_or_gone


@dataclass(frozen=True, slots=True, kw_only=True)
class Decomposition:
    """A change of a rate (since minus before) and its parts. `between` is mix and new or gone together."""

    change: float
    within: Estimate
    mix: Estimate
    between: Estimate
    new_or_gone: float
    slices: tuple[SlicePart, ...]  # the largest shares first


class _Side(NamedTuple):
    """One period: its sums by slice, and shares and rates made of them."""

    buckets: Mapping[str, Bucket]
    total_w: float
    share: Mapping[str, float]
    rate: Mapping[str, float]
    overall: float


_Form = Mapping[str, tuple[float, float]]
"""By slice: the constant part of a row's influence on a total, and what its x - rate is multiplied with."""


def decompose(
    before: Mapping[str, Bucket], since: Mapping[str, Bucket], *, confidence: float = 0.95
) -> Decomposition | None:
    """The change from `before` to `since`, by slice; None when a period has no settled score.

    >>> one = {"a": Bucket(n=50, passed=50, sum_w=50, sum_w2=50, sum_wx=50, sum_w2x=50),
    ...        "b": Bucket(n=50, passed=40, sum_w=50, sum_w2=50, sum_wx=40, sum_w2x=40)}
    >>> two = {"a": one["a"], "b": Bucket(n=50, passed=20, sum_w=50, sum_w2=50, sum_wx=20, sum_w2x=20)}
    >>> parts = decompose(one, two)
    >>> round(parts.change, 3), round(parts.within.value, 3), round(parts.mix.value, 3)
    (-0.2, -0.2, 0.0)
    """
    old, new = _side(before), _side(since)
    if old is None or new is None:
        return None
    both = old.share.keys() & new.share.keys()
    centre = (old.overall + new.overall) / 2.0
    parts = [_part(name, old, new, centre) for name in old.share.keys() | new.share.keys()]
    parts.sort(key=lambda part: (-(part.share_before + part.share_since), part.value))
    change = new.overall - old.overall
    z = NormalDist().inv_cdf(0.5 + confidence / 2.0)

    def estimate(value: float, forms: tuple[_Form, _Form]) -> Estimate:
        half = z * sqrt(_variance(old, forms[0]) + _variance(new, forms[1]))
        return Estimate(value=value, low=value - half, high=value + half)

    of_change = _of_change(old, new)
    of_within, of_mix = _of_within(old, new, both), _of_mix(old, new, both, centre)
    of_between = (_minus(of_change[0], of_within[0]), _minus(of_change[1], of_within[1]))
    within = sum(part.within for part in parts)
    return Decomposition(
        change=change,
        within=estimate(within, of_within),
        mix=estimate(sum(part.mix for part in parts), of_mix),
        between=estimate(sum(part.mix + part.new_or_gone for part in parts), of_between),
        new_or_gone=sum(part.new_or_gone for part in parts),
        slices=tuple(parts),
    )


def _side(buckets: Mapping[str, Bucket]) -> _Side | None:
    held = {name: bucket for name, bucket in buckets.items() if bucket.n > 0 and bucket.sum_w > 0.0}
    total_w = sum(bucket.sum_w for bucket in held.values())
    if not held:
        return None
    return _Side(
        buckets=held,
        total_w=total_w,
        share={name: bucket.sum_w / total_w for name, bucket in held.items()},
        rate={name: bucket.sum_wx / bucket.sum_w for name, bucket in held.items()},
        overall=sum(bucket.sum_wx for bucket in held.values()) / total_w,
    )


def _part(name: str, old: _Side, new: _Side, centre: float) -> SlicePart:
    a, b = old.share.get(name, 0.0), new.share.get(name, 0.0)
    within = mix = other = 0.0
    if name in old.rate and name in new.rate:
        p, q = old.rate[name], new.rate[name]
        within, mix = (q - p) * (a + b) / 2.0, (b - a) * ((p + q) / 2.0 - centre)
    elif name in new.rate:
        other = b * (new.rate[name] - centre)
    else:
        other = -a * (old.rate[name] - centre)
    return SlicePart(
        value=name,
        before=_rate(old, name),
        since=_rate(new, name),
        share_before=a,
        share_since=b,
        within=within,
        mix=mix,
        new_or_gone=other,
    )


def _rate(side: _Side, name: str) -> PassRate | None:
    return pass_rate({"": side.buckets[name]}) if name in side.buckets else None


def _of_change(old: _Side, new: _Side) -> tuple[_Form, _Form]:
    return (
        {name: (old.overall - rate, -1.0) for name, rate in old.rate.items()},
        {name: (rate - new.overall, 1.0) for name, rate in new.rate.items()},
    )


def _of_within(old: _Side, new: _Side, both: set[str]) -> tuple[_Form, _Form]:
    half = {name: (new.rate[name] - old.rate[name]) / 2.0 for name in both}

    def form(side: _Side, sign: float) -> _Form:
        mean = sum(side.share[name] * half[name] for name in both)
        return {
            name: (
                half.get(name, 0.0) - mean,
                sign * (old.share[name] + new.share[name]) / (2.0 * side.share[name]) if name in both else 0.0,
            )
            for name in side.share
        }

    return form(old, -1.0), form(new, 1.0)


def _of_mix(old: _Side, new: _Side, both: set[str], centre: float) -> tuple[_Form, _Form]:
    height = {name: (old.rate[name] + new.rate[name]) / 2.0 - centre for name in both}
    moved = sum(new.share[name] - old.share[name] for name in both)  # 0 where no slice comes or goes

    def form(side: _Side, sign: float) -> _Form:
        mean = sum(side.share[name] * height[name] for name in both)
        return {
            name: (
                sign * (height.get(name, 0.0) - mean) - moved * (side.rate[name] - side.overall) / 2.0,
                ((new.share[name] - old.share[name]) / (2.0 * side.share[name]) if name in both else 0.0) - moved / 2.0,
            )
            for name in side.share
        }

    return form(old, -1.0), form(new, 1.0)


def _minus(one: _Form, other: _Form) -> _Form:
    return {name: (one[name][0] - other[name][0], one[name][1] - other[name][1]) for name in one}


def _variance(side: _Side, form: _Form) -> float:
    """sum(w^2 (a' + b' (x - rate))^2) / sum(w)^2."""
    total = 0.0
    for name, bucket in side.buckets.items():
        constant, slope = form[name]
        rate, w2, w2x = side.rate[name], bucket.sum_w2, bucket.sum_w2x
        if bucket.passed in (0, bucket.n):
            # All alike tells little about the spread: two passed and two failed are thought in (Agresti & Coull 1998).
            kish = bucket.sum_w**2 / w2
            near = (kish * rate + 2.0) / (kish + 4.0)
            total += w2 * (constant**2 + slope**2 * near * (1.0 - near))
        else:
            squares = (1.0 - rate) ** 2 * w2x + rate**2 * (w2 - w2x)
            total += constant**2 * w2 + 2.0 * constant * slope * (w2x - rate * w2) + slope**2 * squares
    return max(0.0, total) / side.total_w**2
