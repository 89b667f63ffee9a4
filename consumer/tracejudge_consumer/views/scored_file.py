"""What `tracejudge score` prints: the plan before anything is judged, and what became of each trace."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any, Final

import click

from tracejudge.counted import counted
from tracejudge.datasets import BrokenLine
from tracejudge.judging import Estimate, JudgeSpec, RunCaps
from tracejudge.scores import Decision
from tracejudge_consumer.choosing.judges import judge_label
from tracejudge_consumer.files.scores import EngineChoice, FileCounts, FileScores
from tracejudge_consumer.terminal.fitting import FittedTable
from tracejudge_consumer.terminal.rendering import about, console, harmless, interval, money, one_line, percent, table

# Where no latency is known yet: a middling hosted model on a prompt of five passages.
_SECONDS_PER_CALL: Final = 2.0


def engine_facts(engine: EngineChoice, found: FileScores) -> dict[str, Any]:
    """What the query engine did, as the manifest and --json have it."""
    latencies = sorted(found.answer_latencies_ms)
    return {
        "path": engine.path,
        "concurrency": engine.concurrency,
        "timeout_s": engine.timeout_s,
        "answered": len(latencies),
        "errors": found.engine_errors,
        "latency_ms": None if not latencies else {"median": median(latencies), "p95": p95(latencies)},
    }


def p95(ordered: Sequence[float]) -> float:
    """The smallest of these values, in order, that at least 95 % of them do not exceed (nearest rank)."""
    return ordered[-(-19 * len(ordered) // 20) - 1]


def engine_line(asked: dict[str, Any]) -> str:
    """The same for people."""
    latency = asked["latency_ms"]
    took = f", median {latency['median']:,.0f} ms, p95 {latency['p95']:,.0f} ms" if latency is not None else ""
    return f"engine {asked['path']}: {counted(asked['answered'], 'answer')}, {counted(asked['errors'], 'error')}{took}"


def tell_plan(plan: tuple[Estimate, ...], traces: int, specs: tuple[JudgeSpec, ...]) -> None:
    """Calls, time and cost of each judge, on stderr."""
    slots = {spec.name: spec.concurrency for spec in specs}
    labels = {spec.name: judge_label(spec) for spec in specs}
    for item in plan:
        seconds = item.calls * _SECONDS_PER_CALL / slots[item.judge_name]
        cost = (
            "no model, no cost"
            if item.calls == 0
            else f"{counted(item.calls, 'call')}, about {seconds:.0f} s, {about(item.usd)}"
        )
        click.echo(f"{labels[item.judge_name]}: {counted(traces, 'trace')}, {cost}", err=True)
        if item.input_tokens:
            tokens = f"{item.input_tokens:,} in, {item.output_tokens:,} out"
            reply = item.output_tokens // item.calls
            click.echo(f"  tokens: {tokens}, estimated from the texts with {reply} a reply assumed", err=True)


def tell(counts: dict[str, FileCounts], traces: int, broken: list[BrokenLine], caps: RunCaps) -> None:
    """A line for each judge, then why traces have no verdict, and the lines that could not be read."""
    out = console()
    out.print(_table(counts, traces))
    for name, item in counts.items():
        _tell_unjudged(_label(name, item), item, traces, caps)
    for line in broken[:10]:
        out.print(f"line {line.number} cannot be read: {harmless(line.reason)}: {one_line(line.detail)}")
    if len(broken) > 10:
        out.print(f"... and {counted(len(broken) - 10, 'more unreadable line')}")


def _label(name: str, item: FileCounts) -> str:
    return name + (" (heuristic)" if item.heuristic else "")


def _table(counts: dict[str, FileCounts], traces: int) -> FittedTable:
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
                _label(name, item),
                *map(str, numbers),
                "no data" if rate is None else percent(rate.estimate),
                "–" if rate is None else interval(rate.low, rate.high),
                str(item.calls),
                money(item.cost_usd),
            ]
        )
    return table(counted(traces, "trace"), columns, rows)


def _tell_unjudged(label: str, item: FileCounts, traces: int, caps: RunCaps) -> None:
    out = console()
    for reason, number in item.invalid.most_common():
        example = one_line(item.examples.get(reason, ""), limit=120)
        out.print(f"{label}: {number} invalid: {harmless(reason)}" + (f", such as: {example}" if example else ""))
    for (decision, reason), number in item.decisions.most_common():
        said = f": {harmless(reason)}" if reason else ""
        out.print(f"{label}: {number} {decision.value.replace('_', ' ')}{said}")
    if item.reached < traces:
        missed = counted(traces - item.reached, "trace was", "traces were")
        out.print(f"{label}: {missed} not reached: judge unavailable")
    if any(decision is Decision.OVER_BUDGET for decision, _ in item.decisions):
        calls = counted(item.calls, "call")
        out.print(f"{label}: stopped at {_cap(caps)} after {calls}; the rate covers the first traces only")


def _cap(caps: RunCaps) -> str:
    if caps.max_calls is not None:
        return f"--max-calls {caps.max_calls}"
    return "its cap" if caps.max_usd is None else f"--max-usd {caps.max_usd}"
