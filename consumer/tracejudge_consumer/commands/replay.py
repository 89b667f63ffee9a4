"""`tracejudge replay`: stored traces judged again, under another judge, in a run of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime

import click
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

from tracejudge.clock import SystemClock
from tracejudge.errors import NotFound, SettingsError
from tracejudge.judging import JudgeSpec, RunCaps, check_caps
from tracejudge.judging.cost import Estimate, estimate
from tracejudge.replay import ReplayReport, check_run_name, replay
from tracejudge.scores import LIVE_RUN, Decision
from tracejudge.store import Store, TraceFilter
from tracejudge_consumer.cli import EXIT_DONE, EXIT_UNAVAILABLE
from tracejudge_consumer.judge_choice import judge_label, require_prices, resolve_judges
from tracejudge_consumer.options import Moment, config_option, json_option
from tracejudge_consumer.rendering import console, harmless, money, progress_bar, to_json
from tracejudge_consumer.settings import Settings, load_settings
from tracejudge_consumer.wiring import build_panel, connect_store
from tracejudge_sdk.trace import Trace


@click.command(
    name="replay",
    epilog="""\b
Examples:
  tracejudge replay --judge faithfulness --since 30d --run try-1 --dry-run
  tracejudge replay --judge faithfulness --since 30d --run try-1
  tracejudge replay --judge new-judge.toml --app shop --run try-2
  tracejudge compare live:lexical try-1

