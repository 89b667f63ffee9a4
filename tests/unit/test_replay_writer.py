"""How verdicts of a replay come into the store: together, without losing any to a failure."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any, cast

import pytest

from tracejudge.errors import StoreUnavailable
from tracejudge.judging import PanelResult
from tracejudge.replay import writer
from tracejudge.replay.progress import Behind, OpenPage
from tracejudge.replay.writer import Answers, Writer
from tracejudge.scores import Score
from tracejudge.store import Store
from tracejudge.testing import make_score


class Scores:
    """Keeps what is inserted; the first insert waits for `go`."""

    def __init__(self) -> None:
        self.inserts: list[Sequence[Score]] = []
        self.failing = False
        self.go = threading.Event()

    def insert(self, rows: Sequence[Score]) -> None:
        if not self.inserts:
            assert self.go.wait(30.0)
        self.inserts.append(rows)
        if self.failing:
            raise StoreUnavailable("the store is away")


class Told:
    """What the writer said of answers."""

    def __init__(self) -> None:
        self.stored = 0
        self.errors: list[BaseException] = []
        self._more = asyncio.Condition()

    async def __call__(self, answers: Answers, error: BaseException | None) -> None:
        if error is not None:
            self.errors.append(error)
            return
        async with self._more:
            self.stored += answers.count
            self._more.notify_all()

    async def until(self, stored: int) -> None:
        async with self._more:
            await self._more.wait_for(lambda: self.stored >= stored)


PAGE = OpenPage(place={}, counts=Behind())


def answer(number: int) -> PanelResult:
    return PanelResult(scores=(make_score(number),), ledger=(), calls=(), gone=())


def writer_of(scores: Scores, told: Told) -> Writer:
    class Tables:
        pass

    store: Any = Tables()
    store.scores = scores
    return Writer(cast(Store, store), stored=told)


async def test_what_comes_during_an_insert_goes_with_the_next() -> None:
    scores, told = Scores(), Told()
    writing = writer_of(scores, told)
    writing.put(PAGE, answer(0))
    await asyncio.sleep(0)
    for number in range(1, 6):
        writing.put(PAGE, answer(number))
    scores.go.set()
    await writing.flush()
    assert [len(rows) for rows in scores.inserts] == [1, 5]
    assert told.stored == 6


async def test_what_comes_after_a_failure_is_tried_all_the_same() -> None:
    scores, told = Scores(), Told()
    scores.failing = True
    scores.go.set()
    writing = writer_of(scores, told)
    writing.put(PAGE, answer(0))
    await writing.flush()
    assert [str(error) for error in told.errors] == ["the store is away"]
    scores.failing = False
    writing.put(PAGE, answer(1))
    await writing.flush()
    assert told.stored == 1


async def test_enough_of_them_wait_for_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "_PAUSE_S", 3600.0)
    monkeypatch.setattr(writer, "_ENOUGH", 3)
    scores, told = Scores(), Told()
    writing = writer_of(scores, told)
    writing.put(PAGE, answer(0))
    await asyncio.sleep(0)
    for number in range(1, 4):  # enough, while an insert is on its way
        writing.put(PAGE, answer(number))
    scores.go.set()
    await told.until(4)
    for number in range(4, 7):
        writing.put(PAGE, answer(number))
    await told.until(7)
    await writing.flush()
