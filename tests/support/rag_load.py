"""The load on two copies of the RAG service, one with the SDK and one without, at the same time.

Every question goes to both, in an order drawn by a seeded generator, a bounded number of them at once, so that whatever
the machine does at that moment it does to both. What came back is kept by trace id, with the worker that answered.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import httpx

from tests.support.rag_service import BROKEN, TRACE_HEADER, WORKER_HEADER

CITIES = ("Paris", "Rome", "Oslo")
_AT_ONCE = 4
_PAUSE_S = 0.01
"""Between two questions of one asker: a service at its limit would measure its queue."""


@dataclass
class Answers:
    """What one service answered."""

    url: str
    latencies_s: dict[str, list[float]] = field(default_factory=dict)
    """By phase, of whole answers."""
    workers: dict[str, str] = field(default_factory=dict)
    """Trace id to the process id of the worker that answered, as it said itself."""
    expected: dict[str, str] = field(default_factory=dict)
    """Trace id to the status its trace must have; "any" where the reader left in the middle."""


class Load:
    """Asks both services `count` questions a phase."""

    def __init__(self, *services: Answers) -> None:
        self._services = services
        self._random = random.Random(7)
        self._asked = 0

    async def phase(self, name: str, count: int) -> None:
        """One phase; raises what httpx raises, so a service that fails its askers fails the test."""
        limits = httpx.Limits(max_connections=2 * _AT_ONCE * len(self._services))
        async with httpx.AsyncClient(limits=limits, timeout=30.0) as client:
            numbers = iter(range(self._asked, self._asked + count))
            self._asked += count

            async def asker() -> None:
                for number in numbers:
                    for service in self._random.sample(self._services, len(self._services)):
                        await _ask(client, service, name, number)
                    await asyncio.sleep(_PAUSE_S)

            await asyncio.gather(*(asker() for _ in range(_AT_ONCE)))


async def _ask(client: httpx.AsyncClient, service: Answers, phase: str, number: int) -> None:
    trace_id = f"ask-{number:06d}"
    headers = {TRACE_HEADER: trace_id}
    question = f"What about {CITIES[number % 3]}, {number}?"
    if number % 20 == 7:
        # The reader leaves after the first bytes.
        async with client.stream("GET", f"{service.url}/stream", params={"question": question}, headers=headers) as got:
            await anext(got.aiter_raw())
        service.expected[trace_id] = "any"
    elif number % 10 == 3:
        got = await client.get(f"{service.url}/stream", params={"question": question}, headers=headers)
        assert got.text.startswith("piece 0 piece 1 ")
        service.expected[trace_id] = "ok"
    elif number % 10 == 5:
        got = await client.get(f"{service.url}/ask", params={"question": f"{question} {BROKEN}"}, headers=headers)
        assert got.status_code == 503
        assert got.json() == {"error": "the model is not there"}
        service.expected[trace_id] = "error"
    else:
        began = time.perf_counter()
        got = await client.get(f"{service.url}/ask", params={"question": question}, headers=headers)
        service.latencies_s.setdefault(phase, []).append(time.perf_counter() - began)
        assert got.json()["answer"].startswith("piece 0 piece 1 ")
        service.expected[trace_id] = "ok"
    service.workers[trace_id] = got.headers[WORKER_HEADER]


def side_by_side(without: Answers, with_sdk: Answers) -> str:
    """The latencies of both as a table, in milliseconds."""
    lines = [f"{'request latency, ms':<24}{'':>8}{'p50':>8}{'p90':>8}{'p99':>8}"]
    for phase in without.latencies_s:
        for name, service in (("without", without), ("with SDK", with_sdk)):
            figures = "".join(f"{1000 * value:8.2f}" for value in _quantiles(service.latencies_s[phase]))
            lines.append(f"{phase:<24}{name:>8}{figures}")
    return "\n".join(lines)


def _quantiles(values: Sequence[float]) -> tuple[float, float, float]:
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    return cuts[49], cuts[89], cuts[98]
