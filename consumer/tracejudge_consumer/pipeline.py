"""From records to stored scores: takes records on, and commits an offset only after the store accepted its work.

The thread that calls `run` is the intake thread: it polls, pauses, hands batches to the worker's loop and commits. It
never waits for a judge or the store; when there is too much in flight it takes no more, and polls on with every
partition paused, so that slowness anywhere costs no membership.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace

from tracejudge.clock import Clock, SystemClock
from tracejudge.sampling import SamplingPolicy
from tracejudge_consumer.dead_letter import DeadLetterGuard, DeadLetterLimit
from tracejudge_consumer.health import Health
from tracejudge_consumer.in_flight import InFlight
from tracejudge_consumer.intake import Intake, PartitionKey, RawRecord
from tracejudge_consumer.limits import PipelineLimits
from tracejudge_consumer.metrics import Metrics
from tracejudge_consumer.offsets import OffsetBook
from tracejudge_consumer.report import Ending, PipelineReport
from tracejudge_consumer.stages.needs import Judges, PipelineStore
from tracejudge_consumer.stages.process import BatchProcessor, Checkpoint
from tracejudge_consumer.stages.read import TakenRecord
from tracejudge_consumer.stages.store_calls import StoreCalls
from tracejudge_consumer.worker import Worker

_LOG = logging.getLogger(__name__)

_EMPTY_POLLS_WITHOUT_LAG = 5  # where the queue does not say how far it reaches, this many empty polls are its end
_PAUSED_TURN_S = 0.05  # between two polls while there is no room


def _nothing(_: object) -> None:
    """What is called where nobody listens."""


class Pipeline:
    """One run of the consumer on one intake. `stop` may be called from any thread and from a signal handler."""

    def __init__(
        self,
        *,
        intake: Intake,
        store: PipelineStore,
        panel: Judges,
        policy: SamplingPolicy,
        clock: Clock | None = None,
        limits: PipelineLimits | None = None,
        dead_letter_limit: DeadLetterLimit | None = None,
        metrics: Metrics | None = None,
        health: Health | None = None,
        checkpoint: Checkpoint = _nothing,
        progress: Callable[[PipelineReport], None] = _nothing,
    ) -> None:
        """`progress` is called with the report so far after each batch, on the intake thread."""
        self._intake = intake
        self._store = store
        self._panel = panel
        self._policy = policy
        self._clock = clock or SystemClock()
        self._limits = limits or PipelineLimits()
        self._guard = DeadLetterGuard(dead_letter_limit or DeadLetterLimit())
        self._metrics = metrics or Metrics()
        self._health = health or Health(self._clock)
        self._checkpoint = checkpoint
        self._progress = progress

        self._book = OffsetBook(max_gap=self._limits.max_offset_gap)
        self._held = InFlight()
        self._batches: set[Future[PipelineReport]] = set()
        self._pending: list[TakenRecord] = []
        self._pending_since = 0.0
        self._report = PipelineReport()
        self._committed_at = self._asked_lag_at = 0.0
        self._refused = 0
        self._empty_polls = 0
        self._unassigned_since = 0.0
        self._stop = threading.Event()
        self._at_once = threading.Event()

    @property
    def health(self) -> Health:
        return self._health

    @property
    def metrics(self) -> Metrics:
        return self._metrics

    def stop(self, *, drain: bool = True) -> None:
        """Takes nothing more on; finishes what is in flight within `drain_timeout_s`, or leaves it (`drain` False).

        What is left is not committed and comes again.
        """
        self._stop.set()
        if not drain:
            self._at_once.set()
        self._held.wake()

    def run(self, *, until_idle: bool = False, stop: threading.Event | None = None) -> PipelineReport:
        """Works until `stop` is set or `stop()` is called; with `until_idle`, until the queue is read to its end.

        Closes the intake and the panel's connections. Raises TooManyDeadLetters, StoreError and whatever says that
        something here is wrong, after committing what was finished.
        """
        worker = Worker(threads=self._limits.store_threads)
        processor = BatchProcessor(
            store=self._store,
            judges=self._panel,
            policy=self._policy,
            guard=self._guard,
            calls=StoreCalls(worker.pool, retry=self._limits.store_retry, health=self._health, metrics=self._metrics),
            pool=worker.pool,
            clock=self._clock,
            health=self._health,
            metrics=self._metrics,
            checkpoint=self._checkpoint,
        )
        self._intake.listen(self)
        self._committed_at = self._unassigned_since = self._clock.monotonic()
        ended: Ending = ""
        try:
            while not ended:
                self._turn(worker, processor)
                if self._stop.is_set() or (stop is not None and stop.is_set()):
                    ended = "stopped"
                elif until_idle:
                    ended = self._idle(worker, processor)
        finally:
            try:
                self._drain()
            finally:
                self._close(worker)
        self._report = replace(self._report, ended=ended)
        return self._report

    # PartitionListener: called while the intake thread is inside poll or close, on the queue client's own thread.

    def revoked(self, partitions: Collection[PartitionKey]) -> Mapping[PartitionKey, int]:
        offsets = self._book.committable(partitions)
        self._book.forget(partitions)
        return offsets

    def lost(self, partitions: Collection[PartitionKey]) -> None:
        self._book.forget(partitions)

    # One turn of the intake thread.

    def _turn(self, worker: Worker, processor: BatchProcessor) -> None:
        self._collect()
        # Seen once a turn: the worker only ever makes room, and pausing and polling must agree about it.
        room = self._room()
        self._throttle(room)
        self._take(worker, processor, room)
        self._commit(only_when_due=True)
        self._look()

    def _throttle(self, room: int) -> None:
        """Pauses what may not be taken from now, and resumes the rest. Compared anew each turn: rebalances move it."""
        assigned = self._intake.assignment()
        wanted = assigned if room <= 0 else self._book.full() & assigned
        paused = self._intake.paused()
        if wanted - paused:
            self._intake.pause(wanted - paused)
        if (paused & assigned) - wanted:
            self._intake.resume((paused & assigned) - wanted)

    def _room(self) -> int:
        if self._held.size_bytes >= self._limits.max_in_flight_bytes:
            return 0
        return self._limits.max_in_flight_records - self._held.records

    def _take(self, worker: Worker, processor: BatchProcessor, room: int) -> None:
        limits = self._limits
        if room <= 0:
            self._submit(worker, processor)
            # Keeps the membership. Everything is paused; but what a partition assigned this moment gives is ours too.
            self._hold(self._intake.poll(timeout_s=0.0, max_records=1))
            self._held.wait_for_less(_PAUSED_TURN_S)
            return
        timeout_s = limits.poll_s
        if self._pending:
            timeout_s = min(timeout_s, max(0.0, limits.batch_wait_s - self._pending_s()))
        wanted = min(room, limits.batch_records - len(self._pending))
        records = self._intake.poll(timeout_s=timeout_s, max_records=wanted)
        self._empty_polls = 0 if records else self._empty_polls + 1
        self._hold(records)
        if len(self._pending) >= limits.batch_records or self._pending_s() >= limits.batch_wait_s:
            self._submit(worker, processor)

    def _pending_s(self) -> float:
        """How long the batch has been waiting to be filled."""
        return self._clock.monotonic() - self._pending_since if self._pending else 0.0

    def _hold(self, records: Sequence[RawRecord]) -> None:
        if records:
            if not self._pending:
                self._pending_since = self._clock.monotonic()
            self._pending += [TakenRecord(raw, self._book.start(raw.partition_key, raw.offset)) for raw in records]
            self._held.add(records=len(records), size_bytes=sum(raw.size_bytes for raw in records))

    def _submit(self, worker: Worker, processor: BatchProcessor) -> None:
        pending, self._pending = self._pending, []
        # Of a partition that went away meanwhile nothing was begun: it is the next owner's.
        batch = [taken for taken in pending if not taken.tracker.forgotten]
        self._release([taken for taken in pending if taken.tracker.forgotten])
        if batch:
            self._batches.add(worker.submit(self._work(processor, batch)))

    async def _work(self, processor: BatchProcessor, batch: list[TakenRecord]) -> PipelineReport:
        try:
            report = await processor.process(batch)
            for taken in batch:
                self._book.finish(taken.tracker, [taken.raw.offset])
        finally:
            self._release(batch)
        return report

    def _release(self, records: Collection[TakenRecord]) -> None:
        if records:
            size_bytes = sum(taken.raw.size_bytes for taken in records)
            self._held.remove(records=len(records), size_bytes=size_bytes)

    def _collect(self) -> None:
        """Adds up the batches that are done. Raises what one of them raised."""
        done = {batch for batch in self._batches if batch.done()}
        self._batches -= done
        failures = [error for batch in done if (error := batch.exception()) is not None]
        for batch in done:
            if batch.exception() is None:
                self._report += batch.result()
                self._progress(self._report)
        if failures:
            raise failures[0]

    def _commit(self, *, only_when_due: bool) -> bool:
        """Commits what is finished. False when it should be tried again: the queue did not take it just now."""
        now = self._clock.monotonic()
        if only_when_due and now - self._committed_at < self._limits.commit_interval_s:
            return True
        self._book.advance(self._intake.positions())
        offsets = self._book.committable()
        if not offsets:
            self._committed_at = now
            return True
        accepted = self._intake.commit(offsets)
        if accepted:
            self._book.committed(offsets)
            self._report += PipelineReport(commits=1)
            self._committed_at = now
        refused = self._intake.refused_commits - self._refused
        self._refused += refused
        self._metrics.commits.labels("accepted" if accepted else "refused" if refused else "failed").inc()
        if accepted:
            self._checkpoint("committed")
        return accepted or refused > 0

    def _look(self) -> None:
        now = self._clock.monotonic()
        partitions = len(self._intake.assignment())
        if partitions:
            self._unassigned_since = now
        self._health.turned(partitions=partitions)
        metrics = self._metrics
        metrics.partitions.set(partitions)
        metrics.in_flight_records.set(self._held.records)
        metrics.in_flight_bytes.set(self._held.size_bytes)
        metrics.offset_gap.set(self._book.gap)
        metrics.commit_age.set(now - self._committed_at)
        if now - self._asked_lag_at >= self._limits.lag_interval_s:
            self._asked_lag_at = now
            metrics.set_lag(self._intake.lag())

    def _idle(self, worker: Worker, processor: BatchProcessor) -> Ending:
        if self._empty_polls and self._pending:
            self._submit(worker, processor)  # nothing follows that it could be filled with
        if not self._intake.assignment():
            waited_s = self._clock.monotonic() - self._unassigned_since
            return "unassigned" if waited_s >= self._limits.unassigned_patience_s else ""
        if not self._empty_polls or self._held.records or self._batches:
            return ""
        lag = self._intake.lag()
        if any(lag.values()):
            return ""
        known = None not in lag.values()
        return "idle" if known or self._empty_polls >= _EMPTY_POLLS_WITHOUT_LAG else ""

    # The end.

    def _drain(self) -> None:
        """Finishes what is in flight, for a while, and commits what is finished. Polls on: nobody else takes over."""
        self._release(self._pending)
        self._pending = []
        deadline = self._clock.monotonic() + self._limits.drain_timeout_s
        failure: BaseException | None = None
        while self._batches and not self._is_over(deadline):
            self._idle_poll(timeout_s=0.0)
            self._held.wait_for_less(_PAUSED_TURN_S)
            try:
                self._collect()
            except Exception as error:  # noqa: BLE001 - the other batches are finished before it is raised
                failure = failure or error
            self._commit(only_when_due=True)
        if self._batches:
            _LOG.warning("%d records in flight are left uncommitted and come again", self._held.records)
        # A rebalance at this moment refuses commits until polling has ended it.
        while not self._commit(only_when_due=False) and not self._is_over(deadline):
            self._idle_poll(timeout_s=_PAUSED_TURN_S)
        self._look()
        if failure is not None:
            raise failure

    def _is_over(self, deadline: float) -> bool:
        return self._at_once.is_set() or self._clock.monotonic() >= deadline

    def _idle_poll(self, *, timeout_s: float) -> None:
        """Keeps the membership and takes nothing on."""
        self._intake.pause(self._intake.assignment())
        for raw in self._intake.poll(timeout_s=timeout_s, max_records=1):
            # Of a partition assigned this moment: not taken on, so nothing of it may be committed.
            self._book.forget([raw.partition_key])

    def _close(self, worker: Worker) -> None:
        try:
            worker.submit(self._panel.close()).result(timeout=self._limits.drain_timeout_s)
        finally:
            worker.close()
            self._intake.close()
            self._health.ended()
