"""Which records of a batch are finished: those of which the store has everything, and no others."""

from __future__ import annotations

from collections.abc import Iterable

from tests.support.memory_store import MemoryStore
from tests.support.scripted_panel import ScriptedPanel
from tests.support.stages import make_stages
from tracejudge.testing import make_trace
from tracejudge_consumer.intake import RawRecord
from tracejudge_consumer.offsets import OffsetTracker
from tracejudge_consumer.stages.read import TakenRecord
from tracejudge_sdk.codec import encode


def taken(number: int) -> TakenRecord:
    raw = RawRecord(
        source="sqlite:log",
        partition=0,
        offset=number,
        key=None,
        value=encode(make_trace(number)),
        timestamp_ms=0,
    )
    return TakenRecord(raw, OffsetTracker(raw.partition_key))


class Finished:
    def __init__(self) -> None:
        self.offsets: list[int] = []

    def __call__(self, records: Iterable[TakenRecord]) -> None:
        self.offsets += [one.raw.offset for one in records]


async def test_what_is_judged_is_finished() -> None:
    store, finished = MemoryStore(), Finished()
    report = await make_stages(store, ScriptedPanel()).processor.process([taken(n) for n in range(3)], finished)
    assert sorted(finished.offsets) == [0, 1, 2]
    assert (report.records, len(store.scores.rows)) == (3, 3)


async def test_what_was_left_unasked_is_not_finished() -> None:
    """Of a partition that went away, or at the end: it comes again, and a commit beyond it would lose it."""
    store, finished, panel = MemoryStore(), Finished(), ScriptedPanel()
    stages, records = make_stages(store, panel), [taken(n) for n in range(3)]
    records[1].tracker.forgotten = True
    await stages.processor.process(records, finished)
    assert sorted(finished.offsets) == [0, 2]
    stages.judging.stop_asking()
    await stages.processor.process([taken(3)], finished)
    assert sorted(finished.offsets) == [0, 2]
    assert {trace_id for trace_id, _ in panel.asked} == {"t-000000", "t-000002"}
