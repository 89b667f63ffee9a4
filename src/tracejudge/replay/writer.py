"""Verdicts into the store as they come: what arrives while an insert is on its way, or just after, goes with the next.

A verdict is bought with money, so it does not wait long for its neighbours; one insert a verdict would make the store
merge all day.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from tracejudge.judging import PanelResult
from tracejudge.store import Store

_PAUSE_S: Final = 0.4
"""Between two inserts: what is answered in that time is asked again after a kill. An insert costs as much as the rows
of five hundred answers, so that shorter pauses would make inserting dear beside a quick judge."""


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    result: PanelResult
    stored: asyncio.Future[None]


class Writer:
    """For one event loop."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: list[_Waiting] = []
        self._task: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()

    async def write(self, result: PanelResult) -> None:
        """Returns when the store has all of it. Raises what the store raises."""
        one = _Waiting(result, asyncio.get_running_loop().create_future())
        self._waiting.append(one)
        if self._task is None:
            self._task = asyncio.create_task(self._work())
        await one.stored

    def hurry(self) -> None:
        """No pauses from now on: nothing more is to come that could go along."""
        self._hurry.set()

    async def flush(self) -> None:
        """Returns when all that was handed in is stored, or could not be."""
        self.hurry()
        if self._task is not None:
            await asyncio.wait({self._task})

    async def _work(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting, []
                try:
                    await asyncio.to_thread(self._insert, batch)
                except BaseException as error:  # cancellation too: nobody may wait for what will not come
                    for one in (*batch, *self._waiting):
                        if not one.stored.done():
                            one.stored.set_exception(error)
                    self._waiting = []
                    if not isinstance(error, Exception):
                        raise
                    return
                for one in batch:
                    if not one.stored.done():
                        one.stored.set_result(None)
                await self._pause()
        finally:
            self._task = None

    async def _pause(self) -> None:
        try:
            await asyncio.wait_for(self._hurry.wait(), _PAUSE_S)
        except asyncio.TimeoutError:  # the usual end
            return

    def _insert(self, batch: list[_Waiting]) -> None:
        results = [one.result for one in batch]
        # Calls first: money that was spent is known even if the process dies before its verdicts are stored.
        if calls := [row for result in results for row in result.calls]:
            self._store.calls.insert(calls)
        if ledger := [row for result in results for row in result.ledger]:
            self._store.ledger.insert(ledger)
        if scores := [row for result in results for row in result.scores]:
            self._store.scores.insert(scores)
