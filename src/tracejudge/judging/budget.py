"""Hard caps of one judge, counted before each call.

`max_calls_per_h` counts in whole hours and `max_usd_per_day` in whole days, both UTC. What was spent before this
process came is read from the store once for each hour and day. Processes that judge side by side each count their own
calls from there on, so together they can pass a cap by what the others spend within the same window.

Money is set aside for a call in flight and replaced by what it cost. A call that would fit if those in flight turned
out free waits for them: over budget is only what does not fit beside money really spent.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from tracejudge.clock import Clock
from tracejudge.errors import ServiceUnavailable
from tracejudge.judging.failures import OverBudget, SpendUnknown
from tracejudge.judging.loops import PerLoop, Turnstile
from tracejudge.judging.spec import JudgeSpec
from tracejudge.judging.tasks import RunCaps, SpendSource
from tracejudge.scores import Spend

_LOG: Final = logging.getLogger(__name__)

FIRST_WAIT_S: Final = 1.0
LONGEST_WAIT_S: Final = 30.0


@dataclass
class _Purse:
    """Money under one cap."""

    spent_usd: float = 0.0
    held_usd: float = 0.0
    in_flight: int = 0

    def fits(self, usd: float, cap_usd: float) -> bool | None:
        """Whether a call of at most `usd` may be made; None while that hangs on calls in flight."""
        if self.spent_usd + usd > cap_usd:
            return False
        return True if not self.in_flight or self.spent_usd + self.held_usd + usd <= cap_usd else None

    def hold(self, usd: float) -> None:
        self.held_usd += usd
        self.in_flight += 1

    def settle(self, held_usd: float, usd: float) -> None:
        self.spent_usd += usd
        self.in_flight -= 1
        # Sums of floats leave crumbs, and nothing is held where nothing is in flight.
        self.held_usd = max(0.0, self.held_usd - held_usd) if self.in_flight else 0.0


@dataclass
class _Window:
    start: datetime
    before: Spend  # what the store says was spent since `start`
    calls: int = 0
    purse: _Purse = field(default_factory=_Purse)


@dataclass(frozen=True, slots=True)
class Hold:
    """Money set aside for one call that was admitted, to be settled once."""

    usd: float
    purses: tuple[_Purse, ...]
    hour: _Window | None = None


class RunBudget:
    """What all judges of one run together may still spend."""

    def __init__(self, caps: RunCaps) -> None:
        self._caps = caps
        self._calls = 0
        self.purse: Final = _Purse()
        self.settled: Final = Turnstile()
        """Opens whenever a call of any judge is settled."""

    def fits(self, usd: float) -> bool:
        """False while it hangs on calls in flight whether one of at most `usd` may be made. Raises OverBudget."""
        most_calls, most_usd = self._caps.max_calls, self._caps.max_usd
        if most_calls is not None and self._calls + 1 > most_calls:
            raise OverBudget("max_calls", f"all {most_calls} calls of this run are made")
        fits = True if most_usd is None else self.purse.fits(usd, most_usd)
        if fits is False:
            raise OverBudget(
                "max_usd",
                f"{self.purse.spent_usd:.4f} of {most_usd:g} USD of this run are spent; this call may cost {usd:.4f}",
            )
        return fits is True

    def count(self) -> None:
        """One call more."""
        self._calls += 1

    def uncount(self) -> None:
        """One of them was none after all."""
        self._calls -= 1


class Budget:
    """What one judge may still spend, and the run with it. `sleep` is handed in by tests."""

    def __init__(
        self,
        spec: JudgeSpec,
        *,
        source: SpendSource,
        clock: Clock,
        run: RunBudget,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._name = spec.name
        self._run = run
        self._max_calls_per_h = spec.max_calls_per_h
        self._max_usd_per_day = spec.max_usd_per_day
        self._source = source
        self._clock = clock
        self._sleep = sleep
        self._hour: _Window | None = None
        self._day: _Window | None = None
        self._seeding = PerLoop(asyncio.Lock)

    @property
    def capped(self) -> bool:
        return self._max_calls_per_h is not None or self._max_usd_per_day is not None

    @property
    def known(self) -> bool:
        """True when what was spent in the present hour and day is known, as far as a cap asks for it."""
        hour, day = _starts(self._clock.now())
        return (self._max_calls_per_h is None or (self._hour is not None and self._hour.start == hour)) and (
            self._max_usd_per_day is None or (self._day is not None and self._day.start == day)
        )

    async def seed(self) -> None:
        """Reads what was spent in the present hour and day, unless it is known. Raises what the source raises."""
        if self.known:
            return
        async with self._seeding.get():
            now = self._clock.now()
            hour, day = _starts(now)
            if self._max_calls_per_h is not None and (self._hour is None or self._hour.start != hour):
                self._hour = _Window(hour, await asyncio.to_thread(self._source.spent, self._name, hour))
            if self._max_usd_per_day is not None and (self._day is None or self._day.start != day):
                self._day = _Window(day, await asyncio.to_thread(self._source.spent, self._name, day))

    async def ready(self) -> None:
        """Seeds, and waits while the store is away, for ever if need be: a trace in hand is not given up because an
        hour turned. Raises SpendUnknown where the store refuses to say what was spent, which no waiting mends."""
        wait_s = FIRST_WAIT_S
        while not self.known:
            try:
                await self.seed()
            except ServiceUnavailable as error:
                if wait_s == FIRST_WAIT_S:
                    _LOG.warning("judge %r waits: what it spent cannot be read: %r", self._name, str(error))
                await self._sleep(wait_s)
                wait_s = min(2.0 * wait_s, LONGEST_WAIT_S)
            except Exception as error:  # the source is anybody's class, and without an answer nothing may be spent
                raise SpendUnknown(f"judge {self._name!r}: cannot read what was spent: {error}") from error

    async def admit(self, usd: float) -> Hold:
        """Counts one call of at most `usd` and sets the money aside; waits where that hangs on calls in flight, or on a
        store that is away. Raises OverBudget when a cap is reached, before anything is spent, and SpendUnknown."""
        while True:
            await self.ready()
            # No await from here to the hold: calls are admitted one at a time.
            if self._fits(usd):
                break
            await self._run.settled.wait()
        purses = [self._run.purse]
        self._run.count()
        if self._hour is not None:
            self._hour.calls += 1
        if self._day is not None:
            purses.append(self._day.purse)
        for purse in purses:
            purse.hold(usd)
        return Hold(usd, tuple(purses), self._hour)

    def settle(self, hold: Hold, *, usd: float, made: bool = True) -> None:
        """Replaces what `admit` set aside by what the call cost, in the day it was admitted in. `made` False: there was
        no call after all (it never reached the endpoint)."""
        for purse in hold.purses:
            purse.settle(hold.usd, usd)
        if not made:
            self._run.uncount()
            if hold.hour is not None:
                hold.hour.calls -= 1
        self._run.settled.open()

    def _fits(self, usd: float) -> bool:
        hour, day = self._hour, self._day
        if hour is not None and self._max_calls_per_h is not None:
            made = hour.before.calls + hour.calls
            if made + 1 > self._max_calls_per_h:
                raise OverBudget("max_calls_per_h", f"{made} of {self._max_calls_per_h} calls made this hour")
        fits: bool | None = True
        if day is not None and self._max_usd_per_day is not None:
            fits = day.purse.fits(usd, self._max_usd_per_day - day.before.usd)
            if fits is False:
                raise OverBudget(
                    "max_usd_per_day",
                    f"{day.before.usd + day.purse.spent_usd:.4f} of {self._max_usd_per_day:g} USD spent today; "
                    f"this call may cost {usd:.4f}",
                )
        return self._run.fits(usd) and fits is True


def _starts(now: datetime) -> tuple[datetime, datetime]:
    hour = now.replace(minute=0, second=0, microsecond=0)
    return hour, hour.replace(hour=0)
