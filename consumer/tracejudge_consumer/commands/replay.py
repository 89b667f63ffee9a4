"""`tracejudge replay`: stored traces judged again, under another judge, in a run of their own."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Callable
from datetime import datetime

import click
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

from tracejudge.clock import SystemClock
from tracejudge.counted import counted
from tracejudge.errors import NothingToDecide, SettingsError
from tracejudge.judging import JudgeSpec, RunCaps, check_caps
from tracejudge.replay import JudgePlan, OpenRun, ReplayReport, Source, check_run_name, open_run, replay
from tracejudge.scores import LIVE_RUN, Decision
from tracejudge.store import Store, TraceFilter
from tracejudge_consumer.cli import EXIT_DONE, EXIT_UNAVAILABLE, EXIT_UNDECIDED
from tracejudge_consumer.collector import settled_heap
from tracejudge_consumer.comparable import criterion_of
from tracejudge_consumer.judge_choice import judge_label, require_prices, resolve_judges
from tracejudge_consumer.options import DEFAULT_CONFIG, Moment, Number, config_option, json_option
from tracejudge_consumer.rendering import about, console, harmless, ident, money, progress_bar, to_json
from tracejudge_consumer.replay_choice import check_pairs, choose, drawn, plans, source_of, with_fields
from tracejudge_consumer.settings import Settings, load_settings
from tracejudge_consumer.wiring import build_file_form, build_panel, connect_store


@click.command(
    name="replay",
    epilog="""\b
Examples:
  tracejudge replay --judge faithfulness --since 30d --run try-1 --dry-run
  tracejudge replay --judge faithfulness --since 30d --run try-1 --max-usd 5
  tracejudge replay --judge new-judge.toml --where app=shop --where tags.tier=gold --run try-2
  tracejudge replay --judge new-judge.toml --since 90d --sample 2000 --seed 7 --run try-3
  tracejudge replay --judge lexical --from answers.jsonl --from more.parquet --run file-1
  tracejudge replay --judge duel --version v42 --against v41 --run duel-1   pairwise: whose answers are better?
  tracejudge compare live:lexical try-1

