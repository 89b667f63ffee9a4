"""Several pieces of work at once, of which the first that fails ends the others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import TypeVar

_T = TypeVar("_T")


async def all_of(work: Sequence[Awaitable[_T]]) -> list[_T]:
    """What each gave. The first that fails ends the others: their records come again."""
    if len(work) == 1:
        return [await work[0]]
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
