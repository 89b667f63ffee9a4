"""A round of chores: under a lease that is kept while they are done, and no longer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timezone

from tests.support.memory_store import MemoryStore
from tests.support.scripted_panel import ScriptedPanel
from tests.support.stages import make_stages
from tracejudge.errors import StoreError
from tracejudge.store import Lease
from tracejudge_consumer.background.upkeep import Upkeep

LEASE = Lease("upkeep", "me", 1, datetime(2026, 1, 2, tzinfo=timezone.utc))


class Leases:
    """Free, until a test says otherwise."""

    def __init__(self, renewed: Callable[[], Lease | None]) -> None:
        self.renewals = 0
        self.released: list[Lease] = []
        self._renewed = renewed

    def acquire(self, name: str, holder: str, ttl_s: float) -> Lease | None:
        return LEASE

    def renew(self, lease: Lease, ttl_s: float) -> Lease | None:
        self.renewals += 1
        return self._renewed()

    def release(self, lease: Lease) -> None:
        self.released.append(lease)


class Chore:
    """Goes on until its lease is gone, or so many steps."""

    def __init__(self, steps: int = 1_000) -> None:
        self.steps = steps
        self.done = 0

    async def due(self) -> bool:
        return True

    async def work(self, still_ours: Callable[[], bool]) -> None:
        while self.done < self.steps and still_ours():
            self.done += 1
            await asyncio.sleep(0)


def make_upkeep(leases: Leases, *chores: Chore) -> Upkeep:
    async def at_once(_: float) -> None:
        await asyncio.sleep(0)

    calls = make_stages(MemoryStore(), ScriptedPanel()).calls
    return Upkeep(leases=leases, holder="me", chores=chores, calls=calls, sleep=at_once)


def refused() -> Lease | None:
    raise StoreError("no such column")


async def test_a_lease_is_kept_while_the_chores_are_done_and_given_back_after_them() -> None:
    leases, chore = Leases(lambda: LEASE), Chore(steps=100)
    await make_upkeep(leases, chore).round()
    assert (chore.done, leases.released) == (100, [LEASE])
    assert leases.renewals > 1


async def test_a_lease_that_went_to_another_ends_the_round() -> None:
    leases, first, second = Leases(lambda: None), Chore(), Chore()
    await make_upkeep(leases, first, second).round()
    assert first.done < 100
    assert (second.done, leases.released) == (0, [])


async def test_a_lease_that_cannot_be_renewed_ends_the_round() -> None:
    """It runs out by itself: two at the same chores would buy each verdict twice."""
    leases, first, second = Leases(refused), Chore(), Chore()
    before = asyncio.all_tasks()
    await make_upkeep(leases, first, second).round()
    assert first.done < 100
    assert (second.done, leases.released) == (0, [])
    assert asyncio.all_tasks() == before
