"""Judging from a command: one run of an event loop, which no judge of somebody else's can hold up or speak for."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from typing import Any, Final, TypeVar

_T = TypeVar("_T")

_PATIENCE_S: Final = 5.0


def run_judging(work: Coroutine[Any, Any, _T]) -> _T:
    """`asyncio.run(work)`, except that a thread which a judge has left behind is waited for a few seconds and no more.

    What a judge prints goes to standard error: standard output is the command's own, JSON perhaps.
    """
    with redirect_stdout(sys.stderr):
        return asyncio.run(_with_own_threads(work))


async def _with_own_threads(work: Coroutine[Any, Any, _T]) -> _T:
    asyncio.get_running_loop().set_default_executor(_Threads(thread_name_prefix="tracejudge-judging"))
    return await work


class _Threads(ThreadPoolExecutor):
    """The threads of `asyncio.to_thread`."""

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Returns when all threads have ended, or after a few seconds. Calls that have not begun are dropped."""
        super().shutdown(wait=False, cancel_futures=True)
        until = time.monotonic() + _PATIENCE_S
        for thread in self._threads if wait else ():
            thread.join(max(0.0, until - time.monotonic()))
