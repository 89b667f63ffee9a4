"""Several pieces of work at once, of which the first that fails ends the others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection, Sequence
from typing import Any, TypeVar

_T = TypeVar("_T")


async def all_of(work: Sequence[Awaitable[_T]]) -> list[_T]:
    """The results of all awaitables, in their order. Raises what the first that failed raised, once the others have
    ended too.

    A cancellation ends all of them. One alone runs in the caller's own task.
    """
    if len(work) == 1:
        return [await work[0]]
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:  # a cancellation too: nothing may go on for a caller that has left
        await ended(tasks)
        raise


async def ended(tasks: Collection[asyncio.Future[Any]]) -> None:
    """Cancels running tasks and returns when all have ended, their clean-up included.

    What they raise is dropped: whoever ends them has a reason of its own.
    """
    for task in tasks:
        task.cancel()
    if running := [task for task in tasks if not task.done()]:
        await asyncio.wait(running)
    for task in tasks:
        if not task.cancelled():
            task.exception()  # looked at, or it would be logged as never retrieved
