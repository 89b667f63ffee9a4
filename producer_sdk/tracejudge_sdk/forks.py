"""What has to be quiet while the process forks.

A fork copies memory but only one thread, so what another thread held at that instant is held for ever in the child: the
lock of a module it was importing, a lock inside pydantic's compiled part (seen: a child whose first validation never
returned). And SQLite's file locks do not survive a fork at all. Whoever does such things in a thread of ours does them
inside `GATE`, in short pieces, or asks to be told before and after. A fork waits for the piece under way.
"""

from __future__ import annotations

import logging  # noqa: F401 - see the end of this file
import os
import threading
import weakref
from typing import Final, Protocol

GATE: Final = threading.RLock()
"""Held while a library is imported, while a record is built, and while a fork takes place; taken before other locks."""


class ForkAware(Protocol):
    """An object that must release its resources while the process forks."""

    def before_fork(self) -> None: ...

    def after_fork(self) -> None: ...


_AWARE: Final[weakref.WeakSet[ForkAware]] = weakref.WeakSet()
_CALLED: Final[list[ForkAware]] = []


def register(aware: ForkAware) -> None:
    """Has `aware` called around every fork from now on, as long as it lives."""
    with GATE:
        _AWARE.add(aware)


def _before() -> None:
    GATE.acquire()
    for aware in list(_AWARE):
        _CALLED.append(aware)
        aware.before_fork()


def _after() -> None:
    while _CALLED:
        _CALLED.pop().after_fork()
    GATE.release()


# Those who registered first are called last before a fork. logging takes its own lock there, and so does what is done
# inside GATE (an import that names a logger): a fork must have GATE first, so logging has to be registered before us.
if hasattr(os, "register_at_fork"):  # not on Windows, where there is no fork
    os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after)
