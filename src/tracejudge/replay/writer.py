"""Verdicts into the store as they come: what arrives while an insert is on its way goes with the next one.

A verdict is bought with money, so it does not wait for its neighbours; one insert a verdict would make the store merge
all day. Calls first: money that was spent is known even if the process dies before its verdicts are stored.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from tracejudge.judging import PanelResult
from tracejudge.store import Store

_PAUSE_S: Final = 0.05  # between two inserts: so many a second is what a store takes without complaint


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

    async def write(self, result: PanelResult) -> None:
        """Returns when the store has all of it. Raises what the store raises."""
        one = _Waiting(result, asyncio.get_running_loop().create_future())
        self._waiting.append(one)
        if self._task is None:
            self._task = asyncio.create_task(self._work())
        await one.stored

    async def flush(self) -> None:
        """Returns when all that was handed in is stored, or could not be."""
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
                await asyncio.sleep(_PAUSE_S)
        finally:
            self._task = None

    def _insert(self, batch: list[_Waiting]) -> None:
        results = [one.result for one in batch]
        if calls := [row for result in results for row in result.calls]:
            self._store.calls.insert(calls)
        if ledger := [row for result in results for row in result.ledger]:
            self._store.ledger.insert(ledger)
        if scores := [row for result in results for row in result.scores]:
            self._store.scores.insert(scores)
