"""Two pass rates of different traces (a canary beside the old release), and whether one may be called worse.

The difference of two independent rates has Newcombe's interval (Newcombe 1998, independent shares, method 10): the
distances to the ends of both intervals, each Wilson's on its effective sample size, added in squares. Weights are
honoured through the effective sizes.

Is the new one no worse than the old one by more than an allowed drop? Decided on the interval, as non-inferiority
trials are: its lower end above minus the drop: no worse. Its upper end below: worse. Anything else: not enough yet.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from math import hypot
from typing import Final

from tracejudge.comparing.paired import Estimate
from tracejudge.windows import PassRate, wilson

MAX_NEEDED: Final = 10_000_000
"""Beyond this many traces one does not say how many are needed: the difference lies at the limit itself."""


class Verdict(str, Enum):
    """The conclusion that the interval of a difference allows."""

    NO_WORSE = "no_worse"
    WORSE = "worse"
    NOT_ENOUGH = "not_enough"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseVerdict:
    """The new rate against the old one. `needed` is how many more judged traces of the new one would probably decide it
    if both rates stay as they look now; None when it is decided, or when no number would do."""

    verdict: Verdict
    difference: Estimate | None
    needed: int | None


def difference(new: PassRate | None, old: PassRate | None, *, confidence: float = 0.95) -> Estimate | None:
    """How much higher the new rate is, in [-1, 1]; None when either has no settled score."""
    sizes = _sizes(new, old)
    return None if sizes is None else difference_of(*sizes, confidence=confidence)


def judge_release(
    new: PassRate | None,
    old: PassRate | None,
    *,
    allowed_drop: float,
    minimum_effective: float = 20.0,
    confidence: float = 0.95,
) -> ReleaseVerdict:
    """Whether the new release is no worse than the old one by more than `allowed_drop` (a share, 0.02 = 2 points).

    Below `minimum_effective` effective samples on either side nothing is decided. Raises ValueError for a drop outside
    (0, 1).
    """
    check_drop(allowed_drop)
    sizes = _sizes(new, old)
    if sizes is None:
        return ReleaseVerdict(verdict=Verdict.NOT_ENOUGH, difference=None, needed=None)
    seen = difference_of(*sizes, confidence=confidence)
    verdict = verdict_of(seen, allowed_drop)
    if min(sizes[1], sizes[3]) < minimum_effective:
        verdict = Verdict.NOT_ENOUGH
    needed = None
    if verdict is Verdict.NOT_ENOUGH and new is not None:
        needed = _needed(new, sizes, allowed_drop, minimum_effective, confidence)
    return ReleaseVerdict(verdict=verdict, difference=seen, needed=needed)


def check_drop(allowed_drop: float) -> None:
    """Raises ValueError for a drop outside (0, 1)."""
    if not 0.0 < allowed_drop < 1.0:
        raise ValueError(f"allowed drop: {allowed_drop!r} is not between 0 and 1; 0.02 means 2 points")


def verdict_of(seen: Estimate, allowed_drop: float) -> Verdict:
    """The verdict on the interval of a difference, given a drop that is still acceptable."""
    if seen.low > -allowed_drop:
        return Verdict.NO_WORSE
    return Verdict.WORSE if seen.high < -allowed_drop else Verdict.NOT_ENOUGH


def fewest_more(decided: Callable[[int], bool]) -> int | None:
    """The smallest number of further judged traces that decides, by bisection; None beyond `MAX_NEEDED`."""
    if not decided(MAX_NEEDED):
        return None
    low, high = 0, MAX_NEEDED
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if decided(middle) else (middle, high)
    return high


def _sizes(new: PassRate | None, old: PassRate | None) -> tuple[float, float, float, float] | None:
    """Rate and effective size of the new one, then of the old one."""
    if new is None or old is None or new.estimate is None or old.estimate is None:
        return None
    return new.estimate, new.n_eff, old.estimate, old.n_eff


def difference_of(p_new: float, n_new: float, p_old: float, n_old: float, *, confidence: float) -> Estimate:
    """The difference p_new - p_old of two rates, seen in `n_new` and `n_old` effective samples, with its interval."""
    new, old = wilson(p_new, n_new, confidence=confidence), wilson(p_old, n_old, confidence=confidence)
    value = p_new - p_old
    return Estimate(
        value=value,
        low=max(-1.0, value - hypot(p_new - new.low, old.high - p_old)),
        high=min(1.0, value + hypot(new.high - p_new, p_old - old.low)),
    )


def _needed(
    new: PassRate,
    sizes: tuple[float, float, float, float],
    allowed_drop: float,
    minimum_effective: float,
    confidence: float,
) -> int | None:
    """The smallest number of further judged traces at which the same rates would be decided."""
    p_new, n_new, p_old, n_old = sizes
    if n_old < minimum_effective:
        return None

    def decided(more: int) -> bool:
        size = n_new * (new.judged + more) / new.judged  # the weights stay as unequal as they are
        enough = size >= minimum_effective
        return enough and verdict_of(
            difference_of(p_new, size, p_old, n_old, confidence=confidence), allowed_drop
        ) is not (Verdict.NOT_ENOUGH)

    return fewest_more(decided)
