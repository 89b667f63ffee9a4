"""One thread between all requests and the queue: it writes what has gathered meanwhile as one batch, and says for each
record whether the queue has it.

A queue that is away answers nobody for seconds; whoever came meanwhile would wait in line for that. So after a failure
everybody is told at once to come again, until a probe finds the queue there.
"""

from __future__ import annotations

import logging
import random
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from tracejudge.clock import Clock
from tracejudge_consumer.gateway.metrics import GatewayMetrics
from tracejudge_consumer.retry_policy import RetryPolicy
from tracejudge_sdk.errors import TransportRejected, TransportUnavailable
from tracejudge_sdk.transports import Transport

_LOG = logging.getLogger(__name__)

_LOST_LIMIT: Final = 2
_LOST_FOR_S: Final = 60.0
_BATCH_RECORDS: Final = 1_000
_BATCH_BYTES: Final = 4_000_000


class Outcome(NamedTuple):
    """What became of a record: `durable`, `refused` by the queue for good, or `away`: to be sent again."""

    kind: Literal["durable", "refused", "away"]
    words: str = ""


class QueueAway(Exception):
    """The queue does not take records now; nothing was handed over."""

    def __init__(self, retry_after_s: float) -> None:
        super().__init__("the queue does not answer")
        self.retry_after_s = retry_after_s


@dataclass(frozen=True, slots=True)
class _Job:
    records: Sequence[tuple[str, bytes]]
    future: Future[list[Outcome]]

    @property
    def size_bytes(self) -> int:
        return sum(len(data) for _, data in self.records)


_DURABLE: Final = Outcome("durable")


