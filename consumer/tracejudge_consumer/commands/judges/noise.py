"""`tracejudge judges noise`: how often a judge contradicts itself, and what a small difference would cost to see."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import click
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

from tracejudge.counted import counted
from tracejudge.errors import NothingToDecide, SettingsError
from tracejudge.judging import Estimate, JudgeSpec, RunCaps, check_caps, estimate
from tracejudge.replay.noise import NoiseRun, choose_traces, judge_repeatedly
from tracejudge.reports.noise import Noise, measure_noise, rows_paired, rows_unpaired
from tracejudge.scores import Decision
from tracejudge.store import Store, TraceFilter
from tracejudge_consumer.choosing.judges import judge_label, require_prices, resolve_judges
from tracejudge_consumer.choosing.named_slice import require_slice
from tracejudge_consumer.process.judging_run import run_judging
from tracejudge_consumer.settings import Settings, load_settings
from tracejudge_consumer.terminal.exit_status import EXIT_DONE, EXIT_UNAVAILABLE, EXIT_UNDECIDED
from tracejudge_consumer.terminal.options import Moment, Number, config_option, json_option
from tracejudge_consumer.terminal.rendering import (
    about,
    console,
    harmless,
    interval,
    money,
    percent,
    progress_bar,
    to_json,
)
from tracejudge_consumer.wiring import build_panel, connect_store
from tracejudge_sdk.trace import Trace

_ASSUMED_RATE: Final = 0.9
_FEW_TRACES: Final = 20


@click.command(
    name="noise",
    epilog="""\b
Examples:
  tracejudge judges noise faithfulness --dry-run         what it would cost, and how many rows 3 points need
  tracejudge judges noise faithfulness --traces 50 --repeats 5 --max-calls 250
  tracejudge judges noise my-judge.toml --difference 1 --max-usd 2

Judges stored traces several times with fresh calls. A noisy judge can give different verdicts on the same answer, so a
comparison needs enough rows to detect a difference. Scores are not stored, calls are.

