"""An event loop whose time jumps to the next timer: hours of waiting pass at once, and the same in every run."""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Coroutine
from datetime import datetime, timedelta, timezone
from typing import Any, TypeVar

T = TypeVar("T")


class VirtualClock:
    """The loop's time as a Clock, from 2026-01-01 12:00 UTC on."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def now(self) -> datetime:
        return datetime(2026, 1, 1, 12, tzinfo=timezone.utc) + timedelta(seconds=self._loop.time())

    def monotonic(self) -> float:
        return self._loop.time()


class _Jumping(selectors.SelectSelector):
    """Does not wait: moves the loop's time on instead."""

    jumped_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout is None:
            raise RuntimeError("nothing will ever happen again: everybody waits, and no timer is set")
        if not ready and timeout:
            self.jumped_s += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """For code that waits by this loop's timers alone: no threads, no sockets."""

    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.jumped_s

    @property
    def clock(self) -> VirtualClock:
        return VirtualClock(self)


class LoneCoreLoop(VirtualLoop):
    """Waiting takes no time and computing takes what it takes: a machine of which nobody else wants anything."""

    def __init__(self) -> None:
        self._began = time.process_time()  # the loop asks for its time while it is made
        super().__init__()

    def time(self) -> float:
        return super().time() + time.process_time() - self._began


def run_virtually(main: Coroutine[Any, Any, T], loop: VirtualLoop | None = None) -> T:
    """The coroutine's value, in no time."""
    loop = loop or VirtualLoop()
    try:
        return loop.run_until_complete(main)
    finally:
        loop.close()
