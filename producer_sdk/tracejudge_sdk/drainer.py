"""The thread that empties the spool: reads batches from disk, hands them to the transport, deletes what arrived."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Sequence
from typing import Final

from tracejudge_sdk.account import DropReason
from tracejudge_sdk.delivery import Delivery, Ready, SendPolicy
from tracejudge_sdk.outbox import Outbox
from tracejudge_sdk.spool import Spool, SpoolBatch

logger = logging.getLogger("tracejudge_sdk")

_LOOK_FOR_OTHERS_S: Final = 10.0


class Drainer:
    """One thread for one spool. It keeps the outbox's counts of spooled, sent and dropped traces."""

    def __init__(self, spool: Spool, delivery: Delivery, outbox: Outbox, *, policy: SendPolicy) -> None:
        self._spool = spool
        self._delivery = delivery
        self._outbox = outbox
        self._policy = policy
        self._more = threading.Event()
        self._hurry = threading.Event()
        self._stopping = self._left = False
        self._start_lock = threading.Lock()
        self._thread: threading.Thread | None = None
        # Counts of the batch under way.
        self._arrived = 0
        self._refused: Counter[DropReason] = Counter()
        self.failures = 0
        """Number of attempts so far that have to be repeated."""
        self.alive = False

    def start(self) -> None:
        """Starts the thread unless it runs. Raises RuntimeError when the system gives no thread."""
        if self.alive or self._stopping or not self._start_lock.acquire(blocking=False):
            return
        try:
            if self.alive:  # another caller started it between the look and the lock
                return
            thread = threading.Thread(target=self._run, name="tracejudge-sdk-spool", daemon=True)
            self.alive = True
            try:
                thread.start()
            except BaseException:  # as in Sender.start
                self.alive = False
                raise
            self._thread = thread
        finally:
            self._start_lock.release()

    def more(self) -> None:
        """Wakes the thread: something was put into the spool."""
        self._more.set()

    def hurry(self) -> None:
        """Ends a pause between two attempts, because somebody waits for a flush."""
        self._hurry.set()
        self._more.set()

    def stop(self) -> None:
        """Ends the thread after the try under way."""
        self._stopping = True
        self.hurry()

    def leave(self) -> None:
        """For a forked child: the files are the parent's."""
        self._stopping = self._left = True

    def join(self, timeout_s: float) -> None:
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(max(0.0, timeout_s))

    # -- the thread ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._loop()
        finally:
            self.alive = False

    def _loop(self) -> None:
        look_for_others = 0.0
        while not self._stopping:
            self._more.clear()
            try:
                if time.monotonic() >= look_for_others and not self._spool.adopt():
                    look_for_others = time.monotonic() + _LOOK_FOR_OTHERS_S
                batch = self._spool.read(max_records=self._policy.batch_records, max_bytes=self._policy.batch_bytes)
                if batch is None:
                    self._outbox.unspool(self._spool.vanished(), "spool_lost")
                    self._more.wait(_LOOK_FOR_OTHERS_S)
                    continue
                self._drain(batch)
            except Exception as error:  # noqa: BLE001 - a disk that fails now may work again later
                self.failed(f"{type(error).__name__}: {error}"[:500])
                self.pause(self._policy.longest_pause_s)

    def _drain(self, batch: SpoolBatch) -> None:
        self._arrived = 0
        self._refused.clear()
        left = self._delivery.deliver(batch.records, self)
        if self._left:
            return
        try:
            # Before it is counted as sent: a process that ends once everything is sent must leave nothing on disk.
            self._spool.done(batch, left)
        finally:
            if batch.own:
                self._outbox.unspool(self._arrived)
                for reason, count in self._refused.items():
                    self._outbox.unspool(count, reason)
            else:
                self._outbox.recovered(self._arrived)
                for reason, count in self._refused.items():
                    self._outbox.note(f"recovered_{reason}", count)

    # -- what the delivery tells and asks (`delivery.Account`) -----------------------------------------------------

    @property
    def over(self) -> bool:
        return self._stopping

    def arrived(self, records: Sequence[Ready]) -> None:
        self._arrived += len(records)

    def refused(self, records: Sequence[Ready], reason: DropReason) -> None:
        self._refused[reason] += len(records)

    def failed(self, words: str) -> None:
        self._outbox.fail(words)

    def pause(self, timeout_s: float) -> None:
        self.failures += 1
        self._hurry.wait(timeout_s)
        if not self._stopping:
            self._hurry.clear()