\b
Exit status: 0 measured as asked, 2 stopped at a cap or no trace with two verdicts, 75 judge unavailable.""",
)
@click.argument("judge")
@config_option
@json_option
@click.option("--traces", type=click.IntRange(2, 5000), default=50, show_default=True, help="Number of stored traces.")
@click.option("--repeats", type=click.IntRange(2, 20), default=3, show_default=True, help="Verdicts per trace.")
@click.option(
    "--difference", type=Number(0.1, 50), default=3.0, show_default=True, help="Difference to detect, in points."
)
@click.option(
    "--since", type=Moment(), default="30d", show_default=True, help="Only traces served at or after this time."
)
@click.option("--environment", default=None, help="Only this environment.")
@click.option("--app", default=None, help="Only this app.")
@click.option("--max-calls", type=click.IntRange(0), default=None, help="Maximum number of judge calls.")
@click.option("--max-usd", type=Number(0), default=None, help="Maximum spend, in USD.")
@click.option("--dry-run", is_flag=True, help="Print the estimated cost and exit.")
def noise(
    judge: str,
    config: str,
    as_json: bool,
    traces: int,
    repeats: int,
    difference: float,
    since: datetime | None,
    environment: str | None,
    app: str | None,
    max_calls: int | None,
    max_usd: float | None,
    dry_run: bool,
) -> int:
    """Measure the noise of a judge, and how many rows a small difference needs."""
    (spec, *others) = resolve_judges(config, (judge,))
    if others:
        raise SettingsError([f"{judge}: has {len(others) + 1} judges; noise is measured for one at a time"])
    share = difference / 100.0
    where = TraceFilter(start=since, environment=environment, app=app)
    settings = load_settings(config, require_caps=False)
    with connect_store(settings) as store:
        chosen = choose_traces(store, where, traces=traces)
        if not chosen:
            require_slice(store, environment=environment, app=app)
            raise NothingToDecide(
                "no stored trace with its texts in this selection; try a longer --since, or another --app"
            )
        (once,) = estimate([spec], traces=chosen)
        plan = _times(once, repeats)
        before = {
            "assumed_pass_rate": _ASSUMED_RATE,
            "rows_unpaired": rows_unpaired(share, pass_rate=_ASSUMED_RATE),
            "rows_paired_at_least": rows_paired(share, discordant=share),
        }
        if not as_json:
            _tell_before(spec, plan, chosen, repeats=repeats, difference=difference, before=before)
        if dry_run:
            if as_json:
                click.echo(
                    to_json({"judge_id": spec.judge_id(), "traces": len(chosen), "plan": plan, "before": before})
                )
            return EXIT_DONE
        require_prices([spec], max_usd)
        if max_calls is None and max_usd is None and (faults := check_caps([spec], estimates=[plan])):
            raise SettingsError([f"{fault} (or give --max-calls or --max-usd)" for fault in faults])
        caps = RunCaps(max_calls=max_calls, max_usd=max_usd)
        run = run_judging(_run(settings, store, spec, chosen, repeats=repeats, caps=caps, hidden=as_json))
    found = measure_noise(run.scores, repeats=repeats)
    rows = _rows(found, share)
    if as_json:
        facts: dict[str, Any] = {"judge_id": spec.judge_id(), "heuristic": spec.heuristic, "noise": found, **rows}
        facts |= {"calls": run.calls, "cost_usd": run.cost_usd, "decisions": run.decisions, "gone": run.gone}
        click.echo(to_json({**facts, "difference": share, "before": before}))
    else:
        _tell(spec, found, run, rows, difference=difference)
    if run.gone:
        return EXIT_UNAVAILABLE
    # Stopped at a cap it has measured less than it was asked for, as a replay that is stopped there.
    whole = Decision.OVER_BUDGET not in run.decisions
    return EXIT_DONE if whole and found.agreement is not None else EXIT_UNDECIDED


async def _run(
    settings: Settings,
    store: Store,
    spec: JudgeSpec,
    traces: list[Trace],
    *,
    repeats: int,
    caps: RunCaps,
    hidden: bool,
) -> NoiseRun:
    panel = build_panel(settings, store, [spec], caps=caps, cached=False)
    columns = (TextColumn("judging"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    try:
        with progress_bar(*columns, hidden=hidden) as bar:
            task = bar.add_task("judging", total=len(traces) * repeats)
            return await judge_repeatedly(
                panel, spec, traces, repeats=repeats, store=store, progress=lambda done: bar.advance(task, done)
            )
    finally:
        await panel.close()


def _times(once: Estimate, repeats: int) -> Estimate:
    return Estimate(
        judge_name=once.judge_name,
        traces=once.traces,
        calls=once.calls * repeats,
        input_tokens=once.input_tokens * repeats,
        output_tokens=once.output_tokens * repeats,
        usd=None if once.usd is None else once.usd * repeats,
    )


def _rows(found: Noise, share: float) -> dict[str, int | None]:
    """Rows for the difference, as far as what was measured tells."""
    unpaired = None if found.pass_rate is None else rows_unpaired(share, pass_rate=found.pass_rate)
    paired = None if found.disagreement is None else rows_paired(share, discordant=found.disagreement + share)
    return {"rows_unpaired": unpaired, "rows_paired": paired}


def _tell_before(
    spec: JudgeSpec, plan: Estimate, traces: list[Trace], *, repeats: int, difference: float, before: dict[str, Any]
) -> None:
    cost = f"{counted(plan.calls, 'call')}, {about(plan.usd)}" if spec.calls_model else "no model, no cost"
    asked = f"{counted(len(traces), 'stored trace')}, {counted(repeats, 'time')} each"
    click.echo(f"{judge_label(spec)}: {asked}: {cost}", err=True)
    click.echo(
        f"{difference:g} points need {before['rows_unpaired']:,} rows a side where the questions differ (at a pass "
        f"rate of {_ASSUMED_RATE:.0%}), and at least {before['rows_paired_at_least']:,} where they are the same: more, "
        "the noisier the judge",
        err=True,
    )


def _tell(spec: JudgeSpec, found: Noise, run: NoiseRun, rows: dict[str, int | None], *, difference: float) -> None:
    out = console()
    out.print(f"{judge_label(spec)}  {spec.judge_id()}")
    out.print(f"  verdicts          {found.verdicts} on {counted(found.traces, 'trace')}, {found.invalid} invalid")
    if found.agreement is None:
        out.print("  not enough data: no trace has two settled verdicts")
    else:
        out.print(f"  self-agreement    {percent(found.agreement)} of pairs of verdicts on one trace")
        out.print(
            f"  all the same on   {counted(found.unanimous, 'trace')} "
            f"({interval(found.unanimous_low, found.unanimous_high)} %)"
        )
        out.print(f"  pass rate         {percent(found.pass_rate)}")
        if found.score_sd:
            out.print(f"  spread of scores  {found.score_sd:.3f} (standard deviation within a trace)")
        out.print(
            f"  {difference:g} points need     {rows['rows_unpaired']:,} rows on each side, different questions; "
            f"{rows['rows_paired']:,} questions judged under both"
        )
        if found.traces < _FEW_TRACES:
            out.print(f"  {counted(found.traces, 'trace is', 'traces are')} few: take these figures as a rough guide")
    for decision, number in run.decisions.items():
        out.print(f"  {number} without a verdict: {decision.value.replace('_', ' ')}")
    for text in run.gone:
        out.print(f"  stopped: {harmless(text)}")
    out.print(f"  {counted(run.calls, 'call')}, {money(run.cost_usd)}")
