"""Calls to the store that are repeated while it is away, and what is said of the store meanwhile."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from prometheus_client import CollectorRegistry

from tracejudge.errors import StoreUnavailable
from tracejudge.testing import ManualClock
from tracejudge_consumer.retry_policy import RetryPolicy
from tracejudge_consumer.stages.store_calls import StoreCalls
from tracejudge_consumer.watching.health import Health
from tracejudge_consumer.watching.metrics import Metrics


async def test_a_store_that_answers_who_reads_and_takes_nothing_is_not_well() -> None:
    """As one whose disk is full."""
    clock = ManualClock()
    health = Health(clock)
    refused, room = asyncio.Event(), asyncio.Event()
    full = [True]

    def write() -> None:
        if full[0]:
            raise StoreUnavailable("no room")

    async def until_room(_: float) -> None:
        refused.set()
        await room.wait()

    with ThreadPoolExecutor(1) as pool:
        metrics = Metrics(CollectorRegistry())
        calls = StoreCalls(pool, retry=RetryPolicy(), health=health, metrics=metrics, clock=clock, sleep=until_room)
        writing = asyncio.create_task(calls(write))
        await refused.wait()
        assert await calls(lambda: "read") == "read"
        assert "no room" in health.report().reasons[-1]
        full[0] = False
        room.set()
        await writing
        assert health.report().store_answers
