"""Records into what they hold: traces, parts, feedback, or a dead letter with the reason."""

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
    """A record that was taken on, with the tracker that waits for it to be finished."""

    raw: RawRecord
    tracker: OffsetTracker


class Place(NamedTuple):
    """Of a record."""

    source: str
    partition: int
    offset: int


@made_quickly
@dataclass(frozen=True, slots=True)
class IntakeRecord:
    """A trace with the records it stands for: when it is finished, all of these are. One of the store has none."""

    trace: Trace
    records: tuple[TakenRecord, ...]
    found: Place | None = None  # where its content was read; None: in the last of `records`
    key: TraceKey = field(init=False, compare=False)

    def __post_init__(self) -> None:
        trace = self.trace
        object.__setattr__(self, "key", TraceKey(trace.environment, trace.app, trace.trace_id))

    @property
    def place(self) -> Place:
        """Where its content was read."""
        if self.found is not None:
            return self.found
        raw = self.records[-1].raw
        return Place(raw.source, raw.partition, raw.offset)

    @property
    def forgotten(self) -> bool:
        """Every partition it came from was taken away: the trace is its new owner's to judge."""
        for taken in self.records:
            if not taken.tracker.forgotten:
                return False
        return bool(self.records)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBatch:
    """What the records of one batch hold, each kind in their order."""

    traces: tuple[IntakeRecord, ...]
    parts: tuple[tuple[TracePart, TakenRecord], ...]
    feedback: tuple[tuple[Feedback, TakenRecord], ...]
    dead: tuple[tuple[DeadLetter, TakenRecord], ...]
    duplicates: int  # traces that repeat one of this batch: one stands for all

    def parts_by_key(self) -> dict[TraceKey, tuple[TakenRecord, ...]]:
        """Each trace of which parts are in the batch, with their records."""
        found: dict[TraceKey, list[TakenRecord]] = {}
        for part, taken in self.parts:
            found.setdefault(TraceKey(part.environment, part.app, part.trace_id), []).append(taken)
        return {key: tuple(records) for key, records in found.items()}


def read_batch(
    records: Sequence[TakenRecord], *, at: datetime, read: Callable[[RawRecord], Record] = own_form
) -> ReadBatch:
    """What the records hold. Raises nothing on any bytes: what cannot be read is a dead letter of the instant `at`.

    Of several records of one trace the first complete one stands for all, or the first where none is complete; the
    event time is the first record's. So does the store choose when they come in several batches.
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
    """Two records of one trace as one, in the order they came."""
    if first.trace.status == "incomplete" != second.trace.status:
        trace = second.trace.model_copy(update={"event_time": first.trace.event_time})
        return IntakeRecord(trace, (*first.records, *second.records))
    return IntakeRecord(first.trace, (*second.records, *first.records))
