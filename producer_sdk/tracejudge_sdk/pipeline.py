"""What stands between `log()` and the queue in one process, put together: outbox, threads, spool, transport.

A forked child makes a new one; what the old one holds is the parent's.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tracejudge_sdk import forks
from tracejudge_sdk.account import ClientStats
from tracejudge_sdk.delivery import Delivery, SendPolicy
from tracejudge_sdk.outbox import Outbox
from tracejudge_sdk.sender import Encoded, Sender
from tracejudge_sdk.stats_hook import StatsHook
from tracejudge_sdk.transports import Transport, transport_for

if TYPE_CHECKING:
    from tracejudge_sdk.config import ClientSettings
    from tracejudge_sdk.drainer import Drainer
    from tracejudge_sdk.spool import Spool

_STOP_GRACE_S: Final = 0.1
"""Above the limit of close(): for the threads to notice, and for the transport to let go."""


def load(settings: ClientSettings) -> None:
    """Imports what a pipeline of these settings is made of, so that it can be made in a request's time."""
    if settings.spool is not None:
        import tracejudge_sdk.drainer
        import tracejudge_sdk.spool  # noqa: F401 - SQLite


class Pipeline:
    """The way out of one process. Nothing is started, imported, opened or connected before `wake`."""

    def __init__(
        self,
        settings: ClientSettings,
        policy: SendPolicy,
        *,
        encode: Callable[[Any, int], Encoded],
        transport: Transport | None,
    ) -> None:
        ring_at = max(1, min(policy.batch_records, settings.max_queue_records // 2))
        self.outbox = Outbox(
            max_records=settings.max_queue_records, max_bytes=settings.max_queue_bytes, ring_at=ring_at
        )
        if not settings.enabled:
            self.outbox.refuse("disabled")
        self._settings = settings
        self._given_transport = transport
        self._delivery = Delivery(self._make_transport, policy)
        self._spool: Spool | None = None
        self._drainer: Drainer | None = None
        if settings.spool is not None:
            from tracejudge_sdk.drainer import Drainer
            from tracejudge_sdk.spool import Spool

            self._spool = Spool(Path(settings.spool), max_bytes=settings.spool_max_bytes)
            self._drainer = Drainer(self._spool, self._delivery, self.outbox, policy=policy)
        self.sender = Sender(
            self.outbox, encode=encode, delivery=self._delivery, policy=policy, spool=self._spool, drainer=self._drainer
        )
        self._stats_hook: StatsHook | None = None
        if settings.on_stats is not None:
            self._stats_hook = StatsHook(settings.on_stats, self.outbox, interval_s=settings.stats_interval_s)

    def wake(self) -> bool:
        """Sees to it that the threads run and look; False when the system gives no thread."""
        self.outbox.ring()
        try:
            self.sender.start()
            if self._drainer is not None:
                self._drainer.start()
            if self._stats_hook is not None:
                self._stats_hook.start()
        except Exception as error:  # noqa: BLE001 - a RuntimeError, or a MemoryError; this is the service's own thread
            # No thread to be had, or the interpreter is ending. What waits stays; the next trace tries again.
            self.outbox.fail(f"the sending thread could not be started: {error}")
            self.outbox.unattended()
            return False
        return True

    def flush(self, timeout_s: float) -> bool:
        """Waits until all that was put so far is sent or dropped; False when `timeout_s` seconds were not enough."""
        return self._flush(timeout_s, give_up=_never)

    def close(self, timeout_s: float) -> bool:
        """Sends what waits, for at most `timeout_s` seconds, and stops; False when something was left, and counted."""
        deadline = time.monotonic() + timeout_s

        def left() -> float:
            return max(0.0, deadline - time.monotonic())

        self.outbox.refuse("closed")
        # On disk it is safe: an end is not held up for a queue that did not answer one more try.
        failures = 0 if self._drainer is None else self._drainer.failures
        sent_all = self._flush(left(), give_up=lambda: self._drainer is not None and self._drainer.failures > failures)
        if sent_all:
            self.sender.join(_STOP_GRACE_S)
        else:
            self.outbox.abandon()
        if self._drainer is not None:
            self._drainer.stop()
        self._delivery.close(left())
        self.sender.join(_STOP_GRACE_S)
        if self._drainer is not None:
            self._drainer.join(_STOP_GRACE_S)
        if self._spool is not None:
            self._spool.close(_STOP_GRACE_S)
        if self._stats_hook is not None:
            self._stats_hook.stop(_STOP_GRACE_S)
        return sent_all

    def forget(self) -> list[object]:
        """For a forked child: lets go of everything without closing it; what is returned must not be collected.

        Takes no lock, which a thread that is gone may hold. Threads that survive a fork, as gevent's do, end.
        """
        self.outbox.leave()
        if self._drainer is not None:
            self._drainer.leave()
        if self._stats_hook is not None:
            self._stats_hook.leave()
        if self._spool is not None:
            self._spool.forget()
        return [self, self._delivery.forget()]

    def stats(self) -> ClientStats:
        return self.outbox.stats()

    def _flush(self, timeout_s: float, *, give_up: Callable[[], bool]) -> bool:
        stats = self.outbox.stats()
        if stats.queued or stats.spooled:
            self.wake()
            if self._drainer is not None:
                self._drainer.hurry()
            if not self.sender.alive and not stats.spooled:
                # It has ended with all of it sent, or nobody will send it however long we wait.
                timeout_s = 0.0
        return self.outbox.flush(timeout_s, give_up=give_up)

    def _make_transport(self) -> Transport:
        if self._given_transport is not None:
            return self._given_transport
        with forks.GATE:  # it imports a client library
            return transport_for(self._settings.queue or "", options=self._settings.queue_options)


def _never() -> bool:
    return False
