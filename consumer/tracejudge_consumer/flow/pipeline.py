"""The consumer's main loop: polls records, has batches processed, and commits an offset once the store has its record.

The thread that calls `run` is the intake thread: it polls, pauses, hands batches to the worker's loop and commits. It
never waits for a judge or the store. When too much is in flight it goes on polling with every partition paused, so that
a slow judge or store does not cost the consumer its group membership.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from tracejudge.clock import Clock, SystemClock
from tracejudge.sampling import SamplingPolicy
from tracejudge_consumer.background.build import MakeUpkeep
from tracejudge_consumer.background.run import BackgroundRun
from tracejudge_consumer.dead_letter import DeadLetterGuard, DeadLetterLimit
from tracejudge_consumer.flow.batcher import Batcher
from tracejudge_consumer.flow.commits import Commits
from tracejudge_consumer.flow.reading import ReadingWatch
from tracejudge_consumer.intake import Intake, PartitionKey
from tracejudge_consumer.intake.form import RecordForm
from tracejudge_consumer.limits import PipelineLimits
from tracejudge_consumer.offsets import OffsetBook
from tracejudge_consumer.process.worker import Worker
from tracejudge_consumer.report import Ending, PipelineReport
from tracejudge_consumer.stages.build import StageContext, build_stages
from tracejudge_consumer.stages.checkpoints import Checkpoint
from tracejudge_consumer.stages.needs import Judges, PipelineStore
from tracejudge_consumer.stages.process import BatchProcessor
from tracejudge_consumer.watching.health import Health
from tracejudge_consumer.watching.metrics import Metrics

_LOG = logging.getLogger(__name__)

_EMPTY_POLLS_WITHOUT_LAG = 5  # so many empty polls count as the queue's end where it does not tell its lag
_PAUSED_TURN_S = 0.05  # between two polls while there is no room


def _ignore(_: object) -> None:
    """The default callback."""


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
        checkpoint: Checkpoint = _ignore,
        progress: Callable[[PipelineReport], None] = _ignore,
        upkeep: MakeUpkeep | None = None,
        form: RecordForm | None = None,
        read_before: Sequence[tuple[int, int]] = (),
    ) -> None:
        """`progress` is called with the report so far after each batch, on the intake thread; `upkeep` makes the
        background work of the run; `form` says how records are decoded; `read_before` is handed to
        DeadLetterGuard.remember."""
        self._intake = intake
        self._store = store
        self._panel = panel
        self._policy = policy
        self._clock = clock or SystemClock()
        self._limits = limits or PipelineLimits()
        self._guard = DeadLetterGuard(dead_letter_limit or DeadLetterLimit())
        self._guard.remember(read_before)
        self._metrics = metrics or Metrics()
        self._health = health or Health(self._clock)
        self._checkpoint = checkpoint
        self._progress = progress
        self._form = form or RecordForm()

        self._book = OffsetBook(max_gap=self._limits.max_offset_gap)
        self._batcher = Batcher(limits=self._limits, book=self._book, clock=self._clock)
        self._commits = Commits(
            intake=intake,
            book=self._book,
            interval_s=self._limits.commit_interval_s,
            clock=self._clock,
            metrics=self._metrics,
            checkpoint=checkpoint,
        )
        self._reading = ReadingWatch(
            clock=self._clock,
            metrics=self._metrics,
            health=self._health,
            stall_after_s=self._limits.stall_after_s,
        )
        self._report = PipelineReport()
        self._make_upkeep = upkeep
        self._background_reports: deque[PipelineReport] = deque()  # filled by the worker's thread
        self._asked_lag_at = 0.0
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
        """Ends `run`: no more polling; batches in flight are finished within `drain_timeout_s`, or given up at once
        when `drain` is False. What is given up is not committed and is delivered again.
        """
        self._stop.set()
        if not drain:
            self._at_once.set()
        self._batcher.in_flight.wake()

    def run(self, *, until_idle: bool = False, stop: threading.Event | None = None) -> PipelineReport:
        """Runs until `stop` is set or `stop()` is called; with `until_idle`, until the queue is read to its end.

        Closes the intake and the panel's connections at its end. Commits what was finished, then raises what ended it:
        TooManyDeadLetters, StoreError, or a fault of this program.
        """
        worker = Worker(threads=self._limits.store_threads)
        stages = build_stages(self._stage_context(worker))
        processor = stages.processor
        ended: Ending = "stopped" if self._told_to_stop(stop) else ""
        upkeep = None
        if self._make_upkeep is not None and not ended:
            upkeep = BackgroundRun(self._make_upkeep(stages, self._background_reports.append), worker)
        self._intake.listen(self)
        self._unassigned_since = self._clock.monotonic()
        try:
            while not ended:
                self._turn(worker, processor)
                if upkeep is not None:
                    upkeep.check()
                if self._told_to_stop(stop):
                    ended = "stopped"
                elif until_idle:
                    ended = self._ended_by_idling(worker, processor)
                    if ended == "idle" and upkeep is not None and not upkeep.last_round_done():
                        ended = ""
        finally:
            try:
                stages.judging.stop_asking()
                if upkeep is not None:
                    upkeep.end()
                self._drain()
            finally:
                self._close(worker)
        self._report = replace(self._report, ended=ended, commits=self._commits.accepted)
        return self._report

    def _told_to_stop(self, stop: threading.Event | None) -> bool:
        return self._stop.is_set() or (stop is not None and stop.is_set())

    def _stage_context(self, worker: Worker) -> StageContext:
        return StageContext(
            store=self._store,
            judges=self._panel,
            policy=self._policy,
            guard=self._guard,
            limits=self._limits,
            clock=self._clock,
            health=self._health,
            metrics=self._metrics,
            checkpoint=self._checkpoint,
            form=self._form,
            pool=worker.pool,
        )

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
        # Read once a turn: the worker makes room at any moment, and pausing and polling must agree about it.
        room = self._batcher.room
        self._batcher.throttle(self._intake, room)
        self._poll(worker, processor, room)
        self._commits.commit_when_due()
        self._report_state()

    def _poll(self, worker: Worker, processor: BatchProcessor, room: int) -> None:
        limits, batcher = self._limits, self._batcher
        if room <= 0:
            batcher.submit(worker, processor)
            # Keeps the membership. Everything is paused, but a partition assigned this moment may give a record.
            batcher.add(self._intake.poll(timeout_s=0.0, max_records=1))
            batcher.wait_for_room(_PAUSED_TURN_S)
            return
        timeout_s = limits.poll_s
        if batcher.pending:
            timeout_s = min(timeout_s, max(0.0, limits.batch_wait_s - batcher.pending_s))
        wanted = min(room, limits.batch_records - batcher.pending)
        records = self._intake.poll(timeout_s=timeout_s, max_records=wanted)
        self._empty_polls = 0 if records else self._empty_polls + 1
        self._reading.read(records)
        batcher.add(records)
        if batcher.due:
            batcher.submit(worker, processor)

    def _collect(self) -> None:
        """Adds up the reports of finished batches and of background work. Raises the error of a batch that failed."""
        reports, failures = self._batcher.collect()
        while self._background_reports:
            reports.append(self._background_reports.popleft())
        for report in reports:
            self._report += report
            self._progress(replace(self._report, commits=self._commits.accepted))
        if failures:
            raise failures[0]

    def _report_state(self) -> None:
        """Updates health and metrics; asks the queue for its lag every `lag_interval_s`."""
        now = self._clock.monotonic()
        in_flight = self._batcher.in_flight
        partitions = len(self._intake.assignment())
        if partitions:
            self._unassigned_since = now
        self._health.turned(partitions=partitions)
        metrics = self._metrics
        metrics.partitions.set(partitions)
        metrics.in_flight_records.set(in_flight.records)
        metrics.in_flight_bytes.set(in_flight.size_bytes)
        metrics.offset_gap.set(self._book.gap)
        metrics.commit_age.set(self._commits.age_s)
        if now - self._asked_lag_at >= self._limits.lag_interval_s:
            self._asked_lag_at = now
            self._reading.look(
                self._intake.lag(),
                paused=self._intake.paused(),
                in_flight=in_flight.records,
                finished=in_flight.removed,
            )

    def _ended_by_idling(self, worker: Worker, processor: BatchProcessor) -> Ending:
        """Why a run with `until_idle` ends now; "" while there is more to do."""
        if self._empty_polls and self._batcher.pending:
            self._batcher.submit(worker, processor)  # no record follows to fill it with
        if not self._intake.assignment():
            waited_s = self._clock.monotonic() - self._unassigned_since
            return "unassigned" if waited_s >= self._limits.unassigned_patience_s else ""
        if not self._empty_polls or self._batcher.in_flight.records or self._batcher.active:
            return ""
        lag = self._intake.lag()
        if any(lag.values()):
            return ""
        known = None not in lag.values()
        return "idle" if known or self._empty_polls >= _EMPTY_POLLS_WITHOUT_LAG else ""

    # The end.

    def _drain(self) -> None:
        """Waits up to `drain_timeout_s` for the batches in flight, and commits what is finished.

        It goes on polling, which keeps the partitions: no other consumer begins the same work meanwhile.
        """
        in_flight = self._batcher.in_flight
        self._batcher.drop_pending()
        deadline = self._clock.monotonic() + self._limits.drain_timeout_s
        failure: BaseException | None = None
        while self._batcher.active and not self._is_over(deadline):
            self._idle_poll(timeout_s=0.0)
            in_flight.wait_for_less(_PAUSED_TURN_S)
            try:
                self._collect()
            except Exception as error:  # noqa: BLE001 - the other batches are finished before it is raised
                failure = failure or error
            self._commits.commit_when_due()
        if in_flight.records:
            _LOG.warning("%d records in flight stay uncommitted and will be redelivered", in_flight.records)
        # During a rebalance commits fail until polling has completed it.
        while not self._commits.commit() and not self._is_over(deadline):
            self._idle_poll(timeout_s=_PAUSED_TURN_S)
        self._report_state()
        if failure is not None:
            raise failure

    def _is_over(self, deadline: float) -> bool:
        return self._at_once.is_set() or self._clock.monotonic() >= deadline

    def _idle_poll(self, *, timeout_s: float) -> None:
        """Polls to keep the membership, with everything paused."""
        self._intake.pause(self._intake.assignment())
        for raw in self._intake.poll(timeout_s=timeout_s, max_records=1):
            # From a partition assigned this moment. The record is dropped, so nothing of it may be committed.
            self._book.forget([raw.partition_key])

    def _close(self, worker: Worker) -> None:
        try:
            worker.submit(self._panel.close()).result(timeout=self._limits.drain_timeout_s)
        finally:
            worker.close()
            self._intake.close()
            self._health.ended()
