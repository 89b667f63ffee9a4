"""Shutdown by signal: the first SIGINT, SIGTERM or SIGHUP asks to finish, within a limit, the second stops at once."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from tracejudge.errors import StoreError
from tracejudge.store import Store
from tracejudge_consumer.terminal.exit_status import EXIT_INTERRUPTED

_LOG = logging.getLogger(__name__)

LAST_ROUND_S: Final = 10.0
"""For what is under way when the process is told to stop. Its store may be one that takes and never answers."""

_LOOK_S: Final = 0.2

_SIGNALS: Final = tuple(
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGHUP")
    if hasattr(signal, name)  # no SIGHUP on Windows
)


class StoppedAtStart(BaseException):
    """A signal came while nothing was under way yet. No Exception, so that no library takes it for one of its own."""


class StopSignals:
    """What a first signal does besides setting the event. Used by the main thread."""

    def __init__(self) -> None:
        self._heard = False
        self._starting = False

    @contextmanager
    def starting(self) -> Iterator[None]:
        """A block that a signal breaks off, with StoppedAtStart: imports and connections may take long, and nothing
        is lost that has not begun."""
        self._starting = True
        try:
            if self._heard:
                raise StoppedAtStart
            yield
        finally:
            self._starting = False

    def handle(self, _number: int, _frame: FrameType | None) -> None:
        """The handler."""
        self._heard = True
        if self._starting:
            self._starting = False
            raise StoppedAtStart


@contextmanager
def stop_on_signals(stop: threading.Event) -> Iterator[StopSignals]:
    """Sets `stop` at the first SIGINT, SIGTERM or SIGHUP (a terminal that is closed); a second one ends the process at
    once, with status 130. What is ignored (SIGHUP under nohup) stays so.

    To be used on the main thread; it is a thread of its own that acts on them. A handler runs between two steps of the
    main thread: not at all while that waits inside a library, and now and then while it holds the very lock that
    setting an event takes.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)  # what Python asks of a descriptor for signals
    listener = threading.Thread(target=_listen, args=(reader, stop), name="tracejudge-signals", daemon=True)
    listener.start()
    signals = StopSignals()
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    heard = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    previous = {number: signal.signal(number, signals.handle) for number in heard}
    try:
        yield signals
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(before)
        os.close(writer)  # the end of what the listener reads
        listener.join()
        os.close(reader)


def _listen(reader: int, stop: threading.Event) -> None:
    asked = False
    while heard := os.read(reader, 16):
        for number in heard:
            if number not in _SIGNALS:
                continue  # the process may have other handlers
            if asked:
                # The user insists: nothing is flushed, and what is not committed will be delivered again.
                os._exit(EXIT_INTERRUPTED)
            asked = True
            stop.set()


@contextmanager
def cut_off(store: Store, stop: threading.Event, *, after_s: float = LAST_ROUND_S) -> Iterator[None]:
    """Closes `store` under a block that has not ended `after_s` after `stop` was set, and takes its StoreError."""
    over, cut = threading.Event(), threading.Event()

    def guard() -> None:
        while not stop.wait(_LOOK_S):
            if over.is_set():
                return
        if not over.wait(after_s):
            cut.set()
            store.close()

    threading.Thread(target=guard, name="tracejudge-cut-off", daemon=True).start()
    try:
        yield
    except StoreError as error:
        if not cut.is_set():
            raise
        _LOG.warning("what was under way is left after %g s: %s", after_s, error)
    finally:
        over.set()
