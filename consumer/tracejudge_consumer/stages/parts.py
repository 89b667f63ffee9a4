"""Assembles parts into traces: parts are stored as they come; the consumer that stores the last one assembles."""

from __future__ import annotations

from functools import partial

from tracejudge.clock import Clock
from tracejudge.scores import TraceKey
from tracejudge.store import Inserted, StoredPart
from tracejudge_consumer.assembler import assemble
from tracejudge_consumer.stages.needs import PipelineStore
from tracejudge_consumer.stages.read import IntakeRecord, ReadBatch, joined
from tracejudge_consumer.stages.store_calls import StoreCalls

_NONE = Inserted(stored=0)


async def with_assembled(
    read: ReadBatch, *, store: PipelineStore, calls: StoreCalls, clock: Clock
) -> tuple[list[IntakeRecord], set[TraceKey], Inserted]:
    """Stores the parts of the batch.

    Returns the traces of the batch together with those that could be assembled, the keys of the assembled ones, and
    what the insert of the parts gave. A complete trace in the batch is not replaced by its parts; an incomplete one is,
    and keeps its own event time.
    """
    traces = {record.key: record for record in read.traces}
    if not read.parts:
        return list(traces.values()), set(), _NONE
    rows = [
        StoredPart(
            part=part,
            ingested_at=clock.now(),
            source=taken.raw.source,
            partition=taken.raw.partition,
            offset=taken.raw.offset,
        )
        for part, taken in read.parts
    ]
    inserted = await calls(partial(store.parts.insert, rows))
    touched = {
        key: records
        for key, records in read.parts_by_key().items()
        if key not in traces or traces[key].trace.status == "incomplete"
    }
    # Read back after storing: of two consumers that hold the parts of one trace, the later one sees them all.
    stored = await calls(partial(store.parts.of, list(touched)))
    found: set[TraceKey] = set()
    for key, records in touched.items():
        trace = assemble([row.part for row in stored.get(key, ())])
        if trace is not None:
            found.add(key)
            whole = IntakeRecord(trace, records)
            traces[key] = joined(traces[key], whole) if key in traces else whole
    return list(traces.values()), found, inserted
