"""What a replay says: what it would take, how far it is, and what became of it."""

from __future__ import annotations

import shlex
from collections.abc import Callable

import click
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

from tracejudge.counted import counted
from tracejudge.judging import JudgeSpec
from tracejudge.replay import JudgePlan, OpenRun, ReplayReport
from tracejudge.scores import Decision
from tracejudge_consumer.choosing.judges import judge_label
from tracejudge_consumer.terminal.exit_status import EXIT_DONE, EXIT_UNAVAILABLE, EXIT_UNDECIDED
from tracejudge_consumer.terminal.options import DEFAULT_CONFIG
from tracejudge_consumer.terminal.rendering import about, console, harmless, ident, money, progress_bar, to_json


def tell_plan(plan: tuple[JudgePlan, ...], specs: tuple[JudgeSpec, ...], count: int, run: OpenRun) -> None:
    if run.resumed:
        click.echo(f"run {run.run_id} already exists: continuing it with its selection", err=True)
        click.echo("  the estimate is for the whole selection; verdicts it already has are not bought again", err=True)
    labels = {spec.name: judge_label(spec) for spec in specs}
    for item in plan:
        cost, label = item.cost, labels[item.cost.judge_name]
        if not cost.calls:
            click.echo(f"{label}: {counted(count, 'trace')}, no model, no cost", err=True)
            continue
        tokens = f"{cost.input_tokens:,} tokens in, {cost.output_tokens:,} out, " if cost.input_tokens else ""
        click.echo(
            f"{label}: {counted(count, 'trace')}, {counted(cost.calls, 'call')}, {tokens}{about(cost.usd)}", err=True
        )
        if cost.input_tokens:
            reply = cost.output_tokens // cost.calls
            said = (
                f"as in {counted(item.token_calls, 'measured call')} of this judge"
                if item.token_calls
                else f"estimated from the texts, assuming {reply} per reply: too few past calls of this judge"
            )
            click.echo(f"  tokens: {said}", err=True)
        known = (
            f"from {counted(item.measured_calls, 'measured call')}, median {item.median_ms:,.0f} ms"
            if item.measured_calls
            else f"no call measured: {item.median_ms:,.0f} ms assumed"
        )
        times = ", ".join(f"{_time(one.seconds)} at {one.workers}" for one in item.expected)
        click.echo(f"  calls in flight: {times} ({known})", err=True)


def _time(seconds: float) -> str:
    if seconds < 1:
        return "under 1 s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def tell(
    report: ReplayReport,
    specs: tuple[JudgeSpec, ...],
    run: OpenRun,
    live: frozenset[str],
    *,
    selected: int,
    config: str,
    as_json: bool,
) -> int:
    """Shows the outcome of a replay of `selected` traces; returns the exit status."""
    run_id = run.run_id
    not_reached = 0 if report.complete else max(0, selected - report.traces)
    # What a cap cut off is missing: nobody should go on to compare half a run and call it the whole.
    capped = EXIT_UNDECIDED if Decision.OVER_BUDGET in report.decisions else EXIT_DONE
    # Every verdict invalid says nothing about the answers and much about the judge.
    mute = bool(report.invalid) and not (report.passed or report.failed or report.already_settled)
    status = EXIT_UNAVAILABLE if report.gone or mute else capped
    if as_json:
        judges = [{"judge_id": spec.judge_id(), "heuristic": spec.heuristic} for spec in specs]
        told = {"run": run_id, "judges": judges, "selection": run.selection.digest, **report.as_dict()}
        told |= {"selected": selected, "not_reached": not_reached}
        click.echo(to_json(told))
        return status
    out = console()
    out.print(f"run {run_id} by {', '.join(map(judge_label, specs))}: {counted(report.traces, 'trace')}")
    out.print(f"  verdicts: {report.passed} passed, {report.failed} failed, {report.invalid} invalid")
    if report.already_settled:
        out.print(f"  {report.already_settled} already settled")
    if report.already_decided:
        out.print(f"  {counted(report.already_decided, 'was', 'were')} invalid or not applicable before")
    if report.texts_expired:
        out.print(f"  {report.texts_expired} skipped: their texts are past their retention")
    for reason, number in report.invalid_reasons.items():
        out.print(f"  {number} invalid: {harmless(reason)}")
    for decision, number in report.decisions.items():
        out.print(f"  {number} {decision.value.replace('_', ' ')}")
    out.print(f"  {counted(report.calls, 'judge call')}, {money(report.cost_usd)}")
    if not_reached:
        out.print(f"  {counted(not_reached, 'trace')} of {selected} in the selection not reached")
    for text in report.gone:
        out.print(f"  stopped: {harmless(text)}")
        out.print("  the rest is undecided; repeat the command when the judge is available again")
    if Decision.OVER_BUDGET in report.decisions:
        out.print("  stopped at its cap; repeat the command with a higher cap to continue")
    if mute:
        # Pages of nothing are what comparing would show.
        out.print("  no readable verdict: `tracejudge judges check` shows whether this judge works at all")
        return status
    # With the settings that this was typed with: without them the next command would look elsewhere.
    typed = "" if config == DEFAULT_CONFIG else f" -c {ident(shlex.quote(config))}"
    if run.selection.against is not None:
        versions = f"{ident(run.selection.against)} {ident(run.selection.where.version or '')}"
        out.print(f"next: tracejudge compare {versions} --cases --judge {specs[0].name} --run {run_id}{typed}")
    elif not report.gone and live:
        other = specs[0].name if specs[0].name in live else min(live)
        out.print(f"next: tracejudge compare {ident(f'live:{other}')} {run_id}:{specs[0].name}{typed}")
    elif not report.gone:
        # No live judge measures the same, so there is nothing to compare with.
        out.print(f"next: tracejudge rates --run {run_id} --judge {ident(specs[0].name)} --since 30d --step 1d{typed}")
    return status


class JudgingBar:
    def __init__(self, total: int, *, hidden: bool) -> None:
        columns = (TextColumn("judging"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[told]}"))
        self._progress = progress_bar(*columns, TimeRemainingColumn(), hidden=hidden)
        self._total = total

    def __enter__(self) -> Callable[[ReplayReport], None]:
        self._progress.start()
        task = self._progress.add_task("judging", total=self._total, told="")

        def show(report: ReplayReport) -> None:
            speed = self._progress.tasks[task].speed
            told = [] if speed is None else [f"{speed:,.0f}/s"]
            if report.calls:
                told.append(money(report.cost_usd))
            if report.failed_calls:
                told.append(counted(report.failed_calls, "error"))
            self._progress.update(task, completed=report.done + report.texts_expired, told="  ".join(told))

        return show

    def __exit__(self, *_: object) -> None:
        self._progress.stop()
