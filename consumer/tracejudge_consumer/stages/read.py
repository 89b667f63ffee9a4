"""Decodes records into traces, parts and feedback, and what cannot be decoded into dead letters with their reason."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from tracejudge.quick import made_quickly
from tracejudge.scores import DeadLetter, TraceKey
from tracejudge_consumer.dead_letter import dead_letter
from tracejudge_consumer.intake import RawRecord
from tracejudge_consumer.intake.form import own_form
from tracejudge_consumer.offsets import OffsetTracker
from tracejudge_sdk.errors import RecordError
from tracejudge_sdk.trace import Feedback, Record, Trace, TracePart


@made_quickly
@dataclass(frozen=True, slots=True)
class TakenRecord:
    """A record in flight, with the tracker of its partition, which waits for it to be finished."""

    raw: RawRecord
    tracker: OffsetTracker


class Place(NamedTuple):
    """Where a record stands in a queue."""

    source: str
    partition: int
    offset: int


@made_quickly
@dataclass(frozen=True, slots=True)
class IntakeRecord:
    """A trace with its records, which are finished when it is; none for a trace that was read from the store."""

    trace: Trace
    records: tuple[TakenRecord, ...]
    found: Place | None = None  # of the record whose content is used; None: the last of `records`
    key: TraceKey = field(init=False, compare=False)

    def __post_init__(self) -> None:
        trace = self.trace
        object.__setattr__(self, "key", TraceKey(trace.environment, trace.app, trace.trace_id))

    @property
    def place(self) -> Place:
        """The place of the record whose content is used."""
        if self.found is not None:
            return self.found
        raw = self.records[-1].raw
        return Place(raw.source, raw.partition, raw.offset)

    @property
    def forgotten(self) -> bool:
        """Whether every partition it came from was revoked: then their new owners judge it."""
        for taken in self.records:
            if not taken.tracker.forgotten:
                return False
        return bool(self.records)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBatch:
    """The contents of one batch by kind, each in the order of the records."""

    traces: tuple[IntakeRecord, ...]
    parts: tuple[tuple[TracePart, TakenRecord], ...]
    feedback: tuple[tuple[Feedback, TakenRecord], ...]
    dead: tuple[tuple[DeadLetter, TakenRecord], ...]
    duplicates: int  # records of a trace that another record of the batch holds too

    def parts_by_key(self) -> dict[TraceKey, tuple[TakenRecord, ...]]:
        """The records of the parts, by their trace."""
        found: dict[TraceKey, list[TakenRecord]] = {}
        for part, taken in self.parts:
            found.setdefault(TraceKey(part.environment, part.app, part.trace_id), []).append(taken)
        return {key: tuple(records) for key, records in found.items()}


def read_batch(
    records: Sequence[TakenRecord], *, at: datetime, read: Callable[[RawRecord], Record] = own_form
) -> ReadBatch:
    """Decodes a batch. Raises on no input: a record that cannot be read becomes a dead letter of the instant `at`.

    Of several records of one trace the first complete one is used, or the first where none is complete; the event time
    is the first record's. The store chooses likewise when they come in several batches.
    """
    traces: dict[TraceKey, IntakeRecord] = {}
    parts: list[tuple[TracePart, TakenRecord]] = []
    feedback: list[tuple[Feedback, TakenRecord]] = []
    dead: list[tuple[DeadLetter, TakenRecord]] = []
    duplicates = 0
    for taken in records:
        try:
            record = read(taken.raw)
        except RecordError as error:
            dead.append((dead_letter(taken.raw, error, at=at), taken))
            continue
        if isinstance(record, Trace):
            one = IntakeRecord(record, (taken,))
            first = traces.get(one.key)
            traces[one.key] = one if first is None else joined(first, one)
            duplicates += first is not None
        elif isinstance(record, TracePart):
            parts.append((record, taken))
        else:
            feedback.append((record, taken))
    return ReadBatch(
        traces=tuple(traces.values()),
        parts=tuple(parts),
        feedback=tuple(feedback),
        dead=tuple(dead),
        duplicates=duplicates,
    )


def joined(first: IntakeRecord, second: IntakeRecord) -> IntakeRecord:
    """Merges two records of one trace, given in the order they came."""
    if first.trace.status == "incomplete" != second.trace.status:
        trace = second.trace.model_copy(update={"event_time": first.trace.event_time})
        return IntakeRecord(trace, (*first.records, *second.records))
    return IntakeRecord(first.trace, (*second.records, *first.records))
