"""The writer of results: who hands some in hears what became of them, whatever happens to the writer."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import pytest

from tests.support.memory_store import MemoryStore
from tests.support.panels import make_tasks
from tests.support.scripted_panel import ScriptedPanel
from tests.support.stages import make_stages
from tracejudge.clock import SystemClock
from tracejudge.judging import PanelResult
from tracejudge.scores import TraceKey
from tracejudge.store import Inserted, Rejected
from tracejudge_consumer.report import Tally
from tracejudge_consumer.stages.plan import PlannedTask
from tracejudge_consumer.stages.questions import Question
from tracejudge_consumer.stages.read import IntakeRecord
from tracejudge_consumer.stages.results import ResultWriter
from tracejudge_consumer.watching.metrics import Metrics


async def judged(number: int) -> PanelResult:
    return await ScriptedPanel().evaluate(make_tasks([number], "scripted"))


def make_writer(store: MemoryStore, interval_s: float = 0.0) -> ResultWriter:
    return ResultWriter(
        store=store,
        calls=make_stages(store, ScriptedPanel()).calls,
        metrics=Metrics(),
        clock=SystemClock(),
        checkpoint=lambda _: None,
        interval_s=interval_s,
        most_rows=1_000,
    )


class Ear:
    """Remembers what it is told."""

    def __init__(self) -> None:
        self.stored_places: list[int] = []
        self.errors: list[BaseException] = []

    def stored(self, places: Sequence[int], results: Sequence[PanelResult], refused: Mapping[str, int]) -> None:
        self.stored_places += places

    def failed(self, error: BaseException) -> None:
        self.errors.append(error)


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def cancel_all_but_the_test() -> None:
    """What the worker does as it is closed."""
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    await turns()


async def test_who_waits_between_two_inserts_hears_of_it_when_the_writer_is_cancelled() -> None:
    store = MemoryStore()
    writer = make_writer(store, interval_s=3600.0)
    await writer.write(await judged(0))
    ear = Ear()
    writer.put(await judged(1), ear, 7)
    await turns()  # it gathers now, for an hour
    assert (ear.stored_places, ear.errors) == ([], [])
    await cancel_all_but_the_test()
    assert [type(error) for error in ear.errors] == [asyncio.CancelledError]
    assert len(store.scores.rows) == 1


async def test_who_came_during_an_insert_hears_of_it_when_the_writer_is_cancelled() -> None:
    store = MemoryStore()
    store.down.set()
    writer = make_writer(store)
    first, second = Ear(), Ear()
    writer.put(await judged(0), first)
    await turns()
    writer.put(await judged(1), second)
    await turns()
    await cancel_all_but_the_test()
    assert (len(first.errors), len(second.errors)) == (1, 1)
    store.down.clear()
    await writer.write(await judged(2))
    assert [score.trace_id for score in store.scores.rows.values()] == ["t-000002"]


async def test_an_insert_that_raises_is_told_and_the_next_one_is_tried() -> None:
    store = MemoryStore()

    def broken(name: str) -> None:
        if name == "scores.insert":
            raise LookupError("no such column")

    store.on_call = broken
    writer = make_writer(store)
    with pytest.raises(LookupError, match="no such column"):
        await writer.write(await judged(0))
    store.on_call = lambda name: None
    assert await writer.write(await judged(1)) == {}


@pytest.mark.parametrize("steps", range(12))
async def test_places_before_a_judge_come_back_wherever_its_asking_is_cancelled(steps: int) -> None:
    """Upkeep is cancelled at the end, and what is drained then waits for the same places."""
    panel = ScriptedPanel()
    judging = make_stages(MemoryStore(), panel, judge_in_flight=2).judging
    planned = tuple(PlannedTask(task, IntakeRecord(task.trace, ())) for task in make_tasks(range(5), "scripted"))
    question = Question(planned, frozenset(["scripted"]), each=True)
    asking = asyncio.ensure_future(judging.answer(question, {}, Tally()))
    for _ in range(steps):
        await asyncio.sleep(0)
    asking.cancel()
    await asyncio.wait([asking])
    told: list[TraceKey] = []
    await asyncio.wait_for(judging.answer(question, {}, Tally(), on_answered=lambda keys, _: told.extend(keys)), 30.0)
    assert sorted(told) == sorted(one.record.key for one in planned)


async def test_money_is_stored_before_the_score_that_settles_the_trace() -> None:
    store, order = MemoryStore(), list[str]()
    store.on_call = order.append
    await make_writer(store).write(await judged(0))
    assert [name for name in order if name.endswith(".insert")] == ["calls.insert", "scores.insert"]


async def test_a_row_that_the_store_refuses_is_told_to_its_own_receiver_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    rejected = Rejected(index=1, reason="ill_typed", detail="a test said so")
    monkeypatch.setattr(store.scores, "insert", lambda rows: Inserted(stored=len(rows) - 1, rejected=(rejected,)))
    writer = make_writer(store)
    answers = await asyncio.gather(*[writer.write(await judged(number)) for number in range(3)])
    assert [dict(refused) for refused in answers] == [{}, {"store_ill_typed": 1}, {}]
