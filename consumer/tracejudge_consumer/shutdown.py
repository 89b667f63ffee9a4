"""SIGINT and SIGTERM as an event: the first asks to finish, the second stops at once."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def stop_on_signals(stop: threading.Event) -> Iterator[None]:
    """Sets `stop` at the first SIGINT or SIGTERM; a second one ends the process at once, with status 130."""

    def handle(_number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            # The user insists: nothing is flushed, and what is not committed will be delivered again.
            os._exit(130)
        stop.set()

    previous = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
