"""What a series' rate has been, learned from its own rows, hour by hour, behind a lag. How far it is known: `fit.py`.

All that a row is judged by is fixed before the row is seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from tracejudge.alerts.detecting.bets import Bets
from tracejudge.alerts.detecting.fit import DAY, Sums, fit
from tracejudge.alerts.detecting.hour_effect import HourSoFar

LAG_H: Final = 48
"""An hour is learned once it is so old: a drop is found long before it can pass into the baseline."""

MEMORY_H: Final = 28 * 24.0
"""Hours learned after which older ones fade: a rate of last year is no measure for today."""


class Baseline:
    """The learned rate of one series. `drop` lowers the boundary.

    With `reference_h` it learns so many hours of event time from its first row on, and then nothing more (`frozen`).

    State: 4 sums, 24 x 6 sums, and at most 49 hours that wait.
    """

    __slots__ = (
        "_bets",
        "_boundaries",
        "_day",
        "_moved_to",
        "_prior",
        "_sums",
        "_waiting",
        "drop",
        "frozen",
        "hours",
        "m",
        "phi",
        "reference_h",
        "se",
        "since_hour",
        "spread",
    )

    def __init__(self, *, drop: float = 0.0, reference_h: float | None = None) -> None:
        self.drop = drop
        self.reference_h = reference_h
        self.frozen = False
        self.hours = 0.0  # learned
        self.since_hour: int | None = None  # the first hour seen
        self._sums = Sums()
        self._day = [[0.0] * 6 for _ in range(DAY)]  # w, wx, w^2, and of chi^2: S^2/Q, S W/Q, W^2/Q
        self._waiting: dict[int, list[float]] = {}  # w, w x, w^2 and w^2 x of each hour
        self._moved_to = -1
        self._derive()

    def bets(self, at: datetime) -> Bets | None:
        """What to bet on for a row of this event time; None while no drop could be told from chance."""
        return self.bets_of_hour(hour_of(at))

    def bets_of_hour(self, hour_of_day: int) -> Bets | None:
        """The bets for an hour of the day, UTC, or for an hour counted since 1970."""
        if not self._prior:
            return None
        place = hour_of_day % len(self._boundaries)  # 24, or 1 where no season is known
        bets = self._bets.get(place)
        if bets is None:  # made when asked for: between two hours learned, a series meets one or two hours of the day
            bets = self._bets[place] = Bets(
                self._boundaries[place], prior=self._prior, phi=self.phi, spread=self.spread
            )
        return bets

    @property
    def known(self) -> bool:
        """Whether anything has been learned yet."""
        return self._sums.w > 0.0

    @property
    def smallest_drop(self) -> float | None:
        """The smallest drop below the boundary that is looked for, as a share; None while none is."""
        bets = self.bets_of_hour(0)
        if bets is None:
            return None
        return min(drop for drop, prior in zip(bets.drops, bets.prior, strict=True) if prior)

    def hour_so_far(self, at: datetime) -> HourSoFar | None:
        """The sums of the rows seen so far in the hour of `at`; None once the baseline is frozen."""
        if self.frozen:
            return None
        held = self._waiting.get(hour_of(at))
        return HourSoFar() if held is None else HourSoFar(*held[:3])

    def see(self, hour: int, *, passed: bool, weight: float) -> None:
        """Remembers a row of an hour counted since 1970 (`hour_of`); it is learned once that hour is old enough."""
        square = weight * weight
        if passed:
            self.see_sums(hour, weight, weight, square, square)
        else:
            self.see_sums(hour, weight, 0.0, square, 0.0)

    def see_sums(self, hour: int, w: float, wx: float, w2: float, w2x: float) -> None:
        """Remembers many rows of an hour (counted since 1970) by their sums of w, w x, w^2 and w^2 x."""
        if self.frozen:
            return
        if self.since_hour is None or hour < self.since_hour:
            self.since_hour = hour
        held = self._waiting.get(hour)
        if held is None:
            self._waiting[hour] = [w, wx, w2, w2x]
            return
        held[0] += w
        held[1] += wx
        held[2] += w2
        held[3] += w2x

    def seed(self, *, rows: float, rate: float, weight: float = 1.0) -> None:
        """Takes a rate as known from so many rows of one weight, of no particular hour."""
        w, w2 = rows * weight, rows * weight * weight
        seen = Sums(w, w * rate, w2, w2 * rate)
        self._sums = Sums(*(a + b for a, b in zip(self._sums, seen, strict=True)))
        self._derive()

    def move_to(self, now: int) -> None:
        """Learns the hours that are old enough, now that the watermark is in hour `now`, counted since 1970.

        Half of its own age is old enough for a young series, which would otherwise know nothing for two days.
        """
        if now == self._moved_to or self.frozen or self.since_hour is None:
            return
        self._moved_to = now
        if self.reference_h is not None and now - self.since_hour >= self.reference_h:
            self.learn_all()
            self.frozen = True
            return
        lag = min(LAG_H, (now - self.since_hour) // 2)
        old = sorted(hour for hour in self._waiting if hour <= now - max(lag, 1))
        for hour in old:
            self._learn(hour, self._waiting.pop(hour))
        if old:
            self._derive()

    def learn_all(self) -> None:
        """Learns every hour that waits: all of it was good."""
        for hour in sorted(self._waiting):
            self._learn(hour, self._waiting.pop(hour))
        self._derive()

    def split_since(self, at: datetime) -> Baseline:
        """Takes out the waiting hours from that instant on, which belong to a fall, as a baseline of their own."""
        rest = Baseline(drop=self.drop, reference_h=self.reference_h)
        for hour in [hour for hour in self._waiting if hour >= hour_of(at)]:
            rest._waiting[hour] = self._waiting.pop(hour)
        rest.since_hour = min(rest._waiting, default=None)
        return rest

    def absorb(self, other: Baseline) -> None:
        """Learns all that the other has seen and not yet learned: it was good after all."""
        for hour, cell in other._waiting.items():
            held = self._waiting.get(hour, [0.0] * 4)
            self._waiting[hour] = [a + b for a, b in zip(held, cell, strict=True)]
        self.learn_all()

    def _learn(self, hour: int, sums: list[float]) -> None:
        cell = Sums(*sums)
        if self.hours >= MEMORY_H:
            fade = 1.0 - 1.0 / MEMORY_H
            self.hours *= fade
            self._sums = Sums(*(fade * value for value in self._sums))
            self._day = [[fade * value for value in row] for row in self._day]
        self.hours += 1.0
        self._sums = Sums(*(a + b for a, b in zip(self._sums, cell, strict=True)))
        row = self._day[hour % DAY]
        new = (cell.w, cell.wx, cell.w2, cell.wx**2 / cell.w2, cell.wx * cell.w / cell.w2, cell.w**2 / cell.w2)
        self._day[hour % DAY] = [a + b for a, b in zip(row, new, strict=True)]

    def _derive(self) -> None:
        """What follows from the sums: the rate, how far it is known, the boundaries; and no bets yet."""
        found = fit(self._sums, self._day, hours=self.hours, drop=self.drop)
        self.m, self.se, self.phi, self.spread, self._boundaries, self._prior = found
        self._bets: dict[int, Bets] = {}

    def to_state(self) -> dict[str, Any]:
        """JSON values; `from_state` continues exactly.

        Tuples, where they hold numbers alone: the garbage collector does not go through those again and again, and a
        thousand series have a hundred thousand of them.
        """
        return {
            "drop": self.drop,
            "reference_h": self.reference_h,
            "moved_to": self._moved_to,
            "frozen": self.frozen,
            "hours": self.hours,
            "since_hour": self.since_hour,
            "sums": tuple(self._sums),
            "day": [tuple(row) for row in self._day],
            "waiting": [(hour, *cell) for hour, cell in self._waiting.items()],
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Baseline:
        baseline = cls(drop=state["drop"], reference_h=state["reference_h"])
        baseline._moved_to = state["moved_to"]
        baseline.frozen, baseline.hours = state["frozen"], state["hours"]
        baseline.since_hour = state["since_hour"]
        baseline._sums = Sums(*state["sums"])
        baseline._day = [list(row) for row in state["day"]]
        baseline._waiting = {int(hour): [float(one) for one in cell] for hour, *cell in state["waiting"]}
        baseline._derive()
        return baseline


def hour_of(at: datetime) -> int:
    """The hour of an instant, counted since 1970."""
    return int(at.timestamp()) // 3600
