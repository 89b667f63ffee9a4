"""`tracejudge score`: a file of traces judged here and now, without queue and store."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from statistics import median
from typing import Any, Final

import click
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

from tracejudge.counted import counted
from tracejudge.datasets import BrokenLine
from tracejudge.errors import CheckFailed, NothingToDecide, SettingsError
from tracejudge.judging import Estimate, JudgeSpec, PanelResult, RunCaps, check_caps, estimate
from tracejudge.judging.query_engine import load_engine
from tracejudge.scores import Decision
from tracejudge_consumer.choosing.judges import check_pairwise, judge_label, require_prices, resolve_judges
from tracejudge_consumer.files.form import FileForm
from tracejudge_consumer.files.output import default_output, open_rows, write_manifest
from tracejudge_consumer.files.paired_lines import paired
from tracejudge_consumer.files.scores import EngineChoice, FileCounts, FileScores, plan_file, score_file
from tracejudge_consumer.settings import load_settings
from tracejudge_consumer.terminal.exit_status import EXIT_DONE, EXIT_UNAVAILABLE, EXIT_UNDECIDED
from tracejudge_consumer.terminal.options import Number, OutFile, config_option, json_option
from tracejudge_consumer.terminal.rendering import (
    about,
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
from tracejudge_consumer.wiring import build_file_form

# Where no latency is known yet: a middling hosted model on a prompt of five passages.
_SECONDS_PER_CALL: Final = 2.0


@click.command(
    name="score",
    epilog="""\b
Examples:
  tracejudge score answers.jsonl                       the lexical heuristic: free, no key
  tracejudge score answers.jsonl --judge faithfulness --max-usd 1
  tracejudge score answers.jsonl.gz --judge my-judge.toml --max-calls 40 --output verdicts.parquet
  tracejudge score questions.jsonl --engine my_app.rag:build_engine --engine-concurrency 8
  tracejudge score new.jsonl --judge duel --against old.jsonl --max-usd 1   pairwise: whose answers are better?

