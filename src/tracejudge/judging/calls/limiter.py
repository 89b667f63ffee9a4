"""How many calls may be in flight at one endpoint, at which rate, and whose turn it is; its judges share it.

Live traffic goes before anything else. What is judged in the background (a replay) gets at most half of the slots while
live traffic was seen a moment ago, and none while live traffic waits.

Slots are counted for the whole process: waiters may belong to several event loops.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Final

from tracejudge.clock import Clock, SystemClock
from tracejudge.judging.calls.adaptive import Concurrency
from tracejudge.judging.calls.pace import Pace
from tracejudge.judging.specs.spec import JudgeSpec

LIVE_MOMENT_S: Final = 10.0
"""Live traffic that paused for less than this still keeps half of the slots free for itself."""

LONGEST_CLOSURE_S: Final = 60.0

Waiters = deque["asyncio.Future[None]"]


class Limiter:
    """The slots of one endpoint: `concurrency` at most, fewer while it takes fewer."""

    def __init__(
        self,
        concurrency: int,
        *,
        requests_per_min: float | None = None,
        tokens_per_min: float | None = None,
        clock: Clock | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._concurrency = Concurrency(concurrency)
        self._requests = Pace(requests_per_min) if requests_per_min is not None else None
        self._tokens = Pace(tokens_per_min) if tokens_per_min is not None else None
        self._paces = [pace for pace in (self._requests, self._tokens) if pace is not None]
        self._clock = clock or SystemClock()
        self._sleep = sleep
        self._lock = threading.Lock()
        self._held = 0
        self._held_background = 0
        self._open_calls = 0
        self._live: Waiters = deque()
        self._background: Waiters = deque()
        self._live_seen = float("-inf")
        self._closed_until = float("-inf")
        self._closes = False  # it did, once: until then no call need look at the clock for it
        self._replays = False  # there was background work, once

    @property
    def limit(self) -> int:
        """Slots that the endpoint is believed to take now."""
        return self._concurrency.limit

    @property
    def in_flight(self) -> int:
        """Slots that are held."""
        return self._held

    async def acquire(self, *, background: bool = False) -> None:
        """Waits for a slot; live callers in the order of asking, background ones after them."""
        with self._lock:
            if background:
                self._replays = True
            elif self._replays:
                self._live_seen = self._clock.monotonic()
            if self._free(background=background) and not self._live and not (background and self._background):
                self._take(background=background)
                return
            future = asyncio.get_running_loop().create_future()
            (self._background if background else self._live).append(future)
        try:
            await future
        except BaseException:  # cancellation above all: a slot granted meanwhile must go back
            with self._lock:
                granted = future.done() and not future.cancelled()
                if not granted:
                    with contextlib.suppress(ValueError):
                        (self._background if background else self._live).remove(future)
            if granted:
                self.release(background=background)
            raise

    def release(self, *, background: bool = False) -> None:
        """Gives the slot back."""
        with self._lock:
            self._held -= 1
            self._held_background -= background
            if self._live or self._background:
                self._hand_out()

    async def begin(self, tokens: int) -> None:
        """Waits, with the slot in hand, until the endpoint's rates allow a call of about `tokens`; then it is open."""
        if self._paces or self._closes:
            await self._paced(tokens)
        with self._lock:
            self._open_calls += 1

    def answered(self, latency_s: float) -> None:
        """A call that was begun got its answer."""
        with self._lock:
            self._open_calls -= 1
            busy = self._held >= self._concurrency.limit
            self._concurrency.answered(latency_s, busy=busy)
            if self._live or self._background:
                self._hand_out()

    def refused(self, *, retry_after_s: float | None = None) -> None:
        """A call that was begun was refused for want of capacity, or timed out."""
        with self._lock:
            self._open_calls -= 1
            cut = self._concurrency.refused(in_flight=self._open_calls, asked_to_wait=retry_after_s is not None)
            if cut and retry_after_s is not None:
                until = self._clock.monotonic() + min(retry_after_s, LONGEST_CLOSURE_S)
                self._closed_until = max(self._closed_until, until)
                self._closes = True

    def ended(self) -> None:
        """A call that was begun ended in a way that says nothing about capacity."""
        with self._lock:
            self._open_calls -= 1

    def correct_tokens(self, more: int) -> None:
        """The call took `more` tokens than was said when it began."""
        if self._tokens is not None:
            with self._lock:
                self._tokens.correct(more)

    async def _paced(self, tokens: int) -> None:
        # Taken when it is time, not ahead of it: until then the calls before may turn out dearer than they said.
        while True:
            with self._lock:
                now = self._clock.monotonic()
                waits = [self._closed_until - now, *(pace.wait_s(now) for pace in self._paces)]
                wait_s = max(waits)
                if wait_s <= 0.0:
                    if self._requests is not None:
                        self._requests.take(1, now)
                    if self._tokens is not None:
                        self._tokens.take(tokens, now)
                    return
            await self._sleep(wait_s)

    def _free(self, *, background: bool) -> bool:
        limit = self._concurrency.limit
        if self._held >= limit:
            return False
        if not background:
            return True
        live = self._held > self._held_background or self._clock.monotonic() - self._live_seen <= LIVE_MOMENT_S
        return not live or self._held_background < max(1, limit // 2)

    def _take(self, *, background: bool) -> None:
        self._held += 1
        self._held_background += background

    def _hand_out(self) -> None:
        """Gives free slots to those who wait. The lock is held."""
        while True:
            background = not self._live
            waiters = self._background if background else self._live
            if not waiters or not self._free(background=background):
                return
            future = waiters.popleft()
            if future.done():
                continue
            self._take(background=background)
            try:
                self._grant(future, background=background)
            except RuntimeError:  # its loop was closed: nobody waits there any more
                self._held -= 1
                self._held_background -= background

    def _grant(self, future: asyncio.Future[None], *, background: bool) -> None:
        loop = future.get_loop()
        try:
            here = asyncio.get_running_loop() is loop
        except RuntimeError:
            here = False
        if here:
            future.set_result(None)
        else:
            loop.call_soon_threadsafe(partial(self._granted_elsewhere, future, background=background))

    def _granted_elsewhere(self, future: asyncio.Future[None], *, background: bool) -> None:
        if not future.done():
            future.set_result(None)
        else:  # cancelled on its way here: the slot goes to the next
            self.release(background=background)


def limiters(
    specs: Iterable[JudgeSpec],
    *,
    clock: Clock | None = None,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> dict[str, Limiter]:
    """A limiter for each endpoint: the lowest concurrency and rates that any judge of it asks for, since it is the
    endpoint's patience that is being described."""
    by_endpoint: dict[str, list[JudgeSpec]] = {}
    for spec in specs:
        by_endpoint.setdefault(spec.endpoint, []).append(spec)
    return {
        endpoint: Limiter(
            min(spec.concurrency for spec in of_endpoint),
            requests_per_min=_least(spec.max_requests_per_min for spec in of_endpoint),
            tokens_per_min=_least(spec.max_tokens_per_min for spec in of_endpoint),
            clock=clock,
            sleep=sleep,
        )
        for endpoint, of_endpoint in by_endpoint.items()
    }


def _least(rates: Iterable[float | None]) -> float | None:
    return min((rate for rate in rates if rate is not None), default=None)
