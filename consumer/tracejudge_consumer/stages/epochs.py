"""The sampling epochs that a batch needs, read from the store as seldom as is safe.

An epoch is stored at least `LEAD_S` before it begins. So what was read at an instant holds for every event time up to
`LEAD_S` after it, and only a batch with a later trace asks again. Every consumer thus decides a trace by the same
rates, whoever reads it, and when. An exception are traces from the future (a producer's clock that is ahead by more
than that): they are decided by the last epoch there is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from tracejudge.clock import Clock
from tracejudge.sampling import LEAD_S, EpochBook, epoch_from_json
from tracejudge.store import EpochsRead
from tracejudge_consumer.stages.needs import PipelineStore
from tracejudge_consumer.stages.store_calls import StoreCalls

_KEPT: Final = timedelta(hours=6)
_LEAD: Final = timedelta(seconds=LEAD_S)


class EpochReader:
    """Keeps the epochs of the last hours. For one event loop."""

    def __init__(self, *, store: PipelineStore, calls: StoreCalls, clock: Clock) -> None:
        self._store = store
        self._calls = calls
        self._clock = clock
        self._known: tuple[datetime, datetime] | None = None  # from when until when the book is complete
        self._book = EpochBook()
        self._one_at_a_time = asyncio.Lock()

    async def book(self, event_times: Iterable[datetime]) -> EpochBook:
        """The epochs in force at these instants, of which there is at least one. Waits while the store is away."""
        times = sorted(event_times)
        first, last = times[0], times[-1]
        async with self._one_at_a_time:  # of the batches that begin together one reads
            if self._known is None or last > self._known[1]:
                start = self._clock.now() - _KEPT
                read = await self._read(start, None)
                self._book, self._known = book_of(read), (start, read.read_at + _LEAD)
            if first >= self._known[0]:
                return self._book
        return book_of(await self._read(first, last))  # a backlog of another day: for this batch alone

    async def _read(self, start: datetime, end: datetime | None) -> EpochsRead:
        return await self._calls(partial(self._store.sampling_epochs.in_force, start, end))


def book_of(read: EpochsRead) -> EpochBook:
    """The stored epochs as sampling reads them."""
    return EpochBook(epoch_from_json(one.epoch, one.starts_at, one.rates) for one in read.epochs)
