"""A circuit breaker for a judge: a bad key or a dead endpoint costs a handful of calls instead of one per trace.

A circuit begins unproven: at most `UNPROVEN_CALLS` calls are in flight until one is answered. It opens in two ways:

- **gone**: the endpoint says that it answers nobody (bad key, unknown model, no quota). That takes somebody to mend it.
- **down**: nobody answers there. `UNREACHED` refused connections in a row, or `FAILING_ROWS` different traces in a row
  whose calls failed (5xx, timeouts, broken connections), without one answer in between. That passes.
- **down by a storm of 429s**: `FAILING_ROWS` different traces were refused over `STORM_S` or longer, nobody was
  answered, and no call from before the first refusal is still being served. An endpoint that takes fewer calls than it
  is sent answers some all the while; one whose minute, or day, is used up answers none. Where it asks for a wait longer
  than any trace would make, that time need not pass first.

While it is open nothing is called. After a pause, which doubles each time, a single call tries; whoever comes meanwhile
waits for what it finds. Where something was answered before, that is asked again: traces that no judge can answer are
so told from an outage. An opening whose first such call is answered was a false alarm, and what failed around it failed
by itself.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal

from tracejudge.clock import Clock
from tracejudge.errors import JudgeDown, JudgeGone
from tracejudge.judging.calls.loops import PerLoop, Turnstile

UNPROVEN_CALLS: Final = 5
UNREACHED: Final = 3
FAILING_ROWS: Final = 5
STORM_S: Final = 0.7
"""Less than three attempts with their back-off take: so no trace is given up before the storm is seen."""

THROTTLED: Final = "rate_limited"
"""The kind of a JudgeDown that a storm of 429s makes."""

FIRST_PAUSE_S: Final = 60.0
LONGEST_PAUSE_S: Final = 900.0
FIRST_PAUSE_DOWN_S: Final = 1.0
LONGEST_PAUSE_DOWN_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Availability:
    """Whether a judge can be asked now.

    `retry_in_s` is how long until a call is tried again: 0 when one may be tried now, None while it is "ok".
    """

    state: Literal["ok", "down", "gone"]
    kind: str = ""  # short and stable: "unreachable", "server_error", "timeout", "bad_key", ...
    detail: str = ""
    retry_in_s: float | None = None

    @property
    def worth_asking(self) -> bool:
        """True when a call would be tried rather than turned away."""
        return self.retry_in_s is None or self.retry_in_s <= 0.0


AVAILABLE: Final = Availability(state="ok")


class Passage(Enum):
    """The permission for one call, to be handed back to `leave`."""

    PROVEN = "proven"
    UNPROVEN = "unproven"
    PROBE = "probe"


class Circuit:
    """The state of one judge."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._proven = False
        self._gone: JudgeGone | None = None
        self._pause_s = 0.0
        self._retry_at = 0.0
        self._probing = False
        self._probed = Turnstile()
        self._unreached = 0
        self._failing: list[object] = []
        self._confirmed = False
        self._false_alarms: deque[int] = deque(maxlen=64)
        self._calls: dict[int, None] = {}  # numbers of those that are open, in the order of sending
        self._sent = 0
        self._refused: list[object] = []
        self._storm_at = 0.0
        self._storm_from = 0
        self.opening = 0
        """How often it was found down so far: the number of the present or last time."""
        self._unproven = PerLoop(lambda: asyncio.Semaphore(UNPROVEN_CALLS))

    @property
    def gone(self) -> JudgeGone | None:
        """Why the judge cannot be asked (a JudgeDown where that passes by itself); None where it can."""
        return self._gone

    def was_false_alarm(self, opening: int) -> bool:
        """True when the first call after that opening was answered: the endpoint had been there all the time."""
        return opening in self._false_alarms

    @property
    def availability(self) -> Availability:
        if (gone := self._gone) is None:
            return AVAILABLE
        return Availability(
            state="down" if isinstance(gone, JudgeDown) else "gone",
            kind=gone.kind,
            detail=str(gone),
            retry_in_s=max(0.0, self._retry_at - self._clock.monotonic()),
        )

    async def enter(self) -> Passage | JudgeGone:
        """How the one call now to be made gets through (hand it to `leave`), or why it may not be made; waits while too
        many are unproven, or while a probe is on its way."""
        if self._proven and self._gone is None:
            return Passage.PROVEN
        while True:
            while self._gone is not None:
                if self._probing:
                    await self._probed.wait()
                elif self._clock.monotonic() < self._retry_at:
                    return self._gone
                else:
                    self._probing = True
                    return Passage.PROBE
            if self._proven:
                return Passage.PROVEN
            turns = self._unproven.get()
            await turns.acquire()
            # While waiting another call may have proved the judge, or have found it gone.
            if not self._proven and self._gone is None:
                return Passage.UNPROVEN
            turns.release()

    def leave(self, passage: Passage) -> None:
        """The call is over, whatever became of it."""
        if passage is Passage.UNPROVEN:
            self._unproven.get().release()
        elif passage is Passage.PROBE:
            self._probing = False
            self._probed.open()

    def sent(self) -> int:
        """A call goes out; its number, for `ended`."""
        self._sent += 1
        self._calls[self._sent] = None
        return self._sent

    def ended(self, number: int) -> None:
        """The call of that number is over, whatever came of it."""
        self._calls.pop(number, None)

    def answered(self) -> None:
        """Notes that the judge has answered a call."""
        if isinstance(self._gone, JudgeDown) and not self._confirmed:
            self._false_alarms.append(self.opening)
        self._proven = True
        self._gone = None
        self._pause_s = 0.0
        self._alive()
        self._refused.clear()

    def refused(self, row: object, found: JudgeDown, *, for_long: bool = False) -> None:
        """The endpoint took no call for `row` (429): it is there, and busy, unless it takes no call of anybody.
        `for_long`: it asks for a wait that no trace would make."""
        if isinstance(self._gone, JudgeDown):
            if self._gone.kind != THROTTLED:
                self.answered()
            elif self._probing:
                self._open_down(found)
            return
        self._alive()
        now = self._clock.monotonic()
        if not self._refused:
            self._storm_at, self._storm_from = now, self._sent
        if len(self._refused) < FAILING_ROWS and not any(row is other for other in self._refused):
            self._refused.append(row)
        if len(self._refused) < FAILING_ROWS or not (for_long or now - self._storm_at >= STORM_S):
            return
        # The oldest call that is open: one from before the storm may still be answered.
        if for_long or next(iter(self._calls), self._sent + 1) > self._storm_from:
            self._open_down(found)

    def failed(self, row: object, found: JudgeDown, *, reached: bool) -> None:
        """A call for `row` failed in a way that passes. `reached`: there was a connection at least."""
        self._unreached = 0 if reached else self._unreached + 1
        if not any(row is other for other in self._failing):
            self._failing.append(row)
        if self._gone is not None or self._unreached >= UNREACHED or len(self._failing) >= FAILING_ROWS:
            self._open_down(found)

    def found_gone(self, gone: JudgeGone) -> None:
        """Notes that an answer of the judge says it is gone. Calls that were in flight together count as one
        finding."""
        self._open(gone, first_s=FIRST_PAUSE_S, longest_s=LONGEST_PAUSE_S)

    def _open_down(self, found: JudgeDown) -> None:
        self._open(found, first_s=FIRST_PAUSE_DOWN_S, longest_s=LONGEST_PAUSE_DOWN_S)

    def _open(self, gone: JudgeGone, *, first_s: float, longest_s: float) -> None:
        now = self._clock.monotonic()
        if self._gone is not None and now < self._retry_at:
            return
        self._confirmed = self._gone is not None
        self.opening += not self._confirmed
        self._pause_s = min(max(2.0 * self._pause_s, first_s), longest_s)
        self._gone = gone
        self._proven = False
        self._retry_at = now + self._pause_s
        self._alive()
        self._refused.clear()

    def _alive(self) -> None:
        self._unreached = 0
        self._failing.clear()
