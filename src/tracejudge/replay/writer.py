"""Verdicts into the store as they come: what arrives while an insert is on its way, or just after, goes with the next.

A verdict is bought with money, so it does not wait long for its neighbours; one insert a verdict would make the store
merge all day.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from tracejudge.errors import JudgeGone
from tracejudge.judging import PanelResult
from tracejudge.replay.progress import Answered, OpenPage
from tracejudge.scores import JudgeCall, LedgerRow, Score
from tracejudge.store import Store

_PAUSE_S: Final = 1.0
"""Between two inserts: what is answered in that time is asked again after a kill. The two inserts of a moment cost the
store what it takes to insert two thousand answers, so that shorter pauses would make inserting dear beside a quick
judge."""

_ENOUGH: Final = 4096
"""So many wait for no others: an insert of more costs no less for each."""


class Answers:
    """Rows that go into the store together, and what they are to the pages whose questions they answer.

    What else a result holds is given up at once: two thousand of them wait for an insert, and judging goes on in the
    memory that is free by then, which is in the CPU's cache.
    """

    __slots__ = ("calls", "count", "gone", "ledger", "pages", "scores")

    def __init__(self) -> None:
        self.count = 0
        self.scores: list[Score] = []
        self.ledger: list[LedgerRow] = []
        self.calls: list[JudgeCall] = []
        self.gone: list[JudgeGone] = []
        self.pages: dict[OpenPage, Answered] = {}

    def add(self, page: OpenPage, result: PanelResult) -> None:
        """Adds the result of one question of a page."""
        self.count += 1
        self.scores += result.scores
        self.ledger += result.ledger
        self.calls += result.calls
        self.gone += result.gone
        answered = self.pages.get(page)
        if answered is None:
            answered = self.pages[page] = Answered()
        answered.add(result)


Stored = Callable[[Answers, "BaseException | None"], Awaitable[None]]


class Writer:
    """For one event loop. `stored` is told of answers that the store has all of, or of what kept it from having them.

    Answers that come after a failure are tried all the same: they are paid for.
    """

    def __init__(self, store: Store, *, stored: Stored) -> None:
        self._store = store
        self._stored = stored
        self._waiting = Answers()
        self._task: asyncio.Task[None] | None = None
        self._hurry = False
        self._go = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, "replay-write")  # one alone: each keeps the memory of its largest insert

    def put(self, page: OpenPage, result: PanelResult) -> None:
        """Takes the result of one question, to be stored with the next insert."""
        self._waiting.add(page, result)
        if self._waiting.count == _ENOUGH:
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
            while self._waiting.count:
                answers, self._waiting = self._waiting, Answers()
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
        if not self._hurry and self._waiting.count < _ENOUGH:
            self._go.clear()
        try:
            await asyncio.wait_for(self._go.wait(), _PAUSE_S)
        except asyncio.TimeoutError:  # the usual end
            return

    def _insert(self, answers: Answers) -> None:
        # Calls first: money that was spent is known even if the process dies before its verdicts are stored.
        if answers.calls:
            self._store.calls.insert(answers.calls)
        if answers.ledger:
            self._store.ledger.insert(answers.ledger)
        if answers.scores:
            self._store.scores.insert(answers.scores)
