"""A memo of the way from a row's values to the series it is folded into, so that most rows are not looked up anew."""

from __future__ import annotations

from typing import Final

from tracejudge.alerts.series.state import Series
from tracejudge.alerts.series.watched import Watched

_MOST: Final = 20_000  # values come from producers, and are without number

Marks = tuple[object, ...]
"""What decides the series of a row: the rule's name, the row's place and judge, and its values of the rule's fields."""


class Way:
    """The series that rows of some values come to, and the level it fires at while nobody's share changes."""

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


class Ways(dict[Marks, Way]):
    """Empty it when a series may have been taken away, or when what has changed is counted anew: who finds a way here
    is not told that its series has changed."""

    def lead(self, marks: Marks, series: Series) -> Way:
        """Remembers the way."""
        if len(self) >= _MOST:
            self.clear()
        way = self[marks] = Way(series)
        return way
