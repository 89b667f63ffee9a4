"""A file of traces judged here and now: its cost beforehand, what became of each trace, the verdicts as JSON lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final, TextIO

from tracejudge.clock import SystemClock
from tracejudge.datasets import BrokenLine, Line
from tracejudge.judging import Estimate, JudgeSpec, JudgeTask, NothingSpent, Panel, PanelResult, RunCaps, estimate
from tracejudge.scores import Bucket, Decision, LedgerRow, Outcome, Score
from tracejudge.windows import PassRate, pass_rate
from tracejudge_consumer.file_form import FileForm
from tracejudge_consumer.rendering import to_json

_BATCH_TRACES: Final = 100
_RUN: Final = "score"


@dataclass
class FileCounts:
    """What became of the traces, for one judge."""

    heuristic: bool
    passed: int = 0
    failed: int = 0
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
        elif item.outcome is Outcome.PASSED:
            self.passed += 1
        else:
            self.failed += 1

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
        return pass_rate({"": Bucket(n=n, passed=self.passed, sum_w=whole, sum_w2=whole, sum_wx=part, sum_w2x=part)})

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


async def score_file(
    path: Path,
    target: Path,
    *,
    app: str,
    form: FileForm,
    specs: tuple[JudgeSpec, ...],
    caps: RunCaps,
    advance: Callable[[PanelResult, int], None],
) -> dict[str, FileCounts]:
    """Judges every trace of the file, writes the verdicts to `target`, and gives the counts by judge name.

    `advance` is told the result of each batch and its size. Ends early when a judge is gone.
    """
    counts = {spec.name: FileCounts(heuristic=spec.heuristic) for spec in specs}
    panel = Panel(specs, clock=SystemClock(), spend=NothingSpent(), caps=caps)
    try:
        with target.open("w", encoding="utf-8") as out:
            for batch in _batches(path, app, form, frozenset(counts)):
                result = await panel.evaluate(batch, run_id=_RUN)
                items: tuple[Score | LedgerRow, ...] = (*result.scores, *result.ledger)
                for item in items:
                    counts[item.judge_name].add(item)
                    _write(out, item, heuristic=counts[item.judge_name].heuristic)
                for call in result.calls:
                    counts[call.judge_name].add_cost(call.cost_usd)
                advance(result, len(batch))
                if result.gone:
                    break
    finally:
        await panel.close()
    return counts


def _batches(path: Path, app: str, form: FileForm, names: frozenset[str]) -> Iterator[list[JudgeTask]]:
    traces = (line.trace for line in form.lines(path, app=app) if isinstance(line, Line))
    while chunk := list(islice(traces, _BATCH_TRACES)):
        yield [
            JudgeTask(
                trace=trace,
                judge_names=names,
                inclusion_probability=dict.fromkeys(names, 1.0),
                event_time=trace.event_time,
            )
            for trace in chunk
        ]


def _write(out: TextIO, item: Score | LedgerRow, *, heuristic: bool) -> None:
    row: dict[str, Any] = {"trace_id": item.trace_id, "judge": item.judge_name, "judge_id": item.judge_id}
    if isinstance(item, Score):
        row |= {"outcome": item.outcome, "score": item.score, "reason": item.reason, "feedback": item.feedback}
        row |= {"heuristic": heuristic, "flags": item.flags, "raw_reply": item.raw_reply}
    else:
        row |= {"heuristic": heuristic, "outcome": item.decision, "score": None, "reason": item.reason}
    out.write(to_json(row) + "\n")
