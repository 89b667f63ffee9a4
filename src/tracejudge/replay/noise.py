"""Stored traces judged several times by one judge, to learn how often it contradicts itself.

Each verdict is asked for anew; none is taken from a cache, and none is stored as a score. The calls are stored, under
run "noise": money that was spent counts against the judge's caps.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tracejudge.judging import JudgeTask, Panel
from tracejudge.judging.specs.spec import JudgeSpec
from tracejudge.scores import Decision, Score
from tracejudge.store import Store, TraceFilter
from tracejudge.together import all_of
from tracejudge_sdk.sampling import keep
from tracejudge_sdk.trace import Trace

NOISE_RUN: Final = "noise"
_SALT: Final = "tracejudge-noise"
_BATCH: Final = 25


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseRun:
    """The result of measuring a judge's noise. `decisions` counts (trace, repeat) pairs without a verdict, by why."""

    scores: tuple[Score, ...]
    decisions: dict[Decision, int]
    calls: int
    cost_usd: float | None
    gone: tuple[str, ...]


def choose_traces(store: Store, where: TraceFilter, *, traces: int) -> list[Trace]:
    """`traces` of the selection with their texts, spread over it by a hash of their ids, the same ones every time."""
    count = store.traces.count(where)
    # Three standard deviations more than wanted: the hash gives about a share, not a number.
    share = min(1.0, (traces + 3.0 * traces**0.5 + 3.0) / count) if count else 1.0
    found: list[Trace] = []
    for batch in store.traces.stream(where):
        found += [s.trace for s in batch if not s.texts_expired and keep(s.trace.trace_id, share, _SALT)]
    return found[:traces]


async def judge_repeatedly(
    panel: Panel,
    spec: JudgeSpec,
    traces: Sequence[Trace],
    *,
    repeats: int,
    store: Store | None,
    progress: Callable[[int], None] = lambda _: None,
) -> NoiseRun:
    """Each trace `repeats` times; ends early when the judge is gone or a cap is reached. `progress` counts verdicts."""
    scores: list[Score] = []
    decisions: Counter[Decision] = Counter()
    calls, cost, gone = 0, 0.0, []
    unpriced = False
    for start in range(0, len(traces), _BATCH):
        tasks = [_task(trace, spec) for trace in traces[start : start + _BATCH]]
        results = await all_of([panel.evaluate(tasks, run_id=NOISE_RUN) for _ in range(repeats)])
        for result in results:
            scores += result.scores
            decisions.update(row.decision for row in result.ledger)
            calls += len(result.calls)
            cost += sum(call.cost_usd or 0.0 for call in result.calls)
            unpriced = unpriced or any(call.cost_usd is None for call in result.calls)
            gone += [str(error) for error in result.gone]
            if store is not None and result.calls:
                await asyncio.to_thread(store.calls.insert, result.calls)
        progress(len(tasks) * repeats)
        if gone or decisions[Decision.OVER_BUDGET]:
            break
    return NoiseRun(
        scores=tuple(scores),
        decisions=dict(decisions),
        calls=calls,
        cost_usd=None if unpriced else cost,
        gone=tuple(dict.fromkeys(gone)),
    )


def _task(trace: Trace, spec: JudgeSpec) -> JudgeTask:
    return JudgeTask(
        trace=trace,
        judge_names=frozenset({spec.name}),
        inclusion_probability={spec.name: 1.0},
        event_time=trace.event_time,
    )
