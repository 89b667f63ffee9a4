"""Has the pass rate fallen below a boundary? A mixture Shiryaev-Roberts e-detector with O(1) state.

For each settled row, x = 1 for passed and 0 for failed, w its scaled weight, b the boundary (fixed before x is seen),
f = 1 - b, and g the hours by which the row advances the series' event-time watermark:

    f_j   = o / (1 + o), o = r_j f / (1 - f)              hypothetical failure rate of component j (odds times r_j)
    lam_j = (f_j - f) / (f (1 - f) deff)                  deff = E[w^2] / E[w]^2
    L_j   = 1 + min(lam_j w, 0.98 / f) (b - x)
    R_j  <- (R_j + g) L_j
    M     = sum_j W_j R_j                                 fire when M >= A hours

While the weighted rate is at least b, E[w (b - x) | past] <= 0, so E[L_j | past] <= 1 and M minus the hours passed is a
supermartingale: the mean time to a false alarm is at least A hours of event time, without independence and without a
table. (Where the cap of 0.98 / f binds, the claim is about the clipped weights.) For unweighted rows L_j is exactly the
likelihood ratio, so nothing is lost against the parametric mixture.

Sources: Shiryaev-Roberts mixtures (Pollak; Tartakovsky, Polunchenko); E-detectors (Shin, Ramdas, Rinaldo).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from tracejudge.alerts.sums import Place, Sums

ODDS: Final = (1.25, 1.5, 1.9, 2.5, 3.6, 6.0, 12.0)
"""Multipliers of the odds of failure, one component each: from a drop hardly worth a ticket to a breakdown."""

PRIOR: Final = (0.16, 0.18, 0.18, 0.16, 0.14, 0.10, 0.08)
"""Weights of the components; they sum to 1. Not delicate: other priors cost a few per cent of delay."""

_CLIP: Final = 0.98  # of the bet that would make a factor zero: one surprising row must not erase all evidence
_CEILING: Final = 1e12  # hours; a series that may not fire yet piles up evidence, and infinity is no JSON


def hypothetical_rates(boundary: float) -> tuple[float, ...]:
    """The pass rates 1 - f_j that the components bet on, all below the boundary, falling."""
    fail = 1.0 - boundary
    odds = [r * fail / boundary for r in ODDS]
    return tuple(1.0 / (1.0 + o) for o in odds)


class DropDetector:
    """Evidence that the rate is below `boundary`, a number strictly between 0 and 1.

    Beside the evidence each component keeps a CUSUM of its log factors: the place where it last left zero is the
    maximum-likelihood estimate of when the drop began.
    """

    __slots__ = ("_cache_key", "_factors", "_logs", "_unit", "boundary", "cusum", "hours", "starts")

    def __init__(self, boundary: float) -> None:
        if not 0.0 < boundary < 1.0:
            raise ValueError(
                f"boundary: {boundary!r} is not strictly between 0 and 1; choose a rate that can be missed"
            )
        fail = 1.0 - boundary
        self.boundary = boundary
        self.hours = [0.0] * len(ODDS)  # R_j
        self.cusum = [0.0] * len(ODDS)
        self.starts: list[Place | None] = [None] * len(ODDS)
        self._unit = tuple((boundary - rate) / (fail * boundary) for rate in hypothetical_rates(boundary))
        self._cache_key = (math.nan, math.nan)
        self._factors: tuple[tuple[float, ...], tuple[float, ...]] = ((), ())
        self._logs: tuple[tuple[float, ...], tuple[float, ...]] = ((), ())

    def pass_time(self, hours: float) -> None:
        """Event time went on by `hours` without a verdict (a judge's failure): no factor."""
        if hours:
            self.hours = [min(r + hours, _CEILING) for r in self.hours]

    def observe(self, *, passed: bool, weight: float, deff: float, hours: float, place: Place) -> None:
        """Folds one verdict: scaled weight, design effect and advance of the watermark as they were before it.

        `place` is the place just before this row.
        """
        if (weight, deff) != self._cache_key:
            self._prepare(weight, deff)
        factors, logs = self._factors[passed], self._logs[passed]
        self.hours = [min((r + hours) * factor, _CEILING) for r, factor in zip(self.hours, factors, strict=True)]
        cusum, starts = self.cusum, self.starts
        for j, log in enumerate(logs):
            level = cusum[j]
            if level == 0.0:
                if log <= 0.0:
                    continue
                starts[j] = place
            cusum[j] = max(0.0, level + log)

    @property
    def evidence_hours(self) -> float:
        """M, in hours: compare it with the alarm level A."""
        return math.fsum(w * r for w, r in zip(PRIOR, self.hours, strict=True))

    @property
    def leading(self) -> int:
        """The component with the largest share of the evidence."""
        return max(range(len(PRIOR)), key=lambda j: PRIOR[j] * self.hours[j])

    @property
    def start(self) -> Place | None:
        """The estimated beginning of the drop, by the leading component; None while its CUSUM is at zero."""
        j = self.leading
        return self.starts[j] if self.cusum[j] > 0.0 else None

    def reset(self) -> None:
        """Forgets all evidence."""
        self.hours = [0.0] * len(ODDS)
        self.cusum = [0.0] * len(ODDS)
        self.starts = [None] * len(ODDS)

    def factors(self, *, passed: bool, weight: float = 1.0, deff: float = 1.0) -> tuple[float, ...]:
        """L_j of a verdict, for every component."""
        fail, miss = 1.0 - self.boundary, self.boundary - (1.0 if passed else 0.0)
        cap = _CLIP / fail
        return tuple(1.0 + min(unit / deff * weight, cap) * miss for unit in self._unit)

    def _prepare(self, weight: float, deff: float) -> None:
        # Unweighted streams, and those of one sampling rate, take this path once.
        failed, passed = (self.factors(passed=x, weight=weight, deff=deff) for x in (False, True))
        self._factors = (failed, passed)
        self._logs = (tuple(map(math.log, failed)), tuple(map(math.log, passed)))
        self._cache_key = (weight, deff)

    def to_state(self) -> dict[str, Any]:
        """JSON values; `from_state` continues exactly."""
        starts = [
            place_to_state(place) if place is not None and level > 0.0 else None
            for place, level in zip(self.starts, self.cusum, strict=True)
        ]
        return {"boundary": self.boundary, "hours": list(self.hours), "cusum": list(self.cusum), "starts": starts}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> DropDetector:
        detector = cls(state["boundary"])
        detector.hours = [float(r) for r in state["hours"]]
        detector.cusum = [float(c) for c in state["cusum"]]
        detector.starts = [place_from_state(place) if place is not None else None for place in state["starts"]]
        return detector


def place_to_state(place: Place) -> list[Any]:
    """A place as JSON values."""
    return [place.at.isoformat(), *place.before]


def place_from_state(state: list[Any]) -> Place:
    """The place that `place_to_state` wrote."""
    at, *sums = state
    return Place(datetime.fromisoformat(at), Sums.from_state(sums))
