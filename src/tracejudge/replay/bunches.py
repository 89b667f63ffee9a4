"""How many questions are put to a judge together: what it answers in a fiftieth of a second, and never many.

A question of its own costs an eighth of what a quick judge's whole answer does. Of a judge that takes its time each is
put alone, so that a slow one holds up nothing but itself and no verdict waits for another; of a quick one an answer
that hangs holds up 31 others at most.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tracejudge.clock import Clock

MOST: Final = 32
_SHARE_S: Final = 0.02
_WINDOW_S: Final = 0.25
_FIRST_S: Final = 0.05  # until then a quick judge is asked one by one


@dataclass(slots=True)
class _Pace:
    since: float
    answered: int = 0
    per_s: float = 0.0


class Bunches:
    """Sizes by judge, from how many answers each gave of late."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._paces: dict[str, _Pace] = {}

    def size(self, judge: str) -> int:
        """From 1, also for a judge of which nothing is known, to `MOST`."""
        pace = self._paces.get(judge)
        return 1 if pace is None else max(1, min(MOST, int(pace.per_s * _SHARE_S)))

    def asked(self, judge: str) -> None:
        """The time of a judge runs from its first question on."""
        if judge not in self._paces:
            self._paces[judge] = _Pace(since=self._clock.monotonic())

    def answered(self, judge: str, count: int) -> None:
        """So many more answers came."""
        pace = self._paces[judge]
        pace.answered += count
        took = self._clock.monotonic() - pace.since
        if took >= (_WINDOW_S if pace.per_s else _FIRST_S):
            self._paces[judge] = _Pace(since=pace.since + took, per_s=pace.answered / took)
