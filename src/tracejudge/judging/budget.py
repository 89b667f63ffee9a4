"""Hard caps of one judge, counted before each call.

`max_calls_per_h` counts in whole hours and `max_usd_per_day` in whole days, both UTC. What was spent before this
process came is read from the store once for each hour and day. Processes that judge side by side each count their own
calls from there on, so together they can pass a cap by what the others spend within the same window.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime

from tracejudge.clock import Clock
from tracejudge.judging.failures import OverBudget, SpendUnknown
from tracejudge.judging.loops import PerLoop
from tracejudge.judging.spec import JudgeSpec
from tracejudge.judging.tasks import RunCaps, SpendSource
from tracejudge.scores import Spend


@dataclass
class _Window:
    start: datetime
    before: Spend  # what the store says was spent since `start`
    calls: int = 0
    usd: float = 0.0


class RunBudget:
    """What all judges of one run together may still spend."""

    def __init__(self, caps: RunCaps) -> None:
        self._caps = caps
        self._calls = 0
        self._usd = 0.0

    def admit(self, usd: float) -> None:
        """Counts one call of at most `usd`, or raises OverBudget."""
        most_calls, most_usd = self._caps.max_calls, self._caps.max_usd
        if most_calls is not None and self._calls + 1 > most_calls:
            raise OverBudget("max_calls", f"all {most_calls} calls of this run are made")
        if most_usd is not None and self._usd + usd > most_usd:
            raise OverBudget("max_usd", f"{self._usd:.4f} of {most_usd:g} USD of this run are spent")
        self._calls += 1
        self._usd += usd

    def settle(self, change_usd: float) -> None:
        """Corrects the money counted by `change_usd`."""
        self._usd = max(0.0, self._usd + change_usd)


class Budget:
    """What one judge may still spend, and the run with it."""

    def __init__(self, spec: JudgeSpec, *, source: SpendSource, clock: Clock, run: RunBudget) -> None:
        self._name = spec.name
        self._run = run
        self._max_calls_per_h = spec.max_calls_per_h
        self._max_usd_per_day = spec.max_usd_per_day
        self._source = source
        self._clock = clock
        self._hour: _Window | None = None
        self._day: _Window | None = None
        self._seeding = PerLoop(asyncio.Lock)

    @property
    def capped(self) -> bool:
        return self._max_calls_per_h is not None or self._max_usd_per_day is not None

    async def seed(self) -> None:
        """Reads what was spent in the present hour and day, unless it is known. Raises what the source raises."""
        if not self.capped or self._known():
            return
        async with self._seeding.get():
            now = self._clock.now()
            hour, day = _starts(now)
            if self._max_calls_per_h is not None and (self._hour is None or self._hour.start != hour):
                self._hour = _Window(hour, await asyncio.to_thread(self._source.spent, self._name, hour))
            if self._max_usd_per_day is not None and (self._day is None or self._day.start != day):
                self._day = _Window(day, await asyncio.to_thread(self._source.spent, self._name, day))

    async def admit(self, usd: float) -> None:
        """Counts one call of at most `usd`. Raises OverBudget when a cap is reached, before anything is spent, and
        SpendUnknown when the store cannot say what was spent in an hour or day that has just begun."""
        if self.capped and not self._known():
            try:
                await self.seed()
            except Exception as error:
                raise SpendUnknown(f"judge {self._name!r}: cannot read what was spent: {error}") from error
        hour, day = self._hour, self._day
        if hour is not None and self._max_calls_per_h is not None:
            made = hour.before.calls + hour.calls
            if made + 1 > self._max_calls_per_h:
                raise OverBudget("max_calls_per_h", f"{made} of {self._max_calls_per_h} calls made this hour")
        if day is not None and self._max_usd_per_day is not None:
            spent = day.before.usd + day.usd
            if spent + usd > self._max_usd_per_day:
                raise OverBudget(
                    "max_usd_per_day",
                    f"{spent:.4f} of {self._max_usd_per_day:g} USD spent today; this call may cost {usd:.4f}",
                )
        self._run.admit(usd)
        if hour is not None:
            hour.calls += 1
        if day is not None:
            day.usd += usd

    def settle(self, *, reserved_usd: float, usd: float) -> None:
        """Replaces what `admit` counted by what the call cost."""
        self._run.settle(usd - reserved_usd)
        if self._day is not None:
            self._day.usd = max(0.0, self._day.usd - reserved_usd + usd)

    def _known(self) -> bool:
        hour, day = _starts(self._clock.now())
        return (self._max_calls_per_h is None or (self._hour is not None and self._hour.start == hour)) and (
            self._max_usd_per_day is None or (self._day is not None and self._day.start == day)
        )


def _starts(now: datetime) -> tuple[datetime, datetime]:
    hour = now.replace(minute=0, second=0, microsecond=0)
    return hour, hour.replace(hour=0)
