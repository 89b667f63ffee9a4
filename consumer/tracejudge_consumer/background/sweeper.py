"""Parts whose rest did not come within the grace period: accounted for as incomplete, or judged if they are whole.

They can be whole all the same: their last part was committed by a consumer that could not see the others yet. What
comes after the grace is not lost either: a complete answer beats a broken-off one in the store, under the event time
that the latter fixed, and is judged.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from datetime import timedelta
from functools import partial
from typing import Final

from tracejudge.clock import Clock
from tracejudge.scores import TraceKey
from tracejudge_consumer.assembler import assemble, broken_off
from tracejudge_consumer.background.needs import PartsStore, StillOurs
from tracejudge_consumer.report import PipelineReport
from tracejudge_consumer.stages.process import BatchProcessor
from tracejudge_consumer.stages.read import IntakeRecord, Place, TakenRecord
from tracejudge_consumer.stages.store_calls import StoreCalls

_LOG = logging.getLogger(__name__)

PAGE: Final = 200


class Sweeper:
    """Accounts for parts that are older than the grace period. For one event loop."""

    def __init__(
        self,
        *,
        store: PartsStore,
        processor: BatchProcessor,
        calls: StoreCalls,
        clock: Clock,
        grace_s: float,
        count: Callable[[PipelineReport], None],
    ) -> None:
        """`grace_s`: how long after its first part the rest of a trace is waited for."""
        self._store = store
        self._processor = processor
        self._calls = calls
        self._clock = clock
        self._grace = timedelta(seconds=grace_s)
        self._count = count

    async def due(self) -> bool:
        return bool(await self._keys(1))

    async def work(self, still_ours: StillOurs) -> None:
        before: set[TraceKey] = set()
        while still_ours():
            keys = await self._keys(PAGE)
            if not set(keys) - before:
                return
            before = set(keys)
            await self._sweep(keys)

    async def _keys(self, limit: int) -> list[TraceKey]:
        return await self._calls(lambda: self._store.parts.older_than(self._clock.now() - self._grace, limit=limit))

    async def _sweep(self, keys: list[TraceKey]) -> None:
        stored = await self._calls(partial(self._store.parts.of, keys))
        traces = []
        for key in keys:
            rows = stored.get(key, [])
            parts = [row.part for row in rows]
            trace = assemble(parts) or broken_off(parts)
            if trace is not None:
                traces.append(IntakeRecord(trace, (), Place(rows[0].source, rows[0].partition, rows[0].offset)))
        report = await self._processor.decide(traces, _nobody_waits, assembled={record.key for record in traces})
        incomplete = sum(record.trace.status == "incomplete" for record in traces)
        _LOG.info("%d traces swept together from their parts, %d of them incomplete", len(traces), incomplete)
        self._count(report)


def _nobody_waits(_records: Iterable[TakenRecord]) -> None:
    """No record of the queue waits for these: their offsets are committed."""
