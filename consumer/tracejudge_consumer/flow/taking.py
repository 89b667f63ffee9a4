"""What the consumer has taken on: records that wait to fill a batch, and batches at work.

"Not taking more" is all there is to back-pressure. Records and bytes count from `poll` until the store has everything
about them, each record by itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import Future

from tracejudge.clock import Clock
from tracejudge_consumer.flow.in_flight import InFlight
from tracejudge_consumer.intake import Intake, RawRecord
from tracejudge_consumer.limits import PipelineLimits
from tracejudge_consumer.offsets import OffsetBook, OffsetTracker
from tracejudge_consumer.process.worker import Worker
from tracejudge_consumer.report import PipelineReport
from tracejudge_consumer.stages.process import BatchProcessor
from tracejudge_consumer.stages.read import TakenRecord


class Batch:
    """Records that are worked on together; each leaves by itself."""

    def __init__(self, records: Sequence[TakenRecord], *, book: OffsetBook, held: InFlight) -> None:
        self._book = book
        self._held = held
        self._open = {id(taken): taken for taken in records}

    def finish(self, records: Iterable[TakenRecord]) -> None:
        """The store has everything about these: their offsets may be committed."""
        done = [taken for taken in records if self._open.pop(id(taken), None) is not None]
        of_tracker: dict[OffsetTracker, list[int]] = {}
        for taken in done:
            of_tracker.setdefault(taken.tracker, []).append(taken.raw.offset)
        for tracker, offsets in of_tracker.items():
            self._book.finish(tracker, offsets)
        _release(self._held, done)

    def leave(self) -> None:
        """Whatever is not finished is given up; it is not committed and comes again."""
        left = list(self._open.values())
        self._open.clear()
        _release(self._held, left)


class Taking:
    """Fills batches, hands them to the worker and adds up what they report. Used by the intake thread."""

    def __init__(self, *, limits: PipelineLimits, book: OffsetBook, clock: Clock) -> None:
        self.held = InFlight()
        self._limits = limits
        self._book = book
        self._clock = clock
        self._pending: list[TakenRecord] = []
        self._pending_since = 0.0
        self._batches: set[Future[PipelineReport]] = set()
        self._worth_it = max(1, min(limits.batch_records, limits.max_in_flight_records // 2) // 2)

    @property
    def pending(self) -> int:
        """Records that wait for their batch to be filled."""
        return len(self._pending)

    @property
    def working(self) -> int:
        """Batches at work."""
        return len(self._batches)

    @property
    def room(self) -> int:
        """How many records may be taken on now: none, or enough of them that a batch is worth its requests to the
        store. Each that is finished makes room for one, and taken on at once they would come in batches of one."""
        if self.held.size_bytes >= self._limits.max_in_flight_bytes:
            return 0
        room = self._limits.max_in_flight_records - self.held.records
        return room if room >= self._worth_it else 0

    def wait_for_room(self, timeout_s: float) -> None:
        """Returns when there is room, or after `timeout_s`; at the bound of bytes, when any record is finished."""
        full = self.held.size_bytes >= self._limits.max_in_flight_bytes
        self.held.wait_for_less(
            timeout_s, than=None if full else self._limits.max_in_flight_records - self._worth_it + 1
        )

    @property
    def due(self) -> bool:
        """The batch is full, or has waited long enough."""
        return len(self._pending) >= self._limits.batch_records or self.pending_s >= self._limits.batch_wait_s

    @property
    def pending_s(self) -> float:
        """How long the batch has been waiting to be filled."""
        return self._clock.monotonic() - self._pending_since if self._pending else 0.0

    def throttle(self, intake: Intake, room: int) -> None:
        """Pauses what may not be taken from now, and resumes the rest. Compared anew each turn: rebalances move it."""
        assigned = intake.assignment()
        wanted = assigned if room <= 0 else self._book.full() & assigned
        paused = intake.paused()
        if wanted - paused:
            intake.pause(wanted - paused)
        if (paused & assigned) - wanted:
            intake.resume((paused & assigned) - wanted)

    def hold(self, records: Sequence[RawRecord]) -> None:
        """Takes these on."""
        if records:
            if not self._pending:
                self._pending_since = self._clock.monotonic()
            self._pending += [TakenRecord(raw, self._book.start(raw.partition_key, raw.offset)) for raw in records]
            self.held.add(records=len(records), size_bytes=sum(raw.size_bytes for raw in records))

    def submit(self, worker: Worker, processor: BatchProcessor) -> None:
        """Hands what is pending to the worker."""
        pending, self._pending = self._pending, []
        # Of a partition that went away meanwhile nothing was begun: it is the next owner's.
        _release(self.held, [taken for taken in pending if taken.tracker.forgotten])
        records = [taken for taken in pending if not taken.tracker.forgotten]
        if records:
            batch = Batch(records, book=self._book, held=self.held)
            self._batches.add(worker.submit(_work(processor, records, batch)))

    def drop_pending(self) -> None:
        """Nothing was begun of these: they come again."""
        pending, self._pending = self._pending, []
        _release(self.held, pending)

    def collect(self) -> tuple[list[PipelineReport], list[BaseException]]:
        """What the batches that are done have reported, and what went wrong in others."""
        done = {batch for batch in self._batches if batch.done()}
        self._batches -= done
        failures = [error for batch in done if (error := batch.exception()) is not None]
        return [batch.result() for batch in done if batch.exception() is None], failures


async def _work(processor: BatchProcessor, records: Sequence[TakenRecord], batch: Batch) -> PipelineReport:
    try:
        return await processor.process(records, batch.finish)
    finally:
        batch.leave()


def _release(held: InFlight, records: Collection[TakenRecord]) -> None:
    if records:
        held.remove(records=len(records), size_bytes=sum(taken.raw.size_bytes for taken in records))
