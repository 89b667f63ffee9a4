"""Batches that hold the same trace take turns, so that the later one sees what the earlier one settled."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping

from tracejudge.scores import TraceKey


class Turn:
    """One batch's place in the rows of those who work on its traces. `before` says whom it waits for, by trace."""

    __slots__ = ("_last", "_mine", "_waiting", "before")

    def __init__(self, last: dict[TraceKey, Turn], mine: Iterable[TraceKey]) -> None:
        self._mine = dict.fromkeys(mine)
        self.before: Mapping[TraceKey, Turn] = {key: last[key] for key in self._mine if key in last}
        self._last = last
        self._waiting: dict[TraceKey, asyncio.Event] = {}  # of the few that somebody waits for

    @property
    def keys(self) -> Collection[TraceKey]:
        """The traces it has not left."""
        return self._mine.keys()

    async def comes(self) -> None:
        """Waits until everybody who took one of these traces before has left it."""
        for key, other in self.before.items():
            await other.left(key)

    async def left(self, key: TraceKey) -> None:
        """Waits until this batch has left the trace, and everybody before it: it may end while it waits itself."""
        turn = self if key in self._mine else self._earlier(key)
        while turn is not None:
            await turn._waiting.setdefault(key, asyncio.Event()).wait()
            turn = turn._earlier(key)

    def leave(self, keys: Iterable[TraceKey]) -> None:
        """Lets the next one have these traces. May be called twice."""
        mine, last = self._mine, self._last
        for key in keys:
            if key in mine:
                del mine[key]
                if last.get(key) is self:
                    earlier = self._earlier(key) if key in self.before else None
                    if earlier is None:
                        del last[key]
                    else:  # the next one is to wait for whom this one waited for
                        last[key] = earlier
        if self._waiting:
            for key in [key for key in self._waiting if key not in mine]:
                self._waiting.pop(key).set()

    def leave_all(self) -> None:
        """The end of it: no trace is left, and nobody is waited for any more."""
        self.leave(tuple(self._mine))
        # None but those who are still at work: where every batch shares a trace with the one before, each would keep
        # all that ever were.
        self.before = {key: earlier for key in self.before if (earlier := self._earlier(key)) is not None}

    def _earlier(self, key: TraceKey) -> Turn | None:
        """The nearest before it that has not left the trace."""
        turn = self.before.get(key)
        while turn is not None and key not in turn._mine:
            turn = turn.before.get(key)
        return turn


class Turns:
    """Who works on which trace at present. For one event loop."""

    def __init__(self) -> None:
        self._last: dict[TraceKey, Turn] = {}

    def take(self, keys: Iterable[TraceKey]) -> Turn:
        """A place behind everybody who asked for one of `keys` before.

        All keys are taken in one step, so everybody waits for earlier ones only and nobody for each other.
        """
        turn = Turn(self._last, keys)
        self._last.update(dict.fromkeys(turn.keys, turn))
        return turn
