"""Calls to the store that are repeated while it is away: back-off with jitter, without end, as nothing may be lost."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from typing import Final, TypeVar

from tracejudge.clock import Clock
from tracejudge.errors import ServiceUnavailable
from tracejudge_consumer.retry_policy import RetryPolicy
from tracejudge_consumer.watching.health import Health
from tracejudge_consumer.watching.metrics import Metrics

_LOG = logging.getLogger(__name__)
_T = TypeVar("_T")

_TELL_EVERY_S: Final = 60.0


class StoreCalls:
    """Runs blocking store calls on a small pool, and repeats what failed because the store was away.

    Every insert of the store may be repeated, so an answer that was lost on its way does no harm.
    """

    def __init__(
        self,
        pool: Executor,
        *,
        retry: RetryPolicy,
        health: Health,
        metrics: Metrics,
        clock: Clock,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._pool = pool
        self._retry = retry
        self._health = health
        self._metrics = metrics
        self._clock = clock
        self._told_at: float | None = None
        self._repeating = 0
        self._sleep = sleep
        self._draw = random.Random()  # noqa: S311 - spreads waits, protects nothing

    async def __call__(self, call: Callable[[], _T]) -> _T:
        """The result of `call()`, however long that takes. Raises whatever is not ServiceUnavailable."""
        loop = asyncio.get_running_loop()
        result = await self.until_answered(lambda: loop.run_in_executor(self._pool, call))
        self._answered()
        return result

    async def until_answered(self, call: Callable[[], Awaitable[_T]]) -> _T:
        """The result of awaiting `call()`, which must have done nothing yet when it raises ServiceUnavailable."""
        attempt = 0
        try:
            while True:
                try:
                    return await call()
                except ServiceUnavailable as error:
                    self._repeating += not attempt
                    attempt += 1
                    self._health.store_answered(str(error))
                    self._metrics.store_retries.inc()
                    delay_s = self._retry.delay_s(attempt, self._draw.random())
                    self._tell(attempt, delay_s, error)
                    await self._sleep(delay_s)
        finally:
            if attempt:
                self._repeating -= 1
                self._answered()

    def _answered(self) -> None:
        # A store with a full disk answers whoever reads: as long as one call is repeated it is not well.
        if not self._repeating:
            self._health.store_answered()

    def _tell(self, attempt: int, delay_s: float, error: ServiceUnavailable) -> None:
        # Many calls wait for one store: an hour without it is not an hour of log lines.
        now = self._clock.monotonic()
        if self._told_at is None or now - self._told_at >= _TELL_EVERY_S:
            self._told_at = now
            _LOG.warning("store does not answer (attempt %d, next in %.1f s): %s", attempt, delay_s, error)
