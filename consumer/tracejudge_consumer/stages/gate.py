"""A fair semaphore over the traces that are with a judge at once."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque


class Gate:
    """`places` permits, granted in the order they were asked for, as many at a time as are free. For one event loop."""

    def __init__(self, places: int) -> None:
        self._free = places
        self._waiting: deque[tuple[int, asyncio.Future[int]]] = deque()  # wanted, and what is granted
        self._handing_out = False

    async def enter(self, wanted: int) -> int:
        """Takes up to `wanted` places and says how many, at least one; waits while there is none."""
        if self._free and not self._waiting:
            return self._take(wanted)
        granted: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting.append((wanted, granted))
        try:
            return await granted
        except asyncio.CancelledError:
            if granted.done() and not granted.cancelled():
                self.leave(granted.result())
            else:
                with contextlib.suppress(ValueError):
                    self._waiting.remove((wanted, granted))
            raise

    def leave(self, places: int = 1) -> None:
        """Gives places back."""
        self._free += places
        if self._waiting and not self._handing_out:
            # In the next turn of the loop: a judge that answers many traces in one go frees many places, which are then
            # granted together.
            self._handing_out = True
            asyncio.get_running_loop().call_soon(self._hand_out)

    def _hand_out(self) -> None:
        self._handing_out = False
        while self._waiting and self._free:
            wanted, granted = self._waiting.popleft()
            if not granted.done():
                granted.set_result(self._take(wanted))

    def _take(self, wanted: int) -> int:
        taken = min(wanted, self._free)
        self._free -= taken
        return taken
