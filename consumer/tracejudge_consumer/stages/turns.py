"""Batches that hold the same trace take turns, so that the later one sees what the earlier one settled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from tracejudge.scores import TraceKey


class Turns:
    """Who works on which trace at present. For one event loop."""

    def __init__(self) -> None:
        self._last: dict[TraceKey, asyncio.Event] = {}

    @asynccontextmanager
    async def of(self, keys: Iterable[TraceKey]) -> AsyncIterator[None]:
        """Waits until everybody who asked for one of `keys` before has left.

        All keys are taken in one step, so everybody waits for earlier ones only and nobody for each other.
        """
        keys = tuple(keys)
        mine = asyncio.Event()
        before = {self._last[key] for key in keys if key in self._last}
        for key in keys:
            self._last[key] = mine
        try:
            for event in before:
                await event.wait()
            yield
        finally:
            mine.set()
            for key in keys:
                if self._last.get(key) is mine:
                    del self._last[key]
