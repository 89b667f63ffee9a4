"""Verdicts into the store as they come: what arrives while an insert is on its way, or just after, goes with the next.

A verdict is bought with money, so it does not wait long for its neighbours; one insert a verdict would make the store
merge all day.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

from tracejudge.judging import PanelResult
from tracejudge.replay.progress import OpenPage
from tracejudge.store import Store

_PAUSE_S: Final = 1.0
"""Between two inserts: what is answered in that time is asked again after a kill. The two inserts of a moment cost the
store what it takes to insert two thousand answers, so that shorter pauses would make inserting dear beside a quick
judge."""

_ENOUGH: Final = 4096
"""So many wait for no others: an insert of more costs no less for each."""


class Answer(NamedTuple):
    """What came of one question of a page."""

    page: OpenPage
    result: PanelResult


Stored = Callable[[Sequence[Answer], "BaseException | None"], Awaitable[None]]


class Writer:
    """For one event loop. `stored` is told of answers that the store has all of, or of what kept it from having them.

    Answers that come after a failure are tried all the same: they are paid for.
    """

    def __init__(self, store: Store, *, stored: Stored) -> None:
        self._store = store
        self._stored = stored
        self._waiting: list[Answer] = []
        self._task: asyncio.Task[None] | None = None
        self._hurry = False
        self._go = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, "replay-write")  # one alone: each keeps the memory of its largest insert

    def put(self, answer: Answer) -> None:
        """To be stored with the next insert."""
        self._waiting.append(answer)
        if len(self._waiting) == _ENOUGH:
            self._go.set()
        if self._task is None:
            self._task = asyncio.create_task(self._work())

    async def flush(self) -> None:
        """Returns when all that was handed in is stored, or could not be. There are no pauses from now on: nothing more
        is to come that could go along."""
        self._hurry = True
        self._go.set()
        while self._task is not None:
            await asyncio.wait({self._task})

    async def _work(self) -> None:
        try:
            while self._waiting:
                answers, self._waiting = self._waiting, []
                try:
                    await asyncio.get_running_loop().run_in_executor(self._thread, self._insert, answers)
                except BaseException as error:
                    await self._stored(answers, error)
                    if not isinstance(error, Exception):  # cancellation: nobody waits for what is left
                        raise
                else:
                    await self._stored(answers, None)
                await self._pause()
        finally:
            self._task = None

    async def _pause(self) -> None:
        if not self._hurry and len(self._waiting) < _ENOUGH:
            self._go.clear()
        try:
            await asyncio.wait_for(self._go.wait(), _PAUSE_S)
        except asyncio.TimeoutError:  # the usual end
            return

    def _insert(self, answers: Sequence[Answer]) -> None:
        results = [one.result for one in answers]
        # Calls first: money that was spent is known even if the process dies before its verdicts are stored.
        if calls := [row for result in results for row in result.calls]:
            self._store.calls.insert(calls)
        if ledger := [row for result in results for row in result.ledger]:
            self._store.ledger.insert(ledger)
        if scores := [row for result in results for row in result.scores]:
            self._store.scores.insert(scores)
