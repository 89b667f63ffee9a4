"""Finding the owner of a directory, or becoming it."""

from __future__ import annotations

import atexit
import http.client
import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tracejudge.errors import EmbeddedStoreLocked, StoreError
from tracejudge.store.embedded.engine import loaded_before_fork
from tracejudge.store.embedded.owner import Owner
from tracejudge.store.embedded.ownership import DirectoryLock, Endpoint, holder_pid, prepare, published

START_TIMEOUT_S: Final = 20.0
"""An owner on a loaded machine opens the engine in 0.2-2 s; after this it counts as one that does not answer."""

_PING_TIMEOUT_S: Final = 3.0


@dataclass(slots=True)
class _Owned:
    owner: Owner
    users: set[int]  # ids of the objects that use it


_owned: dict[Path, _Owned] = {}
_lock = threading.Lock()


def _after_fork_in_child() -> None:
    global _lock
    _lock = threading.Lock()  # the parent's may have been held
    _owned.clear()  # the owner's threads stayed in the parent


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


def locate(directory: Path, *, user: object, timeout_s: float = START_TIMEOUT_S) -> Endpoint:
    """The endpoint that serves `directory`; this process becomes its owner when nobody is.

    An owner in this process runs until every `user` it was located for has called `release`. Raises EmbeddedStoreLocked
    when the directory's holder does not answer within `timeout_s`, and StoreError when this process already holds
    another directory.
    """
    directory = prepare(directory)
    deadline = time.monotonic() + timeout_s
    pause_s = 0.02
    while True:
        with _lock:
            owned = _owned.get(directory)
            if owned is not None and not owned.owner.alive:
                del _owned[directory]
                owned = None
            if owned is None:
                owned = _become_owner(directory)
            if owned is not None:
                owned.users.add(id(user))
                return owned.owner.endpoint
        endpoint = published(directory)
        detail = "it has not said yet where it serves"
        if endpoint is not None:
            if _answers(endpoint):
                return endpoint
            detail = f"it does not answer on port {endpoint.port}"
        if time.monotonic() >= deadline:
            pid = holder_pid(directory)
            raise EmbeddedStoreLocked(
                str(directory),
                holder_pid=pid,
                detail=f"{detail} after {timeout_s:g} s: end that process, or wait for it, and try again",
            )
        time.sleep(pause_s)
        pause_s = min(pause_s * 2, 0.25)


def release(directory: Path, *, user: object) -> None:
    """`user` is done. The last one stops this process's owner, and another process may take over."""
    directory = directory.resolve()
    with _lock:
        owned = _owned.get(directory)
        if owned is None:
            return
        owned.users.discard(id(user))
        if owned.users:
            return
        del _owned[directory]
        # Inside the lock: a thread that opens the directory now must find it free.
        owned.owner.stop()


def _become_owner(directory: Path) -> _Owned | None:
    lock = DirectoryLock.try_acquire(directory)
    if lock is None:
        return None
    if _owned:
        lock.release()
        other = next(iter(_owned))
        raise StoreError(
            f"{directory}: this process (pid {os.getpid()}) already serves the embedded store {other}, and chDB holds "
            f"one directory per process: close that store first, or open {directory} in a process of its own"
        )
    if loaded_before_fork():
        lock.release()
        raise StoreError(
            f"{directory}: this process was forked after its parent had loaded chDB, which does not survive a fork: "
            "start workers with the 'spawn' method"
        )
    owner = Owner(directory, lock)
    owner.start()
    owned = _owned[directory] = _Owned(owner, users=set())
    return owned


def _answers(endpoint: Endpoint) -> bool:
    """True when the server there is the owner that wrote the file; asked without the password."""
    connection = http.client.HTTPConnection(endpoint.host, endpoint.port, timeout=_PING_TIMEOUT_S)
    try:
        connection.request("GET", "/ping")
        response = connection.getresponse()
        response.read()
        return response.status == 200 and response.getheader("X-Tracejudge-Instance") == endpoint.instance
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


@atexit.register
def _stop_all() -> None:
    with _lock:
        for owned in _owned.values():
            owned.owner.stop()
        _owned.clear()
