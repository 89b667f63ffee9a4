"""How a new judge begins: with what a replay found, with the old judge's baseline moved by what both said, or anew.

Where old and new judged the same traces, with d = new - old verdict in {-1, 0, 1} and w the weights of the old:

    difference  D = sum(w d) / sum(w)
    variance    V = sum(w^2 (d - D)^2) / sum(w)^2 + (sum(w^2) / sum(w)^2)^2         linearised; the second term is that
                                                                                    of one pair more that differs
    bridged     m' = m + D,  se'^2 = se^2 + V

Every sum of the old baseline is moved by D exactly (sum(w x) -> sum(w x) + D sum(w), and so on), so that season and
overdispersion come along, and the sums behind m are then scaled by se^2 / (se^2 + V), which makes their standard error
se'. So the first own rows of the new judge weigh as much beside them as they should.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from tracejudge.alerts.detecting.baseline import Baseline

LEAST_PAIRS: Final = 30
"""Traces that both judged, below which nothing is bridged."""

_LOWEST, _HIGHEST = 0.001, 0.999
_Z: Final = 1.96


class HourSums(NamedTuple):
    """Settled rows of an hour (counted since 1970): sums of w, w x, w^2 and w^2 x."""

    hour: int
    w: float
    wx: float
    w2: float
    w2x: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """What two judges said of the same traces, as the new one's difference from the old in shares."""

    n: int
    difference: float
    variance: float

    @classmethod
    def of_sums(cls, *, n: int, w: float, wd: float, w2: float, w2d: float, w2d2: float) -> Overlap | None:
        """From sums over the pairs; None without any."""
        if n == 0 or w <= 0.0:
            return None
        difference = wd / w
        spread = w2d2 - 2.0 * difference * w2d + difference * difference * w2
        return cls(n=n, difference=difference, variance=max(0.0, spread) / w**2 + (w2 / w**2) ** 2)

    @property
    def enough(self) -> bool:
        return self.n >= LEAST_PAIRS

    def numbers(self) -> dict[str, object]:
        """JSON values for evidence, with a 95 % interval."""
        half = _Z * math.sqrt(self.variance)
        return {
            "pairs": self.n,
            "difference": self.difference,
            "low": max(-1.0, self.difference - half),
            "high": min(1.0, self.difference + half),
        }


def bridged(old: Baseline, overlap: Overlap) -> Baseline | None:
    """The baseline of the new judge; None while that of the old one is not known."""
    if not old.known or not overlap.enough or old.se <= 0.0 or not math.isfinite(old.se):
        return None
    move = min(max(old.m + overlap.difference, _LOWEST), _HIGHEST) - old.m
    scale = old.se**2 / (old.se**2 + overlap.variance)
    state = old.to_state()
    state["sums"] = [scale * value for value in _moved(state["sums"], move)]
    state["waiting"] = [[hour, *(scale * value for value in _moved(cell, move))] for hour, *cell in state["waiting"]]
    state["day"] = [_day_moved(row, move) for row in state["day"]]
    return Baseline.from_state(state)


def begin(
    baseline: Baseline, *, old: Baseline | None, overlap: Overlap | None, hours: Iterable[HourSums] = ()
) -> tuple[Baseline, Mapping[str, Any]]:
    """The baseline to begin with, the surest of those that can be had, and where it comes from."""
    first = baseline.since_hour
    found = [one for one in sorted(hours) if one.w > 0.0 and (first is None or one.hour < first)]
    over = None if old is None or overlap is None else bridged(old, overlap)
    if found and (over is None or _seeded(baseline, found).se <= over.se):
        for one in found:
            baseline.see_sums(one.hour, one.w, one.wx, one.w2, one.w2x)
        return baseline, {"from": "replay", "hours": len(found)}
    if over is not None and overlap is not None:
        return over, {"from": "bridge", **overlap.numbers()}
    pairs = 0 if overlap is None else overlap.n
    return baseline, {"from": "nothing", "pairs": pairs}


def _seeded(baseline: Baseline, hours: Iterable[HourSums]) -> Baseline:
    """The baseline as it is once all of these hours are learned."""
    trial = Baseline.from_state(baseline.to_state())
    for one in hours:
        trial.see_sums(one.hour, one.w, one.wx, one.w2, one.w2x)
    trial.learn_all()
    return trial


def _moved(sums: Iterable[float], move: float) -> list[float]:
    """The sums w, w x, w^2 and w^2 x for x + move instead of x; w^2 x as it would be for rows of rate m + move."""
    w, wx, w2, w2x = sums
    return [w, min(max(wx + move * w, 0.0), w), w2, min(max(w2x + move * w2, 0.0), w2)]


def _day_moved(row: Iterable[float], move: float) -> list[float]:
    """The sums w, w x, w^2 and S^2/Q, S W/Q, W^2/Q (chi^2 around any fit) for S + move W instead of S."""
    w, wx, w2, squares, products, weights = row
    return [
        w,
        wx + move * w,
        w2,
        squares + 2.0 * move * products + move * move * weights,
        products + move * weights,
        weights,
    ]
