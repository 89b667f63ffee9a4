"""How many calls may be in flight at one endpoint. A fixed number for now; judges of one endpoint share it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from tracejudge.judging.loops import PerLoop
from tracejudge.judging.spec import JudgeSpec


class Limiter:
    """At most `concurrency` slots in each event loop, handed out in the order of asking."""

    def __init__(self, concurrency: int) -> None:
        self.concurrency = concurrency
        self._semaphores = PerLoop(lambda: asyncio.Semaphore(concurrency))

    def slot(self) -> asyncio.Semaphore:
        """The running loop's slots, to be used as `async with limiter.slot():`."""
        return self._semaphores.get()


def limiters(specs: Iterable[JudgeSpec]) -> dict[str, Limiter]:
    """A limiter for each endpoint: the lowest concurrency that any judge of it asks for, since it is the endpoint's
    patience that is being described."""
    lowest: dict[str, int] = {}
    for spec in specs:
        lowest[spec.endpoint] = min(spec.concurrency, lowest.get(spec.endpoint, spec.concurrency))
    return {endpoint: Limiter(concurrency) for endpoint, concurrency in lowest.items()}
