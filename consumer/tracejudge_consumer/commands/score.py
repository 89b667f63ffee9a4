"""`tracejudge score`: a file of traces judged here and now, without queue and store."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final, TextIO

import click
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

from tracejudge.clock import SystemClock
from tracejudge.datasets import BrokenLine, Line, read_lines
from tracejudge.errors import NotFound, SettingsError
from tracejudge.judging import (
    Estimate,
    JudgeSpec,
    JudgeTask,
    NothingSpent,
    Panel,
    RunCaps,
    check_caps,
    estimate,
)
from tracejudge.scores import Bucket, Decision, LedgerRow, Outcome, Score
from tracejudge.windows import PassRate, pass_rate
from tracejudge_consumer.cli import EXIT_DONE, EXIT_UNAVAILABLE
from tracejudge_consumer.judge_choice import judge_label, require_prices, resolve_judges
from tracejudge_consumer.options import config_option, json_option
from tracejudge_consumer.rendering import (
    console,
    harmless,
    interval,
    money,
    one_line,
    percent,
    progress_bar,
    table,
    to_json,
)

_BATCH_TRACES: Final = 100
_RUN: Final = "score"
# Where no latency is known yet: a middling hosted model on a prompt of five passages.
_SECONDS_PER_CALL: Final = 2.0


@dataclass
class _Counts:
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
        if isinstance(item, LedgerRow):
            self.decisions[item.decision, item.reason] += 1
        elif item.outcome is Outcome.INVALID:
            self.invalid[item.reason] += 1
        elif item.outcome is Outcome.PASSED:
            self.passed += 1
        else:
            self.failed += 1

    @property
    def reached(self) -> int:
        """Traces of which it is known what became of them: all, unless the judge was gone half-way."""
        return self.passed + self.failed + self.invalid.total() + self.decisions.total()

    @property
    def rate(self) -> PassRate | None:
        n = self.passed + self.failed
        if n == 0:
            return None
        whole, part = float(n), float(self.passed)
        return pass_rate({"": Bucket(n=n, passed=self.passed, sum_w=whole, sum_w2=whole, sum_wx=part, sum_w2x=part)})


@click.command(
    name="score",
    epilog="""\b
Examples:
  tracejudge score answers.jsonl                       the lexical heuristic: free, no key
  tracejudge score answers.jsonl --judge faithfulness --max-usd 1
  tracejudge score answers.jsonl.gz --judge my-judge.toml --max-calls 40 --output verdicts.jsonl

