"""A file of traces judged here and now: its cost beforehand, what became of each trace, the verdicts as rows."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final

from tracejudge.clock import Clock, SystemClock
from tracejudge.datasets import BrokenLine, Line
from tracejudge.judging import (
    Estimate,
    JudgeSpec,
    JudgeTask,
    NothingSpent,
    Panel,
    PanelResult,
    RunCaps,
    VerdictCache,
    estimate,
)
from tracejudge.judging.query_engine import QueryEngine, answers
from tracejudge.scores import Bucket, Decision, LedgerRow, Outcome, Score, TraceKey
from tracejudge.together import ended
from tracejudge.windows import PassRate, pass_rate
from tracejudge_consumer.files.form import FileForm
from tracejudge_consumer.files.output import RowsFile, row_of
from tracejudge_sdk.trace import Trace

_BATCH_TRACES: Final = 100
_BATCHES_IN_FLIGHT: Final = 4
_RUN: Final = "score"


@dataclass
class FileCounts:
    """What became of the traces, for one judge."""

    heuristic: bool
    passed: int = 0
    failed: int = 0
    score_sum: float = 0.0  # of the settled ones
    invalid: Counter[str] = field(default_factory=Counter)
    decisions: Counter[tuple[Decision, str]] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)  # one detail for each reason of invalid ones
    calls: int = 0
    cost_usd: float | None = 0.0

    def add(self, item: Score | LedgerRow) -> None:
        """Counts one verdict, or the reason why there is none."""
        if isinstance(item, LedgerRow):
            self.decisions[item.decision, item.reason] += 1
        elif item.outcome is Outcome.INVALID:
            self.invalid[item.reason] += 1
            self.examples.setdefault(item.reason, item.feedback or item.raw_reply)
        else:
            self.passed += item.outcome is Outcome.PASSED
            self.failed += item.outcome is Outcome.FAILED
            self.score_sum += item.score or 0.0

    @property
    def reached(self) -> int:
        """Traces of which it is known what became of them: all, unless the judge was gone half-way."""
        return self.passed + self.failed + self.invalid.total() + self.decisions.total()

    def add_cost(self, usd: float | None) -> None:
        """Counts one call; one without a known price makes the sum unknown."""
        self.calls += 1
        self.cost_usd = None if self.cost_usd is None or usd is None else self.cost_usd + usd

    @property
    def rate(self) -> PassRate | None:
        """The pass rate of the settled ones; None without any."""
        n = self.passed + self.failed
        if n == 0:
            return None
        whole, part = float(n), float(self.passed)
        bucket = Bucket(
            n=n, passed=self.passed, sum_w=whole, sum_w2=whole, sum_wx=part, sum_w2x=part, sum_ws=self.score_sum
        )
        return pass_rate({"": bucket})

    def as_dict(self, traces: int) -> dict[str, Any]:
        """JSON values; `traces` is how many the file holds."""
        return {
            "heuristic": self.heuristic,
            "passed": self.passed,
            "failed": self.failed,
            "invalid": dict(self.invalid),
            "not_judged": [
                {"decision": decision, "reason": reason, "traces": number}
                for (decision, reason), number in self.decisions.items()
            ],
            "pass_rate": self.rate,
            "not_reached": traces - self.reached,
            "calls": self.calls,
            "cost_usd": self.cost_usd,
        }


def plan_file(
    path: Path, app: str, specs: tuple[JudgeSpec, ...], broken: list[BrokenLine], *, form: FileForm
) -> tuple[tuple[Estimate, ...], int]:
    """What judging the file would cost, by judge, and how many traces it holds: one reading of it.

    Lines that cannot be read go into `broken`. Raises OSError for a file that cannot be opened.
    """
    lines = form.lines(path, app=app)
    totals = {spec.name: estimate([spec], traces=[])[0] for spec in specs}
    traces = 0
    while chunk := list(islice(lines, 1000)):
        broken.extend(line for line in chunk if isinstance(line, BrokenLine))
        found = [line.trace for line in chunk if isinstance(line, Line)]
        traces += len(found)
        for item in estimate(specs, traces=found):
            totals[item.judge_name] = _sum(totals[item.judge_name], item)
    return tuple(totals.values()), traces


def _sum(a: Estimate, b: Estimate) -> Estimate:
    return Estimate(
        judge_name=a.judge_name,
        traces=a.traces + b.traces,
        calls=a.calls + b.calls,
        input_tokens=a.input_tokens + b.input_tokens,
        output_tokens=a.output_tokens + b.output_tokens,
        usd=None if a.usd is None or b.usd is None else a.usd + b.usd,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineChoice:
    """A user's query engine that is to answer the questions of the file. Times in seconds."""

    path: str  # "package.module:name"
    engine: QueryEngine
    concurrency: int
    timeout_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FileScores:
    """What came of a file: counts by judge name, and how long the engine took, where one was asked."""

    counts: dict[str, FileCounts]
    answer_latencies_ms: tuple[float, ...] = ()
    engine_errors: int = 0


