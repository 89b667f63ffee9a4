"""Fills batches, hands them to the worker, and bounds what is in flight.

Back-pressure is nothing but polling no more. A record and its bytes are in flight from `poll` until the store has
everything about that record, whatever becomes of the rest of its batch.
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
    """Records that are processed together; each is finished by itself."""

    def __init__(self, records: Sequence[TakenRecord], *, book: OffsetBook, in_flight: InFlight) -> None:
        self._book = book
        self._in_flight = in_flight
        self._open = {id(taken): taken for taken in records}

    def finish(self, records: Iterable[TakenRecord]) -> None:
        """Marks the offsets of these records as finished: the store has everything about them."""
        done = [taken for taken in records if self._open.pop(id(taken), None) is not None]
        of_tracker: dict[OffsetTracker, list[int]] = {}
        for taken in done:
            of_tracker.setdefault(taken.tracker, []).append(taken.raw.offset)
        for tracker, offsets in of_tracker.items():
            self._book.finish(tracker, offsets)
        _release(self._in_flight, done)

    def abandon(self) -> None:
        """Gives up the unfinished records: their offsets are not committed, so they are delivered again."""
        left = list(self._open.values())
        self._open.clear()
        _release(self._in_flight, left)


class Batcher:
    """The batch being filled and the batches at the worker. Used by the intake thread."""

    def __init__(self, *, limits: PipelineLimits, book: OffsetBook, clock: Clock) -> None:
        self.in_flight = InFlight()
        self._limits = limits
        self._book = book
        self._clock = clock
        self._pending: list[TakenRecord] = []
        self._pending_since = 0.0
        self._batches: set[Future[PipelineReport]] = set()
        self._least_room = max(1, min(limits.batch_records, limits.max_in_flight_records // 2) // 2)

    @property
    def pending(self) -> int:
        """Number of records in the batch being filled."""
        return len(self._pending)

    @property
    def active(self) -> int:
        """Number of batches at the worker."""
        return len(self._batches)

    @property
    def room(self) -> int:
        """How many records may be polled now: 0, or enough to make a batch worth its requests to the store.

        Each finished record makes room for one; polled at once, they would come in batches of one.
        """
        if self.in_flight.size_bytes >= self._limits.max_in_flight_bytes:
            return 0
        room = self._limits.max_in_flight_records - self.in_flight.records
        return room if room >= self._least_room else 0

    def wait_for_room(self, timeout_s: float) -> None:
        """Returns when there is room, or after `timeout_s`; at the bound of bytes, when any record is finished."""
        full = self.in_flight.size_bytes >= self._limits.max_in_flight_bytes
        self.in_flight.wait_for_less(
            timeout_s, than=None if full else self._limits.max_in_flight_records - self._least_room + 1
        )

    @property
    def due(self) -> bool:
        """Whether the batch being filled is full, or has waited for `batch_wait_s`."""
        return len(self._pending) >= self._limits.batch_records or self.pending_s >= self._limits.batch_wait_s

    @property
    def pending_s(self) -> float:
        """Age in seconds of the batch being filled; 0 when it is empty."""
        return self._clock.monotonic() - self._pending_since if self._pending else 0.0

    def throttle(self, intake: Intake, room: int) -> None:
        """Pauses the partitions that may not be polled now, and resumes the others.

        Compared with the assignment at each call, because rebalances change it.
        """
        assigned = intake.assignment()
        wanted = assigned if room <= 0 else self._book.full() & assigned
        paused = intake.paused()
        if wanted - paused:
            intake.pause(wanted - paused)
        if (paused & assigned) - wanted:
            intake.resume((paused & assigned) - wanted)

    def add(self, records: Sequence[RawRecord]) -> None:
        """Puts polled records into the batch being filled; from now on they are in flight."""
        if records:
            if not self._pending:
                self._pending_since = self._clock.monotonic()
            self._pending += [TakenRecord(raw, self._book.start(raw.partition_key, raw.offset)) for raw in records]
            self.in_flight.add(records=len(records), size_bytes=sum(raw.size_bytes for raw in records))

    def submit(self, worker: Worker, processor: BatchProcessor) -> None:
        """Hands the pending batch to the worker."""
        pending, self._pending = self._pending, []
        # Records of a partition that was revoked meanwhile are not begun: its next owner processes them.
        _release(self.in_flight, [taken for taken in pending if taken.tracker.forgotten])
        records = [taken for taken in pending if not taken.tracker.forgotten]
        if records:
            batch = Batch(records, book=self._book, in_flight=self.in_flight)
            self._batches.add(worker.submit(_work(processor, records, batch)))

    def drop_pending(self) -> None:
        """Gives up the pending batch: nothing of it was processed or committed, so it is delivered again."""
        pending, self._pending = self._pending, []
        _release(self.in_flight, pending)

    def collect(self) -> tuple[list[PipelineReport], list[BaseException]]:
        """Takes the batches that are done: the reports of those that succeeded, and the errors of those that failed."""
        done = {batch for batch in self._batches if batch.done()}
        self._batches -= done
        failures = [error for batch in done if (error := batch.exception()) is not None]
        return [batch.result() for batch in done if batch.exception() is None], failures


async def _work(processor: BatchProcessor, records: Sequence[TakenRecord], batch: Batch) -> PipelineReport:
    try:
        return await processor.process(records, batch.finish)
    finally:
        batch.abandon()


def _release(in_flight: InFlight, records: Collection[TakenRecord]) -> None:
    if records:
        in_flight.remove(records=len(records), size_bytes=sum(taken.raw.size_bytes for taken in records))