One JSON object per line: {"query": "...", "response": "...", "source_nodes": ["passage", ...]}. It first prints the
estimated cost; a judge that calls a model needs a cap, here (--max-usd, --max-calls) or in the settings. With --engine
each query is first answered by your own LlamaIndex query engine, and that answer is judged.
OUTPUT.manifest.json, next to the results, records what was judged, by which judge, with which outcome.
Exit status: 0 every readable trace was reached (unreadable lines are reported, and are `broken` in the manifest and
in --json), 2 stopped at a cap, 75 judge unavailable or no reply readable.""",
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@config_option
@json_option
@click.option(
    "--judge", "judges", multiple=True, default=("lexical",), show_default=True, help="Judge: NAME or FILE.toml."
)
@click.option(
    "--against",
    type=click.Path(exists=True, dir_okay=False),
    default=None,
    help="Pairwise judges: compare with this file's answers, by case_id.  [default: with each line's reference]",
)
@click.option("--max-calls", type=click.IntRange(0), default=None, help="Maximum number of judge calls in this run.")
@click.option("--max-usd", type=Number(0), default=None, help="Maximum spend in this run, in USD.")
@click.option("--app", default="file", show_default=True, help="App of lines without one.")
@click.option(
    "--output",
    "-o",
    type=OutFile(),
    default=None,
    help="Results file: JSON lines, or Parquet if it ends in .parquet.  [default: FILE.scores.jsonl, with the judge's "
    "name added if that file holds another judge's results]",
)
@click.option("--engine", "engine_path", default=None, help="Query engine, or factory of one, as package.module:name.")
@click.option(
    "--engine-concurrency",
    type=click.IntRange(1, 1000),
    default=4,
    show_default=True,
    help="Concurrent queries to the engine.",
)
@click.option(
    "--engine-timeout", type=Number(0.1), default=120.0, show_default=True, help="Timeout of one query, in seconds."
)
@click.option("--dry-run", is_flag=True, help="Print the estimated cost and exit.")
def command(
    file: str,
    config: str,
    as_json: bool,
    judges: tuple[str, ...],
    against: str | None,
    max_calls: int | None,
    max_usd: float | None,
    app: str,
    output: str | None,
    engine_path: str | None,
    engine_concurrency: int,
    engine_timeout: float,
    dry_run: bool,
) -> int:
    """Judge a file of traces: no queue, no store."""
    specs = resolve_judges(config, judges)
    path = Path(file)
    broken: list[BrokenLine] = []
    # Judging without settings is a first step; with them, the file may be in the form that they describe.
    known = Path(config).exists()
    form = build_file_form(load_settings(config, require_caps=False, connects=False)) if known else FileForm()
    if against is not None:
        check_pairwise(specs)
        if engine_path is not None:
            raise click.UsageError("--against compares existing answers: omit --engine")
        form = paired(form, Path(against), app=app)
    plan, traces = plan_file(path, app, specs, broken, form=form)
    if engine_path is not None:
        # What the engine will answer is not known yet.
        plan = estimate(specs, traces_per_day=traces)
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
        found = f": {counted(len(broken), 'line')} unreadable, the first: {broken[0].detail}" if broken else ""
        if against is not None and not broken:
            raise NothingToDecide(f"{path} and {against} share no question: give it the same app and case_id in both")
        nothing = CheckFailed if broken else NothingToDecide
        raise nothing(f"{path}: contains no trace{found}; --help shows the line format")
    target = Path(output) if output else default_output(path, specs)
    if target.exists() and target.samefile(path):
        raise click.BadParameter("is the input itself; name another file", param_hint="--output")
    engine = _engine(engine_path, engine_concurrency, engine_timeout)
    try:
        out = open_rows(target)
    except OSError as error:
        raise click.BadParameter(f"{target}: {error.strerror}", param_hint="--output") from error
    caps = RunCaps(max_calls=max_calls, max_usd=max_usd)
    columns = (
        TextColumn("judging"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[cost]}"),
    )
    started_at = datetime.now(timezone.utc)
    with out, progress_bar(*columns, hidden=as_json) as progress:
        task = progress.add_task("judging", total=traces, cost="")
        spent = [0.0]

        def advance(result: PanelResult, judged: int) -> None:
            spent[0] += sum(call.cost_usd or 0.0 for call in result.calls)
            progress.update(task, advance=judged, cost=money(spent[0]) if spent[0] else "")
            for error in result.gone:
                click.echo(f"error: {harmless(str(error))}", err=True)

        done = asyncio.run(
            score_file(path, out, app=app, form=form, specs=specs, caps=caps, engine=engine, advance=advance)
        )
    counts = done.counts
    facts = {
        "traces": traces,
        "broken": len(broken),
        "started_at": started_at,
        "finished_at": datetime.now(timezone.utc),
        "results": {name: item.as_dict(traces) for name, item in counts.items()},
    }
    asked = None if engine is None else _engine_facts(engine, done)
    manifest = write_manifest(target, source=path, specs=specs, caps=caps, engine=asked, facts=facts)
    # Every trace invalid says nothing about the answers and much about the judge.
    whole = all(
        item.reached == traces
        and item.invalid.total() < traces
        and not any(decision is Decision.UNDECIDED for decision, _ in item.decisions)
        for item in counts.values()
    )
    stopped = any(decision is Decision.OVER_BUDGET for item in counts.values() for decision, _ in item.decisions)
    status = EXIT_UNAVAILABLE if not whole else EXIT_UNDECIDED if stopped else EXIT_DONE
    if as_json:
        click.echo(to_json({"file": file, "traces": traces, "broken": len(broken), "output": str(target),
                            "manifest": str(manifest), "engine": asked,
                            "judges": {name: item.as_dict(traces) for name, item in counts.items()}}))  # fmt: skip
        return status
    if asked is not None:
        click.echo(_engine_line(asked))
    _tell(counts, traces, broken, target, max_calls=max_calls, max_usd=max_usd)
    return status


def _engine(path: str | None, concurrency: int, timeout_s: float) -> EngineChoice | None:
    if path is None:
        return None
    # As `python -m` does: one's own module beside one's files is found.
    sys.path.insert(0, str(Path.cwd()))
    return EngineChoice(path=path, engine=load_engine(path), concurrency=concurrency, timeout_s=timeout_s)


def _engine_facts(engine: EngineChoice, found: FileScores) -> dict[str, Any]:
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


def _engine_line(asked: dict[str, Any]) -> str:
    latency = asked["latency_ms"]
    took = f", median {latency['median']:,.0f} ms, p95 {latency['p95']:,.0f} ms" if latency is not None else ""
    return f"engine {asked['path']}: {counted(asked['answered'], 'answer')}, {counted(asked['errors'], 'error')}{took}"


def _tell_plan(plan: tuple[Estimate, ...], traces: int, specs: tuple[JudgeSpec, ...]) -> None:
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


def _tell(
    counts: dict[str, FileCounts],
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
    labels = [name + (" (heuristic)" if item.heuristic else "") for name, item in counts.items()]
    rows = []
    for label, item in zip(labels, counts.values(), strict=True):
        rate = item.rate
        numbers = (item.passed, item.failed, item.invalid.total(), item.decisions.total())
        rows.append(
            [
                label,
                *map(str, numbers),
                "no data" if rate is None else percent(rate.estimate),
                "–" if rate is None else interval(rate.low, rate.high),
                str(item.calls),
                money(item.cost_usd),
            ]
        )
    out.print(table(counted(traces, "trace"), columns, rows))
    for label, item in zip(labels, counts.values(), strict=True):
        for reason, number in item.invalid.most_common():
            example = one_line(item.examples.get(reason, ""), limit=120)
            out.print(f"{label}: {number} invalid: {harmless(reason)}" + (f", such as: {example}" if example else ""))
        for (decision, reason), number in item.decisions.most_common():
            said = f": {harmless(reason)}" if reason else ""
            out.print(f"{label}: {number} {decision.value.replace('_', ' ')}{said}")
        if item.reached < traces:
            out.print(
                f"{label}: {counted(traces - item.reached, 'trace was', 'traces were')} not reached: judge unavailable"
            )
        if item.decisions and any(decision is Decision.OVER_BUDGET for decision, _ in item.decisions):
            cap = (
                f"--max-calls {max_calls}"
                if max_calls is not None
                else f"--max-usd {max_usd}"
                if max_usd is not None
                else "its cap"
            )
            out.print(
                f"{label}: stopped at {cap} after {counted(item.calls, 'call')}; the rate covers the first traces only"
            )
    for line in broken[:10]:
        out.print(f"line {line.number} cannot be read: {harmless(line.reason)}: {one_line(line.detail)}")
    if len(broken) > 10:
        out.print(f"... and {counted(len(broken) - 10, 'more unreadable line')}")
    out.print(f"results: {target}")
