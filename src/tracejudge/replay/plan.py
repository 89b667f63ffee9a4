"""What a replay would take, before it is begun: traces, calls, tokens, money, and time at several numbers of workers.

Time is found by list scheduling: calls of the lengths that this judge's calls had, in a seeded random order, each
given to the worker that is free first; the rest of a long run is worked off at the mean. What a rate limit of the
endpoint allows is the least it can take.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tracejudge.judging import Estimate, JudgeSpec

ASSUMED_LATENCY_MS: Final = 2000.0
"""Where a judge was never asked: a middling hosted model on a prompt of five passages."""

_SIMULATED_CALLS: Final = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The expected duration with so many calls in flight."""

    workers: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgePlan:
    """The expected cost and duration for one judge. `measured_calls` is 0 where no latency was measured and a typical
    one is assumed. The first of `expected` is at the judge's own concurrency."""

    cost: Estimate
    measured_calls: int
    median_ms: float
    expected: tuple[Expected, ...]
    token_calls: int = 0
    """So many calls of the judge say what one takes; 0: tokens are estimated from the texts, and replies assumed."""


def plan_judge(spec: JudgeSpec, cost: Estimate, latencies_ms: Sequence[float], *, token_calls: int = 0) -> JudgePlan:
    """The plan of a judge from what its calls are estimated to be and how long they took so far. `token_calls`: the
    measured calls that the tokens of `cost` come from."""
    known = sorted(latencies_ms) or [ASSUMED_LATENCY_MS]
    workers = sorted({max(1, spec.concurrency // 2), spec.concurrency, 2 * spec.concurrency, 4 * spec.concurrency})
    workers.remove(spec.concurrency)
    expected = tuple(
        Expected(workers=count, seconds=_seconds(spec, cost, known, count)) for count in (spec.concurrency, *workers)
    )
    return JudgePlan(
        cost=cost,
        measured_calls=len(latencies_ms),
        median_ms=known[len(known) // 2],
        expected=expected if cost.calls else (),
        token_calls=token_calls,
    )


def makespan_s(calls: int, latencies_ms: Sequence[float], workers: int) -> float:
    """The time in seconds that `calls` calls of these latencies take on `workers` workers."""
    if calls <= 0:
        return 0.0
    simulated = min(calls, _SIMULATED_CALLS)
    # Each known length equally often, and not in the order in which they were measured.
    drawn = [latencies_ms[number * len(latencies_ms) // simulated] for number in range(simulated)]
    if len(latencies_ms) > simulated:
        drawn = list(random.Random(0).sample(list(latencies_ms), simulated))  # noqa: S311 - a simulation
    random.Random(0).shuffle(drawn)  # noqa: S311
    free = [0.0] * min(workers, simulated)
    for length in drawn:
        heapq.heapreplace(free, free[0] + length)
    rest = (calls - simulated) * (sum(drawn) / simulated) / workers
    return (max(free) + rest) / 1000.0


def _seconds(spec: JudgeSpec, cost: Estimate, latencies_ms: Sequence[float], workers: int) -> float:
    least = [makespan_s(cost.calls, latencies_ms, workers)]
    if spec.max_requests_per_min is not None:
        least.append(60.0 * cost.calls / spec.max_requests_per_min)
    if spec.max_tokens_per_min is not None:
        least.append(60.0 * (cost.input_tokens + cost.output_tokens) / spec.max_tokens_per_min)
    return max(least)
