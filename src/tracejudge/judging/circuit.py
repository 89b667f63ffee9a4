"""Whether a judge can answer anybody at all: a bad key costs a handful of calls, not one for each trace.

A circuit begins unproven: at most `UNPROVEN_CALLS` calls are in flight until one is answered. An answer that says that
the judge is gone (bad key, unknown model, no quota) opens it: nothing is called. After a pause, which doubles each time
up to a quarter of an hour, a single call may try again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from tracejudge.clock import Clock
from tracejudge.errors import JudgeGone
from tracejudge.judging.loops import PerLoop

UNPROVEN_CALLS: Final = 5
FIRST_PAUSE_S: Final = 60.0
LONGEST_PAUSE_S: Final = 900.0


class Circuit:
    """The state of one judge."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._proven = False
        self._gone: JudgeGone | None = None
        self._pause_s = FIRST_PAUSE_S
        self._retry_at = 0.0
        self._probing = False
        self._unproven = PerLoop(lambda: asyncio.Semaphore(UNPROVEN_CALLS))

    @property
    def gone(self) -> JudgeGone | None:
        """Why the judge answers nobody, or None."""
        return self._gone

    @asynccontextmanager
    async def passage(self) -> AsyncIterator[JudgeGone | None]:
        """Gives None when the one call inside it may be made, else why not; waits while too many are unproven."""
        if self._gone is not None:
            if self._probing or self._clock.monotonic() < self._retry_at:
                yield self._gone
                return
            self._probing = True
            try:
                yield None
            finally:
                self._probing = False
            return
        if not self._proven:
            async with self._unproven.get():
                # While waiting another call may have proved the judge, or have found it gone.
                if self._gone is not None or not self._proven:
                    yield self._gone
                    return
        yield None

    def answered(self) -> None:
        """The judge answered somebody: it is there."""
        self._proven = True
        self._gone = None
        self._pause_s = FIRST_PAUSE_S

    def found_gone(self, gone: JudgeGone) -> None:
        """The judge said that it answers nobody. Calls that were in flight together count as one finding."""
        now = self._clock.monotonic()
        if self._gone is not None:
            if now < self._retry_at:
                return
            self._pause_s = min(2.0 * self._pause_s, LONGEST_PAUSE_S)
        self._gone = gone
        self._proven = False
        self._retry_at = now + self._pause_s
