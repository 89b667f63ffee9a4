"""A fair lock per trace: of two batches with the same trace, the later one sees what the earlier one settled."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping

from tracejudge.scores import TraceKey


class Turn:
    """One batch's place in the queues of its traces. `before` holds, by trace, the batch directly ahead of it."""

    __slots__ = ("_last", "_mine", "_waiting", "before")

    def __init__(self, last: dict[TraceKey, Turn], mine: Iterable[TraceKey]) -> None:
        self._mine = dict.fromkeys(mine)
        self.before: Mapping[TraceKey, Turn] = {key: last[key] for key in self._mine if key in last}
        self._last = last
        self._waiting: dict[TraceKey, asyncio.Event] = {}  # only of traces that another batch waits for

    @property
    def keys(self) -> Collection[TraceKey]:
        """The traces that this batch still holds."""
        return self._mine.keys()

    async def comes(self) -> None:
        """Waits until every earlier batch has left the traces of this one."""
        for key, other in self.before.items():
            await other.left(key)

    async def left(self, key: TraceKey) -> None:
        """Waits until this batch and all before it have left the trace. A batch may leave while it waits itself."""
        turn = self if key in self._mine else self._earlier(key)
        while turn is not None:
            await turn._waiting.setdefault(key, asyncio.Event()).wait()
            turn = turn._earlier(key)

    def leave(self, keys: Iterable[TraceKey]) -> None:
        """Hands these traces to the next batch. May be called twice."""
        mine, last = self._mine, self._last
        for key in keys:
            if key in mine:
                del mine[key]
                if last.get(key) is self:
                    earlier = self._earlier(key) if key in self.before else None
                    if earlier is None:
                        del last[key]
                    else:  # the next batch has to wait for the one that this batch waited for
                        last[key] = earlier
        if self._waiting:
            for key in [key for key in self._waiting if key not in mine]:
                self._waiting.pop(key).set()

    def leave_all(self) -> None:
        """Ends the turn: leaves every trace."""
        self.leave(tuple(self._mine))
        # Keeps only batches that are still at work: where each batch shares a trace with the one before, a chain of
        # all batches ever seen would be kept otherwise.
        self.before = {key: earlier for key in self.before if (earlier := self._earlier(key)) is not None}

    def _earlier(self, key: TraceKey) -> Turn | None:
        """The nearest batch ahead of this one that has not left the trace."""
        turn = self.before.get(key)
        while turn is not None and key not in turn._mine:
            turn = turn.before.get(key)
        return turn


class Turns:
    """The batches at work, in order, by trace. For one event loop."""

    def __init__(self) -> None:
        self._last: dict[TraceKey, Turn] = {}

    def take(self, keys: Iterable[TraceKey]) -> Turn:
        """A turn behind every batch that took one of `keys` before.

        All keys are taken in one step, so a batch waits for earlier batches only, and there is no deadlock.
        """
        turn = Turn(self._last, keys)
        self._last.update(dict.fromkeys(turn.keys, turn))
        return turn
