"""Batches that hold the same trace take turns, so that the later one sees what the earlier one settled."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from tracejudge.scores import TraceKey


class Turn:
    """One batch's place in the rows of those who work on its traces. `before` says whom it waits for, by trace."""

    __slots__ = ("_last", "_mine", "before")

    def __init__(
        self,
        last: dict[TraceKey, asyncio.Event],
        mine: dict[TraceKey, asyncio.Event],
        before: Mapping[TraceKey, asyncio.Event],
    ) -> None:
        self._last = last
        self._mine = mine
        self.before = before

    async def comes(self) -> None:
        """Waits until everybody who took one of these traces before has left it."""
        for event in self.before.values():
            await event.wait()

    def leave(self, key: TraceKey) -> None:
        """Lets the next one have this trace. May be called twice."""
        event = self._mine.pop(key, None)
        if event is not None:
            event.set()
            if self._last.get(key) is event:
                del self._last[key]

    def leave_all(self) -> None:
        for key in tuple(self._mine):
            self.leave(key)


class Turns:
    """Who works on which trace at present. For one event loop."""

    def __init__(self) -> None:
        self._last: dict[TraceKey, asyncio.Event] = {}

    def take(self, keys: Iterable[TraceKey]) -> Turn:
        """A place behind everybody who asked for one of `keys` before.

        All keys are taken in one step, so everybody waits for earlier ones only and nobody for each other.
        """
        mine = {key: asyncio.Event() for key in keys}
        before = {key: self._last[key] for key in mine if key in self._last}
        self._last.update(mine)
        return Turn(self._last, mine, before)