async def score_file(
    path: Path,
    out: RowsFile,
    *,
    app: str,
    form: FileForm,
    specs: tuple[JudgeSpec, ...],
    caps: RunCaps,
    engine: EngineChoice | None = None,
    advance: Callable[[PanelResult, int], None],
) -> FileScores:
    """Judges every trace of the file and writes the verdicts to `out`, in the order of the file.

    A few batches are judged at a time, so that one slow call at the end of one leaves no judge idle. `advance` is told
    the result of each batch and its size. Ends early when a judge is gone.
    """
    clock = SystemClock()
    counts = {spec.name: FileCounts(heuristic=spec.heuristic) for spec in specs}
    panel = Panel(specs, clock=clock, spend=NothingSpent(), caps=caps, cache=VerdictCache())
    latencies: list[float] = []
    errors = 0
    in_flight: list[asyncio.Task[tuple[list[Trace], PanelResult]]] = []

    async def judge(traces: list[Trace]) -> tuple[list[Trace], PanelResult]:
        return traces, await panel.evaluate(_tasks(traces, frozenset(counts)), run_id=_RUN)

    def take(traces: list[Trace], result: PanelResult) -> None:
        by_key = {TraceKey(trace.environment, trace.app, trace.trace_id): trace for trace in traces}
        items: tuple[Score | LedgerRow, ...] = (*result.scores, *result.ledger)
        for item in items:
            counts[item.judge_name].add(item)
        out.write(
            [
                row_of(
                    item,
                    by_key[TraceKey(item.environment, item.app, item.trace_id)],
                    heuristic=counts[item.judge_name].heuristic,
                    with_answer=engine is not None,
                )
                for item in items
            ]
        )
        for call in result.calls:
            counts[call.judge_name].add_cost(call.cost_usd)
        advance(result, len(traces))

    try:
        async with aclosing(_batches(_traces(path, app, form), engine, clock)) as batches:
            async for batch in batches:
                if engine is not None:
                    errors += sum(trace.status == "error" for trace in batch)
                    latencies += [
                        trace.latency_ms for trace in batch if trace.status == "ok" and trace.latency_ms is not None
                    ]
                in_flight.append(asyncio.create_task(judge(batch)))
                if len(in_flight) >= _BATCHES_IN_FLIGHT:
                    traces, result = await in_flight.pop(0)
                    take(traces, result)
                    if result.gone:
                        break
        while in_flight:
            take(*await in_flight.pop(0))
    finally:
        await ended(in_flight)  # before its connections are closed
        await panel.close()
    return FileScores(counts=counts, answer_latencies_ms=tuple(latencies), engine_errors=errors)


def _traces(path: Path, app: str, form: FileForm) -> Iterator[Trace]:
    return (line.trace for line in form.lines(path, app=app) if isinstance(line, Line))


async def _batches(
    traces: Iterator[Trace], engine: EngineChoice | None, clock: Clock
) -> AsyncGenerator[list[Trace], None]:
    if engine is None:
        while chunk := list(islice(traces, _BATCH_TRACES)):
            yield chunk
        return
    batch: list[Trace] = []
    answered = answers(engine.engine, traces, concurrency=engine.concurrency, clock=clock, timeout_s=engine.timeout_s)
    async with aclosing(answered):  # the engine is asked nothing more once nobody reads on
        async for trace in answered:
            batch.append(trace)
            # Smaller ones: an answer is not to wait for a hundred others before it is judged.
            if len(batch) >= engine.concurrency:
                yield batch
                batch = []
    if batch:
        yield batch


def _tasks(traces: list[Trace], names: frozenset[str]) -> list[JudgeTask]:
    return [
        JudgeTask(
            trace=trace,
            judge_names=names,
            inclusion_probability=dict.fromkeys(names, 1.0),
            event_time=trace.event_time,
        )
        for trace in traces
    ]
