"""What spans event loops: a value of its own for each loop (semaphores, sessions and runners belong to one), and a wait
that ends whichever loop the news come from."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class PerLoop(Generic[T]):
    """Holds the value of each living loop; those of closed loops are handed over to be disposed of."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._values: dict[asyncio.AbstractEventLoop, T] = {}
        self._lock = threading.Lock()

    def get(self) -> T:
        """The running loop's value."""
        loop = asyncio.get_running_loop()
        value = self._values.get(loop)
        if value is None:
            value = self._make()
            with self._lock:
                self._values[loop] = value
        return value

    def take_stale(self) -> list[T]:
        """Removes and returns the values of loops that are closed."""
        with self._lock:
            closed = [loop for loop in self._values if loop.is_closed()]
            return [self._values.pop(loop) for loop in closed]

    def elsewhere(self) -> bool:
        """True while another loop that has a value runs."""
        here = asyncio.get_running_loop()
        with self._lock:
            return any(loop.is_running() for loop in self._values if loop is not here)

    def pop(self) -> T | None:
        """Removes and returns the running loop's value, None where there is none."""
        with self._lock:
            return self._values.pop(asyncio.get_running_loop(), None)


class Turnstile:
    """Lets everybody through who waits at the moment it is opened."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()

    async def wait(self) -> None:
        """Until the next `open`, by whichever loop."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        try:
            await future
        finally:
            self._waiting.discard(future)

    def open(self) -> None:
        for future in tuple(self._waiting):
            # A loop that was closed has nobody left who waits.
            with contextlib.suppress(RuntimeError):
                future.get_loop().call_soon_threadsafe(_let_through, future)


def _let_through(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
