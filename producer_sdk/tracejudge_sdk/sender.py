"""The sending thread: takes batches out of the outbox, encodes them, and hands them to the transport or to the spool.

It is started by the first trace and not by the client, so that a server which forks its workers forks no thread. Where
there is a spool, everything goes there first and another thread empties it (`drainer`); when the spool fails (its disk
is full or gone), batches go to the transport directly.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tracejudge_sdk.account import DropReason
from tracejudge_sdk.delivery import Delivery, Ready, SendPolicy
from tracejudge_sdk.errors import RecordError, RecordTooLarge, SpoolFull
from tracejudge_sdk.ids import stock_up
from tracejudge_sdk.notices import warn
from tracejudge_sdk.outbox import Outbox, Waiting
from tracejudge_sdk.steps import HookFailed

if TYPE_CHECKING:
    from tracejudge_sdk.drainer import Drainer
    from tracejudge_sdk.spool import Spool


_IDLE_ROUNDS: Final = 20  # empty looks before it sleeps for good: a busy service then never has to wake it
_SLEEP_S: Final = 60.0


class Encoded(NamedTuple):
    """An encoded record, and what was done to it: whether it was truncated, and whether values were coerced or left
    out."""

    key: str
    data: bytes
    truncated: bool
    lossy: bool


class _Sending(NamedTuple):
    """What is known of a record that is being sent."""

    waiting: Waiting
    truncated: bool
    lossy: bool


class Sender:
    """One thread for one outbox. `encode(item, max_bytes)` raises RecordError for what cannot be a record."""

    def __init__(
        self,
        outbox: Outbox,
        *,
        encode: Callable[[Any, int], Encoded],
        delivery: Delivery,
        policy: SendPolicy,
        spool: Spool | None = None,
        drainer: Drainer | None = None,
    ) -> None:
        """`drainer` empties `spool`, and is woken when something was put there."""
        self._outbox = outbox
        self._encode = encode
        self._delivery = delivery
        self._spool = spool
        self._drainer = drainer
        self._policy = policy
        self._start_lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self.alive = False
        """Whether the thread runs."""
        self._empty_rounds = 0
        self._next_report = time.monotonic()
        self._reported = 0

    def start(self) -> None:
        """Starts the thread unless it runs. Raises RuntimeError when the system gives no thread."""
        # Without waiting: another holder of the lock is starting the thread, and a signal handler would deadlock.
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

    # -- the thread ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        outbox = self._outbox
        try:
            while not outbox.abandoned:
                try:
                    if not self._round():
                        return
                except Exception as error:  # noqa: BLE001 - no memory left, say: it ends no thread and loses no count
                    outbox.fail(f"the sending thread failed: {type(error).__name__}")
                    outbox.lose_taken()
                    outbox.pause(self._policy.first_pause_s)
        finally:
            self.alive = False
            outbox.lose_taken()
            outbox.unattended()

    def _round(self) -> bool:
        """Delivers one batch or waits for one; False when there will be none any more."""
        outbox, policy = self._outbox, self._policy
        stock_up()
        batch = outbox.take(max_records=policy.batch_records, max_bytes=policy.batch_bytes)
        if batch:
            self._empty_rounds = 0
            self._deliver(batch)
            self._report()
            if not outbox.urgent and not outbox.refusing:
                outbox.wait(policy.linger_s)
        elif outbox.refusing:
            return False
        else:
            self._empty_rounds += 1
            self._report()
            if self._empty_rounds < _IDLE_ROUNDS:
                outbox.wait(policy.linger_s)
            else:
                outbox.sleep(_SLEEP_S)
        return True

    def _deliver(self, batch: list[Waiting]) -> None:
        """Delivers a batch; returns when each item is settled or spooled, or when the outbox was abandoned."""
        if self._spool is not None:
            self._put_on_disk(self._spool, self._encode_all(batch, self._delivery.record_limit()))
        elif (limit := self._delivery.connect(self)) is not None:
            self._delivery.deliver(self._encode_all(batch, limit), self)

    def _put_on_disk(self, spool: Spool, ready: list[Ready]) -> None:
        while ready and not self.over:
            try:
                spool.append(ready, on_disk=self._on_disk)
            except SpoolFull as error:
                self.failed(str(error))
            except Exception as error:  # noqa: BLE001 - whatever a disk may say
                self.failed(f"{type(error).__name__}: {error}"[:500])
                ready = self._delivery.deliver(ready, self, once=True)
            else:
                if self._drainer is not None:
                    self._drainer.more()
                return
            if ready:
                self.pause(self._policy.first_pause_s)

    def _on_disk(self, ready: Sequence[Ready]) -> None:
        self._mark(ready)
        self._outbox.spool([record.item.waiting for record in ready])

    def _encode_all(self, batch: Sequence[Waiting], max_bytes: int) -> list[Ready]:
        ready: list[Ready] = []
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
                sending = _Sending(item, truncated=encoded.truncated, lossy=encoded.lossy)
                ready.append(Ready(sending, encoded.key, encoded.data))
        return ready

    # -- what the delivery tells and asks (`delivery.Account`) -----------------------------------------------------

    @property
    def over(self) -> bool:
        return self._outbox.abandoned

    def arrived(self, records: Sequence[Ready]) -> None:
        self._mark(records)
        self._outbox.settle([record.item.waiting for record in records])

    def refused(self, records: Sequence[Ready], reason: DropReason) -> None:
        self._outbox.settle([record.item.waiting for record in records], reason)

    def failed(self, words: str) -> None:
        self._outbox.fail(words)
        self._report(failing=True)

    def pause(self, timeout_s: float) -> None:
        self._outbox.pause(timeout_s)

    # -- the account -----------------------------------------------------------------------------------------------

    def _mark(self, records: Sequence[Ready]) -> None:
        truncated = sum(record.item.truncated for record in records)
        lossy = sum(record.item.lossy for record in records)
        if truncated or lossy:
            self._outbox.mark(truncated=truncated, lossy=lossy)

    def _report(self, *, failing: bool = False) -> None:
        now = time.monotonic()
        if now < self._next_report:
            return
        stats = self._outbox.stats()
        if stats.dropped_total == self._reported and not failing:
            return
        self._next_report = now + self._policy.report_interval_s
        warn(
            "tracejudge: %d traces dropped so far (%s), %d queued, %d spooled; last error: %s",
            stats.dropped_total,
            ", ".join(f"{reason} {count}" for reason, count in sorted(stats.dropped.items())) or "none",
            stats.queued,
            stats.spooled,
            stats.last_error,
        )
        self._reported = stats.dropped_total
