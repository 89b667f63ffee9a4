"""The sending thread: takes batches out of the outbox, encodes them, hands them to the transport, tries again.

It is started by the first trace and not by the client, so that a server which forks its workers forks no thread. A
batch that the queue did not take is sent again after a growing pause, for as long as the process lives; a record that
the queue will never take is found, dropped and counted, and its neighbours go on.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from tracejudge_sdk.errors import (
    RecordError,
    RecordTooLarge,
    TraceJudgeSdkError,
    TransportError,
    TransportRejected,
)
from tracejudge_sdk.ids import stock_up
from tracejudge_sdk.outbox import Outbox, Waiting
from tracejudge_sdk.steps import HookFailed
from tracejudge_sdk.transports import Transport

logger = logging.getLogger("tracejudge_sdk")

_IDLE_ROUNDS: Final = 20  # empty looks before it sleeps for good: a busy service then never has to wake it
_SLEEP_S: Final = 60.0
_UNEXPECTED_LIMIT: Final = 3


class Encoded(NamedTuple):
    """What goes to the transport, and what was done to the record to get there."""

    key: str
    data: bytes
    truncated: bool
    lossy: bool


@dataclass(frozen=True)
class SendPolicy:
    """How the sending thread behaves."""

    batch_records: int = 500
    batch_bytes: int = 4_000_000
    linger_s: float = 0.1
    """How long it lets traces gather before it looks again."""
    first_pause_s: float = 0.2
    longest_pause_s: float = 5.0
    """Pauses between tries double from the first to the longest, each cut by a random part of up to a half."""
    report_interval_s: float = 60.0
    """At most one warning in the log in this time."""


class Sender:
    """One thread for one outbox. `encode(item, max_bytes)` raises RecordError for what cannot be a record."""

    def __init__(
        self,
        outbox: Outbox,
        *,
        encode: Callable[[Any, int], Encoded],
        transport: Callable[[], Transport],
        policy: SendPolicy,
    ) -> None:
        self._outbox = outbox
        self._encode = encode
        self._make_transport = transport
        self._policy = policy
        self._start_lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._transport: Transport | None = None
        self.alive = False
        """Whether the thread runs."""
        self._next_report = time.monotonic()
        self._reported = 0

    def start(self) -> None:
        """Starts the thread unless it runs. Raises RuntimeError when the system gives no thread."""
        # A try only: whoever holds the lock is starting it, and a signal handler must not wait for itself.
        if self.alive or not self._start_lock.acquire(blocking=False):
            return
        try:
            if not self.alive:
                # Daemon, because it must not keep a process alive that has nothing else to do; close() drains it.
                thread = threading.Thread(target=self._run, name="tracejudge-sdk", daemon=True)
                self.alive = True
                try:
                    thread.start()
                except BaseException:  # a signal's exception too: no thread runs, and the next trace must try again
                    self.alive = False
                    raise
                self._thread = thread
        finally:
            self._start_lock.release()

    def join(self, timeout_s: float) -> None:
        """Waits for the thread to end after the outbox refuses or abandoned everything."""
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(max(0.0, timeout_s))

    def close_transport(self, timeout_s: float) -> None:
        """Closes the transport; from another thread this also ends a send under way."""
        transport = self._transport
        if transport is not None:
            try:
                transport.close(timeout_s)
            except Exception as error:  # noqa: BLE001 - at the end there is nobody left who could do better
                logger.debug("tracejudge: closing the transport failed: %s", type(error).__name__)

    def forget_transport(self) -> Transport | None:
        """Lets go of the transport without closing it, for a forked child: the sockets are the parent's too."""
        transport, self._transport = self._transport, None
        return transport

    # -- the thread ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._loop()
        finally:
            self.alive = False
            self._outbox.unattended()

    def _loop(self) -> None:
        outbox, policy = self._outbox, self._policy
        empty_rounds = 0
        while not outbox.abandoned:
            stock_up()
            batch = outbox.take(max_records=policy.batch_records, max_bytes=policy.batch_bytes)
            if batch:
                empty_rounds = 0
                self._deliver(batch)
                self._report()
                if not outbox.urgent and not outbox.refusing:
                    outbox.wait(policy.linger_s)
            elif outbox.refusing:
                return
            else:
                empty_rounds += 1
                self._report()
                if empty_rounds < _IDLE_ROUNDS:
                    outbox.wait(policy.linger_s)
                else:
                    outbox.sleep(_SLEEP_S)

    def _deliver(self, batch: list[Waiting]) -> None:
        """Returns when each of the batch is settled or all was abandoned."""
        ready: list[tuple[Waiting, Encoded]] | None = None
        alone = False  # send one record at a time, to find which of them is the trouble
        pause_s, unexpected = self._policy.first_pause_s, 0
        while not self._outbox.abandoned:
            failure: BaseException
            try:
                if self._transport is None:
                    self._transport = self._make_transport()
                if ready is None:
                    ready = self._encode_all(batch, self._transport.max_record_bytes)
                while ready:
                    now = ready[:1] if alone else ready
                    self._transport.send([(encoded.key, encoded.data) for _, encoded in now])
                    self._sent(now)
                    ready = ready[len(now) :]
                return
            except Exception as error:  # noqa: BLE001 - nothing may end this thread; TransportUnavailable is one of many
                failure = error
            self._outbox.fail(_words(failure))
            if ready and isinstance(failure, TransportRejected):
                if failure.failed is None and not alone and len(ready) > 1:
                    alone = True
                else:
                    ready = self._after_rejection(ready, failure.failed, alone=alone)
                continue
            if ready and isinstance(failure, TransportError) and failure.failed is not None and not alone:
                ready = self._only_failed(ready, failure.failed)
            elif ready and not isinstance(failure, (TraceJudgeSdkError, OSError)):
                # Not a failure of the other side as we know them: perhaps a record that breaks the library behind it.
                unexpected += 1
                if unexpected % _UNEXPECTED_LIMIT == 0:
                    if alone or len(ready) == 1:
                        self._outbox.settle([ready[0][0]], "internal_error")
                        ready = ready[1:]
                    alone = True
                    continue
            self._report(failing=True)
            self._outbox.pause(pause_s * (1.0 - random.random() / 2))  # noqa: S311 - spreads retries, hides nothing
            pause_s = min(pause_s * 2, self._policy.longest_pause_s)

    def _encode_all(self, batch: Sequence[Waiting], max_bytes: int) -> list[tuple[Waiting, Encoded]]:
        ready: list[tuple[Waiting, Encoded]] = []
        for item in batch:
            try:
                encoded = self._encode(item, max_bytes)
            except RecordTooLarge as error:
                self._outbox.fail(f"a record of {error.size_bytes} bytes cannot be cut below {error.limit_bytes} bytes")
                self._outbox.settle([item], "too_large")
            except RecordError as error:
                # The field's name only: the message holds the value, which may be somebody's text.
                self._outbox.fail(f"a record breaks the wire contract: {error.reason}, field {error.field}")
                self._outbox.settle([item], "invalid")
            except HookFailed as error:
                self._outbox.fail(str(error))
                self._outbox.settle([item], "hook_failed")
            except Exception as error:  # noqa: BLE001 - one odd trace must not stop those behind it
                self._outbox.fail(f"a record could not be encoded: {type(error).__name__}")
                self._outbox.settle([item], "internal_error")
            else:
                ready.append((item, encoded))
        return ready

    def _after_rejection(
        self, ready: list[tuple[Waiting, Encoded]], failed: Sequence[int] | None, *, alone: bool
    ) -> list[tuple[Waiting, Encoded]]:
        tried = 1 if alone else len(ready)
        refused = set(range(tried)) if failed is None else set(failed)
        self._outbox.settle([ready[i][0] for i in range(tried) if i in refused], "transport_rejected")
        self._sent([ready[i] for i in range(tried) if i not in refused])
        return ready[tried:]

    def _only_failed(
        self, ready: list[tuple[Waiting, Encoded]], failed: Sequence[int]
    ) -> list[tuple[Waiting, Encoded]]:
        left = set(failed)
        arrived = [pair for position, pair in enumerate(ready) if position not in left]
        self._sent(arrived)
        return [pair for position, pair in enumerate(ready) if position in left]

    def _sent(self, pairs: Sequence[tuple[Waiting, Encoded]]) -> None:
        for _, encoded in pairs:
            if encoded.truncated or encoded.lossy:
                self._outbox.mark(truncated=encoded.truncated, lossy=encoded.lossy)
        self._outbox.settle([item for item, _ in pairs])

    def _report(self, *, failing: bool = False) -> None:
        now = time.monotonic()
        if now < self._next_report:
            return
        stats = self._outbox.stats()
        if stats.dropped_total == self._reported and not failing:
            return
        self._next_report = now + self._policy.report_interval_s
        logger.warning(
            "tracejudge: %d traces dropped so far (%s), %d queued; last error: %s",
            stats.dropped_total,
            ", ".join(f"{reason} {count}" for reason, count in sorted(stats.dropped.items())) or "none",
            stats.queued,
            stats.last_error,
        )
        self._reported = stats.dropped_total


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:500]