class QueueWriter:
    """Used by any number of threads. `start` first, `close` last."""

    def __init__(
        self,
        make_transport: Callable[[], Transport],
        *,
        retry: RetryPolicy,
        clock: Clock,
        metrics: GatewayMetrics,
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        """`on_fatal` is called, on the writer's thread, with what no waiting can mend: settings that cannot work."""
        self._make_transport = make_transport
        self._retry = retry
        self._clock = clock
        self._metrics = metrics
        self._on_fatal = on_fatal
        self._jobs: deque[_Job] = deque()
        self._bell = threading.Condition()
        self._closing = False
        self._transport: Transport | None = None
        self._up = False
        self._trouble = "the queue was not asked yet"
        self._retry_at = 0.0
        self._failures = 0  # in a row, probes too
        self._lost = 0  # batches in a row that did not get through, whatever probes said between
        self._lost_at = 0.0
        self._draw = random.Random()  # noqa: S311 - spreads probes, protects nothing
        self._sending_since: float | None = None
        self._max_record_bytes = 0
        metrics.queue_up.set_function(lambda: float(self.trouble is None))
        self._thread = threading.Thread(target=self._run, name="tracejudge-gateway-writer", daemon=True)

    @property
    def max_record_bytes(self) -> int:
        """The largest record the queue takes."""
        return self._max_record_bytes

    @property
    def trouble(self) -> str | None:
        """Why records are not taken now; None while they are.

        A probe only connects: a topic that is not there, or may not be written to, lets it through and loses each
        batch. After two of these in a row a probe's word is not taken until some time has passed without another.
        """
        if self._up and self._lost >= _LOST_LIMIT and self._clock.monotonic() - self._lost_at < _LOST_FOR_S:
            return self._trouble
        return None if self._up else self._trouble

    def stuck_s(self) -> float:
        """How long the batch under way has been with the queue's client; 0 without one."""
        since = self._sending_since
        return 0.0 if since is None else self._clock.monotonic() - since

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def start(self) -> None:
        """Builds the transport and starts the thread. Raises ConfigError for settings that cannot work."""
        try:
            self._built()
        except TransportUnavailable as error:
            self._fail(str(error))
        self._thread.start()

    def submit(self, records: Sequence[tuple[str, bytes]]) -> Future[list[Outcome]]:
        """Hands records over; the future gives one outcome for each, in order. Raises QueueAway."""
        job = _Job(records, Future())
        with self._bell:
            if not self._up or self._closing:
                raise QueueAway(max(0.0, self._retry_at - self._clock.monotonic()))
            self._jobs.append(job)
            self._bell.notify()
        return job.future

    def close(self, timeout_s: float) -> None:
        """Writes what waits, for at most `timeout_s`, and lets go of the queue."""
        with self._bell:
            self._closing = True
            self._bell.notify()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        transport = self._transport
        if transport is not None:
            transport.close(1.0)

    # The thread.

    def _run(self) -> None:
        try:
            while True:
                jobs = self._gather()
                if jobs is None:
                    return
                self._sending_since = self._clock.monotonic()
                try:
                    if jobs:
                        self._write(jobs)
                    else:
                        self._probe()
                finally:
                    self._sending_since = None
        except BaseException as error:  # noqa: BLE001 - it is raised again where the gateway is waited for
            # Nothing comes after this thread: who waits must hear of it, and so must the process.
            self._up, self._trouble = False, f"the writer ended: {type(error).__name__}"
            self._on_fatal(error)
        finally:
            self._abandon()

    def _gather(self) -> list[_Job] | None:
        """The jobs of one batch; none when it is time to probe; None at the end."""
        with self._bell:
            while not self._jobs:
                if self._closing:
                    return None
                wait_s = None if self._up else self._retry_at - self._clock.monotonic()
                if wait_s is not None and wait_s <= 0:
                    return []
                self._bell.wait(wait_s)
            jobs: list[_Job] = []
            records = size = 0
            # A job is never parted: it is one request, whose size is limited.
            while self._jobs and (
                not jobs
                or (
                    (records + len(self._jobs[0].records) <= _BATCH_RECORDS)
                    and size + self._jobs[0].size_bytes <= _BATCH_BYTES
                )
            ):
                job = self._jobs.popleft()
                jobs.append(job)
                records += len(job.records)
                size += job.size_bytes
            return jobs

    def _write(self, jobs: list[_Job]) -> None:
        batch = [record for job in jobs for record in job.records]
        try:
            outcomes = self._send(batch)
        except BaseException:  # it ends this thread, but not the wait of those who asked
            self._answer(jobs, [Outcome("away")] * len(batch))
            raise
        self._answer(jobs, outcomes)

    @staticmethod
    def _answer(jobs: list[_Job], outcomes: list[Outcome]) -> None:
        start = 0
        for job in jobs:
            # Not set twice: a request that gave up has cancelled its future.
            if job.future.set_running_or_notify_cancel():
                job.future.set_result(outcomes[start : start + len(job.records)])
            start += len(job.records)

    def _send(self, batch: list[tuple[str, bytes]]) -> list[Outcome]:
        try:
            with self._metrics.send.time():
                self._built().send(batch)
        except TransportRejected as error:
            if error.failed is None and len(batch) > 1:
                # Which of them it was shows one by one, for as long as the queue answers.
                return [one for record in batch for one in (self._send([record]) if self._up else [Outcome("away")])]
            refused = set(range(len(batch))) if error.failed is None else set(error.failed)
            return [Outcome("refused", str(error)) if i in refused else _DURABLE for i in range(len(batch))]
        except TransportUnavailable as error:
            failed = set(range(len(batch))) if error.failed is None else set(error.failed)
            self._lost, self._lost_at = self._lost + 1, self._clock.monotonic()
            self._fail(str(error))
            return [Outcome("away") if i in failed else _DURABLE for i in range(len(batch))]
        self._lost = 0
        self._recovered()
        return [_DURABLE] * len(batch)

    def _probe(self) -> None:
        try:
            # Of nothing; it connects where the transport has not done so yet, and after a failure it is a new one.
            self._built().send([])
        except TransportUnavailable as error:
            self._fail(str(error))
        else:
            self._recovered()

    def _built(self) -> Transport:
        if self._transport is None:
            self._transport = self._make_transport()
            self._max_record_bytes = self._transport.max_record_bytes
        return self._transport

    def _recovered(self) -> None:
        if not self._up:
            _LOG.info("the queue accepts records")
            self._up, self._failures = True, 0

    def _fail(self, words: str) -> None:
        if not self._failures:
            _LOG.warning("the queue does not take records; clients are told to come again: %s", words)
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.close(1.0)
        with self._bell:
            self._up, self._trouble = False, words
            self._failures += 1
            self._retry_at = self._clock.monotonic() + self._retry.delay_s(self._failures, self._draw.random())
        self._abandon()

    def _abandon(self) -> None:
        """Answers every waiting request with "send again later": trying each in turn would delay them all."""
        with self._bell:
            jobs, self._jobs = list(self._jobs), deque()
        for job in jobs:
            if job.future.set_running_or_notify_cancel():
                job.future.set_result([Outcome("away")] * len(job.records))
