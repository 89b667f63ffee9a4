"""Time limits of calls: for what ends when it is cancelled, and for what may not.

A timer of the loop for each call costs more than all else around it, and those of answered calls stay in the loop's
heap until their time. Here calls with the same limit stand in one queue, in the order in which they began, which is
that of their deadlines; one timer waits for the first that is still running.

Time in which the event loop itself stood still (an evaluator that calls a blocking library) is no delay of the judge:
replies may lie there unread, and giving them up would have every call of every judge paid for twice.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable
from typing import Any, Final, TypeVar

from tracejudge.judging.calls.failures import CallTimeout
from tracejudge.judging.calls.loops import PerLoop

T = TypeVar("T")

_RESOLUTION_S: Final = 1e-3
_STOOD_STILL_S: Final = 0.05
"""A timer that goes off later than this was held up by something that did not let the loop go on."""


def _more_time_s(late_s: float) -> float:
    """Seconds to add to a deadline that the loop has looked at so late; 0 where it was in time."""
    return late_s + _STOOD_STILL_S if late_s > _STOOD_STILL_S else 0.0


class _Running:
    """One call. `task` is None once it is over."""

    __slots__ = ("deadline", "fired", "task")

    def __init__(self, task: asyncio.Task[Any], deadline: float) -> None:
        self.task: asyncio.Task[Any] | None = task
        self.deadline = deadline
        self.fired = False


class _Queue:
    """The calls of one event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._running: deque[_Running] = deque()
        self._armed = False

    def begin(self, task: asyncio.Task[Any], limit_s: float) -> _Running:
        running = _Running(task, self._loop.time() + limit_s)
        queue = self._running
        while queue and queue[0].task is None:
            queue.popleft()
        queue.append(running)
        if not self._armed:
            self._armed = True
            self._loop.call_at(running.deadline, self._fire)
        return running

    def _fire(self) -> None:
        self._armed = False
        queue, now = self._running, self._loop.time()
        late_s = now - queue[0].deadline if queue else 0.0
        if more_s := _more_time_s(late_s):
            for running in queue:
                running.deadline += late_s + more_s
        while queue:
            first = queue[0]
            if first.task is not None:
                # A loop's timers may go off a little before their time; what is due then is due now.
                if first.deadline > now + _RESOLUTION_S:
                    self._armed = True
                    self._loop.call_at(first.deadline, self._fire)
                    return
                first.fired = True
                first.task.cancel()
            queue.popleft()


class Deadlines:
    """The limit of one judge's calls, in seconds."""

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self._queues = PerLoop(_Queue)

    async def keep(self, awaitable: Awaitable[T]) -> T:
        """The awaitable's value, if it comes within the limit; else CallTimeout. It runs in the caller's own task."""
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a deadline needs a task")
        asked_before = task.cancelling() if hasattr(task, "cancelling") else 0
        running = self._queues.get().begin(task, self.limit_s)
        try:
            value = await awaitable
            if running.fired and hasattr(task, "uncancel"):
                task.uncancel()  # it answered all the same: nobody is to think that the task was cancelled
            return value
        except asyncio.CancelledError:
            # Python 3.10 cannot tell that somebody else asked for a cancellation in the same moment.
            if not running.fired or (hasattr(task, "uncancel") and task.uncancel() > asked_before):
                raise
            raise _too_late(self.limit_s) from None
        finally:
            running.task = None


_GRACE_S: Final = 0.05
_abandoned: Final[set[asyncio.Task[Any]]] = set()


async def within(awaitable: Awaitable[T], timeout_s: float) -> T:
    """The awaitable's value, if it comes within `timeout_s`; else CallTimeout, with next to no delay.

    Unlike asyncio.wait_for this does not wait for a judge that ignores its cancellation; whatever it answers later is
    dropped. Nor can a judge end the process: its SystemExit is a RuntimeError.
    """
    task = asyncio.ensure_future(_staying(awaitable))
    time = asyncio.get_running_loop().time
    until = time() + timeout_s
    try:
        await asyncio.wait({task}, timeout=timeout_s)
        while not task.done() and (more_s := _more_time_s(time() - until)):
            until = time() + more_s
            await asyncio.wait({task}, timeout=more_s)
    except asyncio.CancelledError:
        _abandon(task)
        raise
    if not task.done():
        _abandon(task)
        # Time for last words: what was called on its behalf is still to be recorded.
        await asyncio.wait({task}, timeout=_GRACE_S)
        raise _too_late(timeout_s)
    if task.cancelled():
        # No sign that an endpoint is away: its traces would wait for it, and all other judges of the batch with them.
        raise RuntimeError("the judge cancelled itself: it must raise an exception instead")
    return task.result()


async def _staying(awaitable: Awaitable[T]) -> T:
    try:
        return await awaitable
    except SystemExit as error:
        # Out of a task it would end the event loop, and with it every other judge.
        raise RuntimeError(f"the judge called sys.exit({error.code!r}): it must raise an exception instead") from error


def _too_late(limit_s: float) -> CallTimeout:
    return CallTimeout(f"no answer within {limit_s:g} s; raise timeout_s if the judge is merely slow")


def _abandon(task: asyncio.Future[Any]) -> None:
    task.cancel()
    if isinstance(task, asyncio.Task):
        # The loop holds tasks weakly, and an error nobody looks at would be logged as never retrieved.
        _abandoned.add(task)
        task.add_done_callback(_drop)


def _drop(task: asyncio.Task[Any]) -> None:
    _abandoned.discard(task)
    if not task.cancelled():
        task.exception()
