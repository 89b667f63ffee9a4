"""A hook of the service that receives the client's account once in a while, in a thread of its own.

Of its own, because a hook that hangs must hold up no trace, and one that raises must end nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from tracejudge_sdk.account import ClientStats
from tracejudge_sdk.notices import warn
from tracejudge_sdk.outbox import Outbox


class StatsHook:
    """Calls `hook(stats)` every `interval_s` seconds, and a last time at the end."""

    def __init__(self, hook: Callable[[ClientStats], object], outbox: Outbox, *, interval_s: float) -> None:
        self._hook = hook
        self._outbox = outbox
        self._interval_s = interval_s
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._told = self._left = False

    def start(self) -> None:
        """Starts the thread unless it was started. Raises RuntimeError when the system gives no thread."""
        if self._thread is None and not self._stopping.is_set():
            thread = threading.Thread(target=self._run, name="tracejudge-sdk-stats", daemon=True)
            thread.start()
            self._thread = thread

    def leave(self) -> None:
        """For a forked child: the account is the parent's."""
        self._left = True

    def stop(self, timeout_s: float) -> None:
        """Reports the account a last time and ends the thread, waiting for at most `timeout_s` seconds."""
        self._stopping.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout_s)

    def _run(self) -> None:
        while not self._stopping.wait(self._interval_s) and not self._left:
            self._tell()
        self._tell()

    def _tell(self) -> None:
        if self._left:
            return
        try:
            self._hook(self._outbox.stats())
        except Exception as error:  # noqa: BLE001 - the service's own code
            self._outbox.note("stats_hook_failed")
            if not self._told:
                self._told = True
                warn("tracejudge: the hook on_stats failed: %s: %s", type(error).__name__, error)
