"""How a process ends, and how the client sees to it that what waits is sent: exit, fork, worker processes, SIGTERM."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import weakref
from collections.abc import Callable
from types import FrameType
from typing import Any, Final, Protocol

from tracejudge_sdk.errors import ConfigError
from tracejudge_sdk.notices import debug


class Ending(Protocol):
    """An object to be called when the process ends, and in a forked child."""

    def close_at_exit(self) -> object: ...

    def flush_before_end(self) -> object: ...

    def after_fork_in_child(self) -> None: ...


_ALL: Final[weakref.WeakSet[Ending]] = weakref.WeakSet()
_WITH_WORKER: Final[weakref.WeakKeyDictionary[Ending, int]] = weakref.WeakKeyDictionary()
_ON_SIGTERM: Final[weakref.WeakSet[Ending]] = weakref.WeakSet()
_previous: Any = signal.SIG_DFL


def register(ending: Ending) -> None:
    """Has `ending` called at the process's exit and after forks, as long as it lives."""
    _ALL.add(ending)
    atexit.register(_close, weakref.ref(ending))


def register_worker(ending: Ending) -> None:
    """Workers that end without running atexit handlers have `ending` called by what they do run.

    Those of multiprocessing, made by fork, run its finalizers; those of Celery's prefork pool send its signal.
    """
    if _WITH_WORKER.get(ending) == os.getpid():
        return
    _WITH_WORKER[ending] = os.getpid()
    util: Any = sys.modules.get("multiprocessing.util")
    process: Any = sys.modules.get("multiprocessing.process")
    if util is not None and process is not None and process.parent_process() is not None:
        util.Finalize(None, _close, args=(weakref.ref(ending),), exitpriority=100)
    celery: Any = sys.modules.get("celery.signals")
    if celery is not None:
        celery.worker_process_shutdown.connect(_close_all, weak=False, dispatch_uid=__name__)


def register_sigterm(ending: Ending) -> None:
    """Sends what `ending` holds when SIGTERM arrives, then lets the signal do what it did before.

    Where it ended the process at once, `ending` is closed first. A handler of the service's own is called after a
    flush, because it decides how the process ends and whether it goes on for a while. An ignored signal stays ignored.
    A server that sets its own handler later replaces this one, and ends by exit, which is told too. Raises ConfigError
    outside the main thread.
    """
    global _previous
    if threading.current_thread() is not threading.main_thread():
        raise ConfigError("handle_sigterm: only the main thread can take signals: make the client there")
    previous = signal.getsignal(signal.SIGTERM)
    if previous is not _on_sigterm and previous is not signal.SIG_IGN:
        try:
            signal.signal(signal.SIGTERM, _on_sigterm)
        except ValueError as error:
            raise ConfigError(f"handle_sigterm: {error}: leave it out here") from error
        _previous = previous
    _ON_SIGTERM.add(ending)


def _on_sigterm(number: int, frame: FrameType | None) -> None:
    if callable(_previous):
        for ending in list(_ON_SIGTERM):
            _could(ending.flush_before_end)
        _previous(number, frame)
        return
    closed = [_could(ending.close_at_exit) for ending in list(_ON_SIGTERM)]
    if not all(closed):
        raise SystemExit(128 + number)  # the exit closes what is left
    # As if we had not been there: the parent sees a process ended by this signal.
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def _could(wait: Callable[[], object]) -> bool:
    try:
        wait()
    except Exception as error:  # noqa: BLE001 - gevent handles signals where nothing may wait; the process must end
        debug("tracejudge: SIGTERM arrived where nothing can be sent: %s", type(error).__name__)
        return False
    return True


def _close(reference: weakref.ref[Ending]) -> None:
    ending = reference()
    if ending is not None:
        ending.close_at_exit()


def _close_all(**_: object) -> None:
    for ending in list(_ALL):
        ending.close_at_exit()


def _after_fork_in_child() -> None:
    for ending in list(_ALL):
        ending.after_fork_in_child()


if hasattr(os, "register_at_fork"):  # not on Windows, where there is no fork
    os.register_at_fork(after_in_child=_after_fork_in_child)
