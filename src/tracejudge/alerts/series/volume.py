"""How many judged traces an hour of the week brings, learned; and evidence that it brings far fewer, or far more.

    mu_k   = (s_k + d/4) / (n_k + 1/4)                    the hour k of the week: s_k traces in n_k such hours so far,
    d      = (S_day + m) / (N_day + 1)                    shrunk to the hour of the day, and that to the mean m
    phi    = mean of (count - mu)^2 / mu, upper bound     overdispersion, of predictions made before the hour was seen

    low:   b = mu a,   targets mu (1 - c)                 a = 1 - min_change / 2
    high:  b = mu / a, targets mu / (1 - c)               c = min_change, half-way to 1, and .95
    L_j    = exp((b - l_j + count log(l_j / b)) / phi)    l_j the target of component j
    R_j    <- (R_j + 1) L_j;  M = sum_j R_j / 6           once an hour; fire when M >= A hours

L_j without phi is the likelihood ratio of Poisson counts, and E[L_j] <= 1 for every rate on the good side of b: so M
minus the hours passed is a supermartingale, as for the pass rate. Traffic is no Poisson process: phi tempers the bets
by how far real hours were off, the same for all hours, and the promise is as good as the weeks are alike. A week is
learned before anything is said.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

WEEK_H: Final = 168
DAY_H: Final = 24
_MEMORY: Final = 0.75  # of an hour of the week, each week: about the last four weeks count
_FADE: Final = 1.0 - 1.0 / (4 * WEEK_H)  # of phi, each hour
_WORST: Final = 100.0  # of one squared residual: one outage must not blind the rule for weeks
_CEILING: Final = 1e12
_STEEPEST: Final = 50.0  # of one log factor


class VolumeProfile:
    """The expected number of traces in each hour of the week. Hours are counted since 1970."""

    __slots__ = ("chi", "counts", "hours", "learned", "residuals")

    def __init__(self) -> None:
        self.hours = [0.0] * WEEK_H  # n_k
        self.counts = [0.0] * WEEK_H  # s_k
        self.learned = 0
        self.chi = 0.0
        self.residuals = 0.0

    @property
    def known(self) -> bool:
        """Whether a whole week has been learned."""
        return self.learned >= WEEK_H

    def expected(self, hour: int) -> float:
        """mu of this hour; above 0."""
        k = hour % WEEK_H
        total = sum(self.hours)
        mean = sum(self.counts) / total if total else 0.0
        same = range(k % DAY_H, WEEK_H, DAY_H)
        of_day = (sum(self.counts[i] for i in same) + mean) / (sum(self.hours[i] for i in same) + 1.0)
        return max((self.counts[k] + of_day / 4.0) / (self.hours[k] + 0.25), 0.1)

    @property
    def phi(self) -> float:
        """By its upper bound, so that it is not taken too small while few hours are known."""
        if self.residuals < 2.0:
            return 1.0
        return max(1.0, self.chi / self.residuals * (1.0 + 2.0 * math.sqrt(2.0 / self.residuals)))

    def learn(self, hour: int, count: int) -> None:
        """Takes in an hour that is over."""
        if self.learned >= 2 * DAY_H:  # before, every prediction is a guess
            expected = self.expected(hour)
            self.chi = self.chi * _FADE + min((count - expected) ** 2 / max(expected, 1.0), _WORST * self.phi)
            self.residuals = self.residuals * _FADE + 1.0
        k = hour % WEEK_H
        self.hours[k] = self.hours[k] * _MEMORY + 1.0
        self.counts[k] = self.counts[k] * _MEMORY + count
        self.learned += 1

    def to_state(self) -> dict[str, Any]:
        """JSON values; `from_state` continues exactly."""
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> VolumeProfile:
        profile = cls()
        for name in cls.__slots__:
            value = state[name]
            setattr(profile, name, list(value) if isinstance(value, list) else value)
        return profile


class VolumeDetector:
    """Evidence, in hours, for a change of the volume; the first three components look for less of it."""

    __slots__ = ("cusum", "evidence", "ratios", "share_kept", "starts")

    def __init__(self, min_change: float) -> None:
        targets = [1.0 - c for c in (min_change, (1.0 + min_change) / 2.0, 0.95)]
        self.share_kept = 1.0 - min_change / 2.0  # a
        self.ratios = [*targets, *(1.0 / target for target in targets)]
        self.reset()

    def reset(self) -> None:
        """Forgets all evidence."""
        self.evidence = [0.0] * len(self.ratios)
        self.cusum = [0.0] * len(self.ratios)
        self.starts: list[int | None] = [None] * len(self.ratios)

    def scale(self, factor: float) -> None:
        """Takes the evidence, in hours, times a factor of at most 1."""
        self.evidence = [hours * factor for hours in self.evidence]

    def observe(self, hour: int, count: int, *, expected: float, phi: float) -> None:
        """Folds an hour; `expected` and `phi` as they were before it was seen."""
        for j, ratio in enumerate(self.ratios):
            bound = expected * (self.share_kept if ratio < 1.0 else 1.0 / self.share_kept)
            step = log_factor(count, to=expected * ratio, against=bound, phi=phi)
            self.evidence[j] = min((self.evidence[j] + 1.0) * math.exp(step), _CEILING)
            if self.cusum[j] == 0.0 and step > 0.0:
                self.starts[j] = hour
            self.cusum[j] = max(0.0, self.cusum[j] + step)

    @property
    def hours(self) -> float:
        """M: compare it with the alarm level."""
        return math.fsum(self.evidence) / len(self.evidence)

    @property
    def leading(self) -> int:
        """The component with the most evidence."""
        return max(range(len(self.evidence)), key=self.evidence.__getitem__)

    def to_state(self) -> dict[str, Any]:
        """JSON values; `take_up` continues exactly."""
        return {"evidence": list(self.evidence), "cusum": list(self.cusum), "starts": list(self.starts)}

    def take_up(self, state: Mapping[str, Any]) -> None:
        """Continues from a state."""
        self.evidence, self.cusum, self.starts = (list(state[name]) for name in ("evidence", "cusum", "starts"))


def log_factor(count: int, *, to: float, against: float, phi: float) -> float:
    """log of the tempered likelihood ratio of a Poisson count: rate `to` against rate `against`, bounded.

    >>> round(log_factor(10, to=10.0, against=20.0, phi=1.0), 3)
    3.069
    """
    step = (against - to + count * math.log(to / against)) / phi
    return max(-_STEEPEST, min(_STEEPEST, step))
