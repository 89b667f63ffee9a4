"""A cache from the values of a row to the series that it is folded into, so that most rows need no look-up of a key."""

from __future__ import annotations

from typing import Final

from tracejudge.alerts.series.state import Series
from tracejudge.alerts.series.watched import Watched

_MOST: Final = 20_000  # the values come from producers, so their number is not bounded

RouteKey = tuple[object, ...]
"""What decides the series of a row: the rule's name, environment, app, judge name, JudgeId, and the values of the
rule's group_by fields."""


class Route:
    """A series, with its alarm level, which is computed again only after a share of the promise has changed."""

    __slots__ = ("_alarm_hours", "_shares", "series")

    def __init__(self, series: Series) -> None:
        self.series = series
        self._shares = -1
        self._alarm_hours = 0.0

    def alarm_hours(self, watched: Watched) -> float:
        """The evidence, in hours, at which the series fires."""
        if self._shares != watched.shares:
            self._shares, self._alarm_hours = watched.shares, watched.alarm_hours(self.series)
        return self._alarm_hours


class Routes(dict[RouteKey, Route]):
    """Clear it when a series may have been removed, and when the record of changed series is cleared: a series found
    here is not recorded as changed again."""

    def add(self, key: RouteKey, series: Series) -> Route:
        """Remembers the series of a key; forgets all others first where there are too many."""
        if len(self) >= _MOST:
            self.clear()
        route = self[key] = Route(series)
        return route