One JSON object a line: {"query": "...", "response": "...", "source_nodes": ["passage", ...]}. First it says what
judging would cost; a judge that calls a model needs a cap, here (--max-usd, --max-calls) or in the settings.""",
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@config_option
@json_option
@click.option("--judge", "judges", multiple=True, default=("lexical",), show_default=True, help="NAME or FILE.toml.")
@click.option("--max-calls", type=click.IntRange(0), default=None, help="At most so many judge calls in this run.")
@click.option("--max-usd", type=click.FloatRange(0), default=None, help="At most so much money in this run.")
@click.option("--app", default="file", show_default=True, help="The app of lines that name none.")
@click.option("--output", type=click.Path(dir_okay=False), default=None, help="As JSONL.  [default: FILE.scores.jsonl]")
@click.option("--dry-run", is_flag=True, help="Say what it would cost, and stop.")
def command(
    file: str,
    config: str,
    as_json: bool,
    judges: tuple[str, ...],
    max_calls: int | None,
    max_usd: float | None,
    app: str,
    output: str | None,
    dry_run: bool,
) -> int:
    """Judge a file of traces: no queue, no store."""
    specs = resolve_judges(config, judges)
    path = Path(file)
    broken: list[BrokenLine] = []
    plan, traces = _plan(path, app, specs, broken)
    require_prices(specs, max_usd)
    if not as_json:
        _tell_plan(plan, traces, specs)
    if dry_run:
        if as_json:
            click.echo(to_json({"traces": traces, "plan": plan}))
        return EXIT_DONE
    if max_calls is None and max_usd is None:
        faults = check_caps(specs, estimates=plan)
        if faults:
            raise SettingsError([f"{fault} (or give --max-calls or --max-usd)" for fault in faults])
    if traces == 0:
        found = f": {len(broken)} lines cannot be read, the first: {broken[0].detail}" if broken else ""
        raise NotFound(f"{path}: holds no trace{found}; --help shows what a line needs")
    target = Path(output) if output else path.with_name(path.name.removesuffix(".gz") + ".scores.jsonl")
    if target.exists() and target.samefile(path):
        raise click.BadParameter("is the input itself; name another file", param_hint="--output")
    try:
        target.open("w", encoding="utf-8").close()
    except OSError as error:
        raise click.BadParameter(f"{target}: {error.strerror}", param_hint="--output") from error
    counts = asyncio.run(
        _run(path, app, specs, RunCaps(max_calls=max_calls, max_usd=max_usd), target, traces=traces, hidden=as_json)
    )
    # Every trace invalid says nothing about the answers and much about the judge.
    whole = all(item.reached == traces and item.invalid.total() < traces for item in counts.values())
    status = EXIT_DONE if whole else EXIT_UNAVAILABLE
    if as_json:
        click.echo(to_json({"file": file, "traces": traces, "broken": len(broken), "output": str(target),
                            "judges": {name: _json(item, traces) for name, item in counts.items()}}))  # fmt: skip
        return status
    _tell(counts, traces, broken, target, max_calls=max_calls, max_usd=max_usd)
    return status


def _plan(
    path: Path, app: str, specs: tuple[JudgeSpec, ...], broken: list[BrokenLine]
) -> tuple[tuple[Estimate, ...], int]:
    """One reading of the file, to know what judging it would cost; lines that cannot be read go into `broken`."""
    lines = read_lines(path, app=app)
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


async def _run(
    path: Path,
    app: str,
    specs: tuple[JudgeSpec, ...],
    caps: RunCaps,
    target: Path,
    *,
    traces: int,
    hidden: bool,
) -> dict[str, _Counts]:
    counts = {spec.name: _Counts(heuristic=spec.heuristic) for spec in specs}
    panel = Panel(specs, clock=SystemClock(), spend=NothingSpent(), caps=caps)
    columns = (TextColumn("judging"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    try:
        with (
            target.open("w", encoding="utf-8") as out,
            progress_bar(*columns, hidden=hidden) as progress,
        ):
            task = progress.add_task("judging", total=traces)
            for batch in _batches(path, app, frozenset(counts)):
                result = await panel.evaluate(batch, run_id=_RUN)
                items: tuple[Score | LedgerRow, ...] = (*result.scores, *result.ledger)
                for item in items:
                    counts[item.judge_name].add(item)
                    _write(out, item, heuristic=counts[item.judge_name].heuristic)
                for call in result.calls:
                    total = counts[call.judge_name]
                    total.calls += 1
                    total.cost_usd = (
                        None if total.cost_usd is None or call.cost_usd is None else total.cost_usd + call.cost_usd
                    )
                progress.advance(task, len(batch))
                for score in result.scores:
                    if score.outcome is Outcome.INVALID and score.reason not in counts[score.judge_name].examples:
                        counts[score.judge_name].examples[score.reason] = score.feedback or score.raw_reply
                for error in result.gone:
                    click.echo(f"error: {error}", err=True)
                if result.gone:
                    break
    finally:
        await panel.close()
    return counts


def _batches(path: Path, app: str, names: frozenset[str]) -> Iterator[list[JudgeTask]]:
    traces = (line.trace for line in read_lines(path, app=app) if isinstance(line, Line))
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


def _tell_plan(plan: tuple[Estimate, ...], traces: int, specs: tuple[JudgeSpec, ...]) -> None:
    slots = {spec.name: spec.concurrency for spec in specs}
    labels = {spec.name: judge_label(spec) for spec in specs}
    for item in plan:
        seconds = item.calls * _SECONDS_PER_CALL / slots[item.judge_name]
        cost = (
            "no model, no cost" if item.calls == 0 else f"{item.calls} calls, about {money(item.usd)}, {seconds:.0f} s"
        )
        click.echo(f"{labels[item.judge_name]}: {traces} traces, {cost}", err=True)


def _tell(
    counts: dict[str, _Counts],
    traces: int,
    broken: list[BrokenLine],
    target: Path,
    *,
    max_calls: int | None,
    max_usd: float | None,
) -> None:
    out = console()
    columns = [("judge", "left"), ("passed", "right"), ("failed", "right"), ("invalid", "right")]
    columns += [
        ("not judged", "right"),
        ("pass rate", "right"),
        ("95 %", "right"),
        ("calls", "right"),
        ("cost", "right"),
    ]
    rows = []
    for name, item in counts.items():
        rate = item.rate
        numbers = (item.passed, item.failed, item.invalid.total(), item.decisions.total())
        rows.append(
            [
                name + (" (heuristic)" if item.heuristic else ""),
                *map(str, numbers),
                "no data" if rate is None else percent(rate.estimate),
                "–" if rate is None else interval(rate.low, rate.high),
                str(item.calls),
                money(item.cost_usd),
            ]
        )
    out.print(table(f"{traces} traces", columns, rows))
    for name, item in counts.items():
        for reason, number in item.invalid.most_common():
            example = one_line(item.examples.get(reason, ""), limit=120)
            out.print(f"{name}: {number} invalid: {harmless(reason)}" + (f", such as: {example}" if example else ""))
        for (decision, reason), number in item.decisions.most_common():
            said = f": {harmless(reason)}" if reason else ""
            out.print(f"{name}: {number} {decision.value.replace('_', ' ')}{said}")
        if item.reached < traces:
            out.print(f"{name}: {traces - item.reached} traces were not reached: the judge was gone")
        if item.decisions and any(decision is Decision.OVER_BUDGET for decision, _ in item.decisions):
            cap = (
                f"--max-calls {max_calls}"
                if max_calls is not None
                else f"--max-usd {max_usd}"
                if max_usd is not None
                else "its cap"
            )
            out.print(f"{name}: stopped at {cap} after {item.calls} calls; the rate is of the first traces only")
    for line in broken[:10]:
        out.print(f"line {line.number} cannot be read: {harmless(line.reason)}: {one_line(line.detail)}")
    if len(broken) > 10:
        out.print(f"... and {len(broken) - 10} more lines that cannot be read")
    out.print(f"results: {target}")


def _json(item: _Counts, traces: int) -> dict[str, Any]:
    return {
        "heuristic": item.heuristic,
        "passed": item.passed,
        "failed": item.failed,
        "invalid": dict(item.invalid),
        "not_judged": [
            {"decision": decision, "reason": reason, "traces": number}
            for (decision, reason), number in item.decisions.items()
        ],
        "pass_rate": item.rate,
        "not_reached": traces - item.reached,
        "calls": item.calls,
        "cost_usd": item.cost_usd,
    }
