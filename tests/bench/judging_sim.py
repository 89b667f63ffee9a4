"""Judges' models that take time as a script says, and a feed of batches as the consumer holds them."""

from __future__ import annotations

import asyncio
import heapq
import math
import random
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from tests.support.panels import llm_spec, make_task
from tests.support.virtual_time import VirtualLoop, run_virtually
from tracejudge.clock import Clock, SystemClock
from tracejudge.judging import JudgeTask, NothingSpent, Panel, PanelResult
from tracejudge.judging.calls.client import Completer, Completion, Message
from tracejudge.judging.calls.failures import CallError
from tracejudge.testing import make_trace

MEDIAN_S: Final = 0.08
SIGMA: Final = 0.4
BATCH: Final = 50
IN_FLIGHT: Final = 2_000
"""Rows that the consumer holds at once by default."""

_ROW: Final = re.compile(r"row-(\d+)")


def latencies(count: int, *, seed: int = 11) -> list[float]:
    """Seconds, lognormal."""
    rng = random.Random(seed)
    return [rng.lognormvariate(math.log(MEDIAN_S), SIGMA) for _ in range(count)]


def list_schedule(seconds: Sequence[float], workers: int) -> float:
    """Makespan of list scheduling, first come first to the first free worker: what no executor beats in this order."""
    free = [0.0] * workers
    for one in seconds:
        heapq.heapreplace(free, free[0] + one)
    return max(free)


class Timed:
    """Replies after `reply(row)`, which may raise CallError; counts the calls of each row."""

    stops_at_once: Final = True

    def __init__(self, reply: Callable[[int, int], Awaitable[None]]) -> None:
        self._reply = reply
        self.calls: dict[int, int] = {}

    async def complete(self, messages: Sequence[Message]) -> Completion:
        found = _ROW.search(messages[-1].content)
        row = int(found[1]) if found else 10**6
        self.calls[row] = self.calls.get(row, 0) + 1
        await self._reply(row, self.calls[row])
        return Completion(text="YES", input_tokens=100, output_tokens=1, model="simulated")

    async def close(self) -> None:
        """Nothing to close."""


def panel_of(judge: Completer, *, workers: int, clock: Clock | None = None, **kwargs: Any) -> Panel:
    """The panel as the consumer builds it, with a simulated model behind the judge."""
    spec = llm_spec(concurrency=workers, max_calls_per_h=10**9)
    return Panel(
        [spec],
        clock=clock or SystemClock(),
        spend=NothingSpent(),
        environ={},
        make_completer=lambda spec: judge,
        **kwargs,
    )


def tasks_of(count: int) -> list[JudgeTask]:
    """Rows whose question names them."""
    return [make_task(make_trace(n, query=f"row-{n}: what is it?")) for n in range(count)]


async def feed(panel: Panel, tasks: Sequence[JudgeTask]) -> list[PanelResult]:
    """Judges the tasks in batches of 50, each handed in as soon as fewer than IN_FLIGHT rows are open."""
    gate = asyncio.Semaphore(IN_FLIGHT // BATCH)

    async def one(batch: Sequence[JudgeTask]) -> PanelResult:
        async with gate:
            return await panel.evaluate(batch)

    batches = [tasks[start : start + BATCH] for start in range(0, len(tasks), BATCH)]
    return list(await asyncio.gather(*(one(batch) for batch in batches)))


def makespan(
    seconds: Sequence[float],
    *,
    workers: int,
    refused: frozenset[int] = frozenset(),
    on: Callable[[], VirtualLoop] | None = None,
) -> float:
    """Time of the whole run over that of ideal list scheduling. `refused` rows are answered 429 at first, after their
    latency; the ideal counts that as work, and no waiting. `on`: a loop whose time is not this machine's."""

    async def reply(row: int, call: int) -> None:
        await asyncio.sleep(seconds[row] if row < len(seconds) else 0.0)
        if row in refused and call == 1:
            raise CallError("HTTP 429", status=429)

    async def run(clock: Clock) -> float:
        panel, tasks = panel_of(Timed(reply), workers=workers, clock=clock), tasks_of(len(seconds))
        await panel.evaluate([make_task(make_trace(10**6))])  # a judge that never answered gets five calls at once
        start = clock.monotonic()
        results = await feed(panel, tasks)
        took = clock.monotonic() - start
        scored = sum(score.outcome.settled for result in results for score in result.scores)
        if scored < len(seconds) - 2:
            raise RuntimeError(f"{scored} of {len(seconds)} rows were scored")
        return took

    work = [one for row, one in enumerate(seconds) for _ in range(2 if row in refused else 1)]
    if on is not None:
        loop = on()
        return run_virtually(run(loop.clock), loop) / list_schedule(work, workers)
    return asyncio.run(run(SystemClock())) / list_schedule(work, workers)


class Capacity:
    """A server that answers so many at once and refuses the rest at once, with a limit that changes with time."""

    def __init__(self, phases: Sequence[tuple[float, int]], *, seed: int = 5) -> None:
        self._phases = tuple(phases)
        self._rng = random.Random(seed)
        self._begin = 0.0
        self._open = 0
        self.answered: list[float] = []
        self.refused: list[float] = []

    def begin(self) -> None:
        self._begin = time.perf_counter()

    def limit(self, at_s: float) -> int:
        for length_s, limit in self._phases:
            if at_s < length_s:
                return limit
            at_s -= length_s
        return self._phases[-1][1]

    async def reply(self, row: int, call: int) -> None:
        at_s = time.perf_counter() - self._begin
        if self._open >= self.limit(at_s):
            self.refused.append(at_s)
            await asyncio.sleep(0.002)
            raise CallError("HTTP 429", status=429)
        self._open += 1
        try:
            await asyncio.sleep(self._rng.lognormvariate(math.log(MEDIAN_S), SIGMA))
        finally:
            self._open -= 1
        self.answered.append(time.perf_counter() - self._begin)
