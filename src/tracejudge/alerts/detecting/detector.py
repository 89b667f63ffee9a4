"""Has the pass rate fallen below a boundary? A mixture Shiryaev-Roberts e-detector with O(1) state.

For each settled row, x = 1 for passed and 0 for failed, w its scaled weight, b the boundary (fixed before x is seen),
L_j the factor of component j (`bets.py`), and g the hours by which the row advances the series' event-time watermark:

    R_j  <- (R_j + g) L_j
    M     = sum_j W_j R_j                                 fire when M >= A hours; W_j = 0 where j is not armed

While the weighted rate is at least b, E[w (b - x) | past] <= 0, so E[L_j | past] <= 1 and M minus the hours passed is a
supermartingale: the mean time to a false alarm is at least A hours of event time, without independence and without a
table. (Where the cap of 0.98 / f binds, the claim is about the clipped weights.) For unweighted rows L_j is exactly the
likelihood ratio, so nothing is lost against the parametric mixture.

Sources: Shiryaev-Roberts mixtures (Pollak; Tartakovsky, Polunchenko); E-detectors (Shin, Ramdas, Rinaldo).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import mul
from typing import Any, Final

from tracejudge.alerts.detecting.bets import FIRST_PRIOR, ODDS, PRIOR, Bets
from tracejudge.alerts.detecting.hour_effect import HourSoFar
from tracejudge.alerts.detecting.sums import Place, Sums

_CEILING: Final = 1e12  # hours; a series that may not fire yet piles up evidence, and infinity is no JSON


class DropDetector:
    """Evidence that the rate is below the boundary of each row's bets.

    Beside the evidence each component keeps a CUSUM of its log factors: the place where it last left zero is the
    maximum-likelihood estimate of when the drop began. `bets` are those of the last row; they say which components are
    armed.
    """

    __slots__ = ("_cache", "bets", "cusum", "hours", "starts")

    def __init__(self, bets: Bets) -> None:
        self.bets = bets
        self.hours = [0.0] * len(ODDS)  # R_j
        self.cusum = [0.0] * len(ODDS)
        self.starts: list[Place | None] = [None] * len(ODDS)
        self._cache: _Factors | None = None

    def pass_time(self, hours: float) -> None:
        """Event time went on by `hours` without a verdict (a judge's failure): no factor."""
        if hours:
            self.hours = [min(r + hours, _CEILING) for r in self.hours]

    def observe(
        self,
        *,
        passed: bool,
        weight: float,
        deff: float,
        hours: float,
        place: Place,
        bets: Bets | None = None,
        hour: HourSoFar | None = None,
    ) -> None:
        """Folds one verdict: scaled weight, design effect, advance of the watermark and bets as they were before it.

        `place` is the place just before this row. Without `bets` those of the last row stand. `hour` is what the hour's
        rows before this one told, where it is known.
        """
        if bets is not None:
            self.bets = bets
        if hour is not None and self.bets.spread:
            factors = self.bets.factors(passed=passed, weight=weight, deff=deff, hour=hour)
            self._multiply(factors, tuple(map(math.log, factors)), hours=hours, place=place)
            return
        cache = self._cache
        if cache is None or cache.bets is not self.bets or cache.weight != weight or cache.deff != deff:
            # Unweighted streams, and those of one sampling rate, come here once an hour at most.
            cache = self._cache = _Factors.of(self.bets, weight=weight, deff=deff)
        self._multiply(cache.factors[passed], cache.logs[passed], hours=hours, place=place)

    def _multiply(self, factors: Sequence[float], logs: Sequence[float], *, hours: float, place: Place) -> None:
        self.hours = [
            r if (r := (before + hours) * factor) < _CEILING else _CEILING
            for before, factor in zip(self.hours, factors, strict=True)
        ]
        cusum, starts = self.cusum, self.starts
        for j, log in enumerate(logs):
            level = cusum[j]
            if level > 0.0:
                level += log
                cusum[j] = level if level > 0.0 else 0.0
            elif log > 0.0:
                starts[j] = place
                cusum[j] = log

    @property
    def evidence_hours(self) -> float:
        """M, in hours: compare it with the alarm level A."""
        return math.fsum(map(mul, self.bets.prior, self.hours))

    @property
    def leading(self) -> int:
        """The component with the largest share of the evidence."""
        prior = self.bets.prior
        return max(range(len(prior)), key=lambda j: prior[j] * self.hours[j])

    @property
    def start(self) -> Place | None:
        """The estimated beginning of the drop, by the leading component; None while its CUSUM is at zero."""
        j = self.leading
        return self.starts[j] if self.cusum[j] > 0.0 else None

    def scale(self, factor: float) -> None:
        """Takes the evidence, in hours, times a factor of at most 1; where the drop seems to begin stays."""
        self.hours = [r * factor for r in self.hours]

    def reset(self) -> None:
        """Forgets all evidence."""
        self.hours = [0.0] * len(ODDS)
        self.cusum = [0.0] * len(ODDS)
        self.starts = [None] * len(ODDS)

    def to_state(self) -> dict[str, Any]:
        """JSON values; `from_state` continues exactly."""
        begun = [place if level > 0.0 else None for place, level in zip(self.starts, self.cusum, strict=True)]
        return {
            "boundary": self.bets.boundary,
            "prior": self.bets.prior,
            "phi": self.bets.phi,
            "spread": self.bets.spread,
            "weights": PRIOR,
            "hours": tuple(self.hours),
            "cusum": tuple(self.cusum),
            "starts": [None if place is None else place_to_state(place) for place in begun],
            "starts_judged": [None if place is None else judged_to_state(place) for place in begun],
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> DropDetector:
        """Continues from a state; one that was written under other weights W' goes on with R_j W'_j / W_j.

        So every share W_j R_j of the evidence is what it was, and from here on time adds sum W_j = 1: M minus the
        hours passed stays a supermartingale. Without it a component of more weight now would be evidence by itself.
        """
        weights = tuple(state.get("weights", FIRST_PRIOR))
        armed = state.get("prior", PRIOR)  # older snapshots know fixed boundaries only
        prior = tuple(w if was else 0.0 for w, was in zip(PRIOR, armed, strict=True))
        bets = Bets(state["boundary"], prior=prior, phi=state.get("phi", 1.0), spread=state.get("spread", 0.0))
        detector = cls(bets)
        detector.hours = [
            float(r) if was == now else float(r) * was / now
            for r, was, now in zip(state["hours"], weights, PRIOR, strict=True)
        ]
        detector.cusum = [float(c) for c in state["cusum"]]
        judged = state.get("starts_judged") or [None] * len(ODDS)  # older snapshots do not say
        detector.starts = [
            None if place is None else place_from_state(place, judged=at)
            for place, at in zip(state["starts"], judged, strict=True)
        ]
        return detector


@dataclass(frozen=True, slots=True)
class _Factors:
    """The factors of a failed and of a passed row, and their logarithms."""

    bets: Bets
    weight: float
    deff: float
    factors: tuple[tuple[float, ...], tuple[float, ...]]
    logs: tuple[tuple[float, ...], tuple[float, ...]]

    @classmethod
    def of(cls, bets: Bets, *, weight: float, deff: float) -> _Factors:
        failed, passed = (bets.factors(passed=x, weight=weight, deff=deff) for x in (False, True))
        return cls(bets, weight, deff, (failed, passed), (tuple(map(math.log, failed)), tuple(map(math.log, passed))))


def place_to_state(place: Place) -> tuple[Any, ...]:
    """A place as JSON values, as older releases read it too: when it was judged stands beside it."""
    return (place.at.isoformat(), *place.before)


def judged_to_state(place: Place) -> str | None:
    """When the row of a place was judged, as a JSON value."""
    return None if place.judged_at is None else place.judged_at.isoformat()


def place_from_state(state: Sequence[Any], *, judged: str | None = None) -> Place:
    """The place that `place_to_state` and `judged_to_state` wrote."""
    at, *sums = state
    return Place(
        datetime.fromisoformat(at),
        Sums.from_state(sums),
        None if judged is None else datetime.fromisoformat(judged),
    )