First it says what it would take. Live scores, rates and alerts are never touched. A replay that was stopped or killed
goes on where it was when it is started again with the same --run: it keeps its selection, and buys no stored verdict
twice. A kill (not a stop) may lose the calls of its last second from what is counted, those in flight among them.
--max-calls and --max-usd are of the whole run, however often it is started, within the caps of the settings.
Exit status: 0 the whole selection is judged, 2 stopped at a cap, 75 the judge is gone or unreadable.""",
)
@config_option
@json_option
@click.option("--judge", "judges", multiple=True, required=True, help="NAME from the settings, or FILE.toml.")
@click.option("--run", "run_id", required=True, help="Name of the run that keeps the scores.")
@click.option(
    "--from",
    "files",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False),
    help="Traces of this JSONL or Parquet file instead of the store's. May be repeated.",
)
@click.option("--since", type=Moment(), default=None, help="Only traces served from then on.  [default: all]")
@click.option("--until", type=Moment(), default=None, help="Only traces served before.  [default: all]")
@click.option("--where", "fields", multiple=True, metavar="FIELD=VALUE", help="Only traces with it. May be repeated.")
@click.option("--environment", default=None, help="Only this environment.")
@click.option("--app", default=None, help="Only this app.")
@click.option("--version", default=None, help="Only this release of the app.")
@click.option("--category", default=None, help="Only this category.")
@click.option("--against", default=None, metavar="VERSION", help="Pairwise judges: against its answers (case_id).")
@click.option(
    "--sample", type=click.IntRange(1, 1_000_000_000), default=None, help="So many of them, by chance.  [default: all]"
)
@click.option("--seed", type=int, default=0, show_default=True, help="The same seed draws the same sample.")
@click.option("--max-calls", type=click.IntRange(0), default=None, help="At most so many judge calls, then stop.")
@click.option("--max-usd", type=Number(0), default=None, help="At most so much money, then stop.")
@click.option("--dry-run", is_flag=True, help="Say what it would take, and stop.")
def command(
    config: str,
    as_json: bool,
    judges: tuple[str, ...],
    run_id: str,
    files: tuple[str, ...],
    since: datetime | None,
    until: datetime | None,
    fields: tuple[str, ...],
    environment: str | None,
    app: str | None,
    version: str | None,
    category: str | None,
    against: str | None,
    sample: int | None,
    seed: int,
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
    asked = choose(with_fields(where, fields), files, sample=sample, seed=seed, against=against)
    check_pairs(asked, specs)
    settings = load_settings(config, require_caps=False)
    caps = RunCaps(max_calls=max_calls, max_usd=max_usd)
    with connect_store(settings) as store:
        form = build_file_form(settings)
        run = open_run(store, run_id, specs=specs, selection=asked, caps=caps, now=SystemClock().now())
        if not run.resumed:
            run = run.drawing(drawn(run.selection, store, form, app=app or "file"))
        source = source_of(run.selection, store, form, specs=specs, app=app or "file")
        count = source.count()
        if count == 0:
            raise NothingToDecide(
                "no trace in this selection; " + _advice(where, fields)
                if against is None
                else f"{version!r} and {against!r} answered no question in common: log both with one case_id a question"
            )
        plan = plans(specs, source, store, traces=count)
        if not as_json:
            _tell_plan(plan, specs, count, run)
        if dry_run:
            if as_json:
                click.echo(to_json({"traces": count, "selection": run.selection.digest, "plan": plan}))
            return EXIT_DONE
        require_prices(specs, max_usd)
        if max_calls is None and max_usd is None:
            faults = check_caps(specs, estimates=[item.cost for item in plan])
            if faults:
                raise SettingsError([f"{fault} (or give --max-calls or --max-usd)" for fault in faults])
        with _Bar(count * len(specs), hidden=as_json) as progress, settled_heap():
            report = asyncio.run(_run(settings, store, specs, source, run, _left(caps, store, run_id), progress))
            live = _live_alike(store, specs[0])
    return tell(report, specs, run, live, selected=count, config=config, as_json=as_json)


def _advice(where: TraceFilter, fields: tuple[str, ...]) -> str:
    """What may be the matter with a selection that holds nothing, by what narrowed it."""
    tries = ["a longer --since"] if where.start is not None else []
    tries += ["a later --until"] if where.end is not None else []
    tries += [f"another --{name}" for name in ("environment", "app", "version", "category") if getattr(where, name)]
    tries += ["another --where"] if fields else []
    return "try " + ", or ".join(tries) if tries else "`tracejudge stats` says what is stored"


async def _run(
    settings: Settings,
    store: Store,
    specs: tuple[JudgeSpec, ...],
    source: Source,
    run: OpenRun,
    caps: RunCaps,
    progress: Callable[[ReplayReport], None],
) -> ReplayReport:
    panel = build_panel(settings, store, specs, caps=caps, patience_s=settings.consumer.judge_patience_s)
    try:
        return await replay(
            store,
            panel,
            specs=specs,
            source=source,
            run=run,
            clock=SystemClock(),
            progress=progress,
            live_lags=store.live_lags,
        )
    finally:
        await panel.close()


def _left(caps: RunCaps, store: Store, run_id: str) -> RunCaps:
    """The caps less what the run has spent in earlier attempts: a cap is of a run, not of a process."""
    spent = store.calls.of_run(run_id)
    return RunCaps(
        max_calls=None if caps.max_calls is None else max(0, caps.max_calls - spent.calls),
        max_usd=None if caps.max_usd is None else max(0.0, caps.max_usd - spent.usd),
    )


def _tell_plan(plan: tuple[JudgePlan, ...], specs: tuple[JudgeSpec, ...], count: int, run: OpenRun) -> None:
    if run.resumed:
        click.echo(f"run {run.run_id} is there already: it goes on, with the selection it had", err=True)
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
                else f"estimated from the texts, {reply} a reply assumed: too few calls of this judge are known"
            )
            click.echo(f"  tokens: {said}", err=True)
        known = (
            f"from {counted(item.measured_calls, 'measured call')}, median {item.median_ms:,.0f} ms"
            if item.measured_calls
            else f"no call of it was measured: {item.median_ms:,.0f} ms assumed"
        )
        times = ", ".join(f"{_time(one.seconds)} at {one.workers}" for one in item.expected)
        click.echo(f"  calls in flight: {times} ({known})", err=True)


def _time(seconds: float) -> str:
    if seconds < 1:
        return "under 1 s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _live_alike(store: Store, spec: JudgeSpec) -> frozenset[str]:
    """Names of the judges with live scores that `tracejudge compare` takes beside this one."""
    criteria = {name: criterion_of(store, LIVE_RUN, name) for name in store.scores.judge_names(LIVE_RUN)}
    return frozenset(
        name for name, theirs in criteria.items() if not (spec.criterion and theirs) or theirs == spec.criterion
    )


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
    """Says what became of a replay of `selected` traces, and gives the exit status."""
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
    out.print(f"  {report.passed} passed, {report.failed} failed, {report.invalid} invalid")
    if report.already_settled:
        out.print(f"  {report.already_settled} already settled")
    if report.already_decided:
        out.print(f"  {counted(report.already_decided, 'was', 'were')} invalid or not applicable before")
    if report.texts_expired:
        out.print(f"  {report.texts_expired} passed over: their texts are past their retention")
    for reason, number in report.invalid_reasons.items():
        out.print(f"  {number} invalid: {harmless(reason)}")
    for decision, number in report.decisions.items():
        out.print(f"  {number} {decision.value.replace('_', ' ')}")
    out.print(f"  {counted(report.calls, 'judge call')}, {money(report.cost_usd)}")
    if not_reached:
        out.print(f"  {counted(not_reached, 'trace')} of {selected} in the selection not reached")
    for text in report.gone:
        out.print(f"  stopped: {harmless(text)}")
        out.print("  the rest is undecided; start the same command again when the judge is back")
    if Decision.OVER_BUDGET in report.decisions:
        out.print("  stopped at its cap; the same command with a higher one goes on where this ended")
    if mute:
        # Pages of nothing are what comparing would show.
        out.print("  no verdict can be read: `tracejudge judges check` says whether this judge can judge at all")
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


class _Bar:
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
