"""Records into what they hold: traces, parts, feedback, or a dead letter with the reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from tracejudge.scores import DeadLetter, TraceKey
from tracejudge_consumer.dead_letter import dead_letter
from tracejudge_consumer.intake import RawRecord
from tracejudge_consumer.offsets import OffsetTracker
from tracejudge_sdk.codec import decode
from tracejudge_sdk.errors import RecordError
from tracejudge_sdk.trace import Feedback, Trace, TracePart


@dataclass(frozen=True, slots=True)
class TakenRecord:
    """A record that was taken on, with the tracker that waits for it to be finished."""

    raw: RawRecord
    tracker: OffsetTracker


@dataclass(frozen=True, slots=True)
class IntakeRecord:
    """A trace with the place it came from."""

    trace: Trace
    taken: TakenRecord

    @property
    def key(self) -> TraceKey:
        return TraceKey(self.trace.environment, self.trace.app, self.trace.trace_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBatch:
    """What the records of one batch hold, each kind in their order."""

    traces: tuple[IntakeRecord, ...]
    parts: tuple[tuple[TracePart, TakenRecord], ...]
    feedback: tuple[Feedback, ...]
    dead: tuple[DeadLetter, ...]
    duplicates: int  # traces that repeat one of this batch: one stands for all

    def parts_by_key(self) -> dict[TraceKey, TakenRecord]:
        """Each trace of which parts are in the batch, with the record of the last of them."""
        return {TraceKey(part.environment, part.app, part.trace_id): taken for part, taken in self.parts}


def read_batch(records: Sequence[TakenRecord], *, at: datetime) -> ReadBatch:
    """What the records hold. Raises nothing on any bytes: what cannot be read is a dead letter of the instant `at`.

    Of several records of one trace the first complete one stands for all, or the first where none is complete; the
    event time is the first record's. So does the store choose when they come in several batches.
    """
    traces: dict[TraceKey, IntakeRecord] = {}
    parts: list[tuple[TracePart, TakenRecord]] = []
    feedback: list[Feedback] = []
    dead: list[DeadLetter] = []
    duplicates = 0
    for taken in records:
        try:
            record = decode(taken.raw.value)
        except RecordError as error:
            dead.append(dead_letter(taken.raw, error, at=at))
            continue
        if isinstance(record, Trace):
            one = IntakeRecord(record, taken)
            first = traces.setdefault(one.key, one)
            if first is not one:
                duplicates += 1
                if first.trace.status == "incomplete" != record.status:
                    trace = record.model_copy(update={"event_time": first.trace.event_time})
                    traces[one.key] = IntakeRecord(trace, taken)
        elif isinstance(record, TracePart):
            parts.append((record, taken))
        else:
            feedback.append(record)
    return ReadBatch(
        traces=tuple(traces.values()),
        parts=tuple(parts),
        feedback=tuple(feedback),
        dead=tuple(dead),
        duplicates=duplicates,
    )
