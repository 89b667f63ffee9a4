"""Chores that one consumer at a time does, by a lease in the store.

The lease is taken for a round and given back after it. So each of several consumers, which may have different API keys
or judges, gets its turn, and one that is stopped or killed delays the others by no more than the lease's time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

from tracejudge.errors import StoreError
from tracejudge.store import Lease
from tracejudge.together import ended
from tracejudge_consumer.background.needs import Chore, Leases
from tracejudge_consumer.stages.store_calls import StoreCalls

_LOG = logging.getLogger(__name__)

LEASE: Final = "upkeep"


class Upkeep:
    """Rounds of chores. For one event loop. `holder` must be unique to the process."""

    def __init__(
        self,
        *,
        leases: Leases,
        holder: str,
        chores: Sequence[Chore],
        calls: StoreCalls,
        interval_s: float = 30.0,
        ttl_s: float = 60.0,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._leases = leases
        self._holder = holder
        self._chores = tuple(chores)
        self._calls = calls
        self._interval_s = interval_s
        self._ttl_s = ttl_s
        self._sleep = sleep
        self._lease: Lease | None = None
        self._one_at_a_time = asyncio.Lock()

    async def run(self) -> None:
        """Does a round now and every `interval_s`, until cancelled."""
        while True:
            await self.round()
            await self._sleep(self._interval_s)

    async def round(self) -> None:
        """Does the chores that are due, unless another consumer holds the lease. Waits while the store is away.

        What the store refuses is logged and left for the next round: the consumer goes on meanwhile.
        """
        async with self._one_at_a_time:
            try:
                due = [chore for chore in self._chores if await chore.due()]
                if not due or not await self._take():
                    return
                renewing = asyncio.ensure_future(self._renew())
                try:
                    for chore in due:
                        if self._still_ours():
                            await chore.work(self._still_ours)
                finally:
                    await ended([renewing])
                    await self._give_back()
            except StoreError as error:
                _LOG.error("upkeep: %s; tried again in %.0f s", error, self._interval_s)

    async def given_back(self) -> None:
        """Returns when no round is under way and the lease is free."""
        async with self._one_at_a_time:
            pass

    async def _take(self) -> bool:
        self._lease = await self._calls(partial(self._leases.acquire, LEASE, self._holder, self._ttl_s))
        return self._lease is not None

    async def _renew(self) -> None:
        """Renews the lease while the chores are done, however long one of them takes."""
        while self._lease is not None:
            await self._sleep(self._ttl_s / 3)
            if self._lease is None:
                return
            try:
                self._lease = await self._calls(partial(self._leases.renew, self._lease, self._ttl_s))
            except StoreError as error:  # the lease runs out and another consumer may take it: the round ends
                self._lease = None
                _LOG.error("upkeep: the lease cannot be renewed: %s", error)

    def _still_ours(self) -> bool:
        return self._lease is not None

    async def _give_back(self) -> None:
        lease, self._lease = self._lease, None
        if lease is not None:
            # Also when this round is cancelled: otherwise no consumer could do the chores until the lease runs out.
            await asyncio.shield(self._calls(partial(self._leases.release, lease)))