Live scores, rates and alerts are never touched. A replay that was stopped goes on where it was when it is
started again with the same --run.""",
)
@config_option
@json_option
@click.option("--judge", "judges", multiple=True, required=True, help="NAME from the settings, or FILE.toml.")
@click.option("--run", "run_id", required=True, help="Name of the run that keeps the scores.")
@click.option("--since", type=Moment(), default=None, help="Only traces served from then on.  [default: all]")
@click.option("--until", type=Moment(), default=None, help="Only traces served before.  [default: all]")
@click.option("--environment", default=None, help="Only this environment.")
@click.option("--app", default=None, help="Only this app.")
@click.option("--version", default=None, help="Only this release of the app.")
@click.option("--category", default=None, help="Only this category.")
@click.option("--max-calls", type=click.IntRange(0), default=None, help="At most so many judge calls, then stop.")
@click.option("--max-usd", type=click.FloatRange(0), default=None, help="At most so much money, then stop.")
@click.option("--dry-run", is_flag=True, help="Say what it would cost, and stop.")
def command(
    config: str,
    as_json: bool,
    judges: tuple[str, ...],
    run_id: str,
    since: datetime | None,
    until: datetime | None,
    environment: str | None,
    app: str | None,
    version: str | None,
    category: str | None,
    max_calls: int | None,
    max_usd: float | None,
    dry_run: bool,
) -> int:
    """Judge stored traces again, under another judge."""
    try:
        check_run_name(run_id)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--run") from error
    specs = resolve_judges(config, judges)
    where = TraceFilter(start=since, end=until, environment=environment, app=app, version=version, category=category)
    settings = load_settings(config, require_caps=False)
    with connect_store(settings) as store:
        count = store.traces.count(where)
        if count == 0:
            raise NotFound("no stored trace in this selection; try a longer --since, or another --app")
        plan = estimate(specs, traces=_sample(store, where))
        factor = count / max(1, plan[0].traces)
        plan = tuple(_scaled(item, factor, count) for item in plan)
        if not as_json:
            for item in plan:
                label = next(judge_label(spec) for spec in specs if spec.name == item.judge_name)
                click.echo(f"{label}: {count} traces, {item.calls} calls, about {money(item.usd)}", err=True)
        if dry_run:
            if as_json:
                click.echo(to_json({"traces": count, "plan": plan}))
            return EXIT_DONE
        require_prices(specs, max_usd)
        if max_calls is None and max_usd is None:
            faults = check_caps(specs, estimates=plan)
            if faults:
                raise SettingsError([f"{fault} (or give --max-calls or --max-usd)" for fault in faults])
        caps = RunCaps(max_calls=max_calls, max_usd=max_usd)
        with _Bar(count * len(specs), hidden=as_json) as progress:
            report = asyncio.run(_run(settings, store, specs, where, run_id, caps, progress))
            live = frozenset(store.scores.judge_names(LIVE_RUN))
    return _tell(report, specs, run_id, live, as_json=as_json)


async def _run(
    settings: Settings,
    store: Store,
    specs: tuple[JudgeSpec, ...],
    where: TraceFilter,
    run_id: str,
    caps: RunCaps,
    progress: Callable[[ReplayReport], None],
) -> ReplayReport:
    panel = build_panel(settings, store, specs, caps=caps, patience_s=settings.consumer.judge_patience_s)
    try:
        return await replay(
            store,
            panel,
            specs=specs,
            where=where,
            run_id=run_id,
            clock=SystemClock(),
            progress=progress,
            live_lags=store.live_lags,
        )
    finally:
        await panel.close()


def _sample(store: Store, where: TraceFilter) -> list[Trace]:
    """The first traces of the selection: enough to know their length."""
    for batch in store.traces.stream(where, batch=200):
        return [stored.trace for stored in batch]
    return []


def _scaled(item: Estimate, factor: float, count: int) -> Estimate:
    return Estimate(
        judge_name=item.judge_name,
        traces=count,
        calls=round(item.calls * factor),
        input_tokens=round(item.input_tokens * factor),
        output_tokens=round(item.output_tokens * factor),
        usd=None if item.usd is None else item.usd * factor,
    )


def _tell(
    report: ReplayReport, specs: tuple[JudgeSpec, ...], run_id: str, live: frozenset[str], *, as_json: bool
) -> int:
    if as_json:
        judges = [{"judge_id": spec.judge_id(), "heuristic": spec.heuristic} for spec in specs]
        click.echo(to_json({"run": run_id, "judges": judges, **report.as_dict()}))
    else:
        out = console()
        out.print(f"run {run_id} by {', '.join(map(judge_label, specs))}: {report.traces} traces")
        out.print(f"  {report.passed} passed, {report.failed} failed, {report.invalid} invalid")
        out.print(f"  {report.already_settled} already settled")
        if report.texts_expired:
            out.print(f"  {report.texts_expired} passed over: their texts are past their retention")
        for reason, number in report.invalid_reasons.items():
            out.print(f"  {number} invalid: {harmless(reason)}")
        for decision, number in report.decisions.items():
            out.print(f"  {number} {decision.value.replace('_', ' ')}")
        out.print(f"  {report.calls} judge calls, {money(report.cost_usd)}")
        for text in report.gone:
            out.print(f"  stopped: {harmless(text)}")
            out.print("  the rest is undecided; start the same command again when the judge is back")
        if Decision.OVER_BUDGET in report.decisions:
            out.print("  stopped at its cap; the same command with a higher one goes on where this ended")
        if not report.gone and live:
            other = specs[0].name if specs[0].name in live else min(live)
            out.print(f"next: tracejudge compare live:{other} {run_id}:{specs[0].name}")
    return EXIT_UNAVAILABLE if report.gone else EXIT_DONE


class _Bar:
    def __init__(self, total: int, *, hidden: bool) -> None:
        columns = (TextColumn("judging"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._progress = progress_bar(*columns, hidden=hidden)
        self._total = total

    def __enter__(self) -> Callable[[ReplayReport], None]:
        self._progress.start()
        task = self._progress.add_task("judging", total=self._total)

        def show(report: ReplayReport) -> None:
            done = report.texts_expired + report.passed + report.failed + report.invalid + report.already_settled
            self._progress.update(task, completed=done + sum(report.decisions.values()))

        return show

    def __exit__(self, *_: object) -> None:
        self._progress.stop()
