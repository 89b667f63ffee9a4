"""`tracejudge replay`: stored traces judged again, under another judge, in a run of their own."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import click

from tracejudge.errors import NothingToDecide, SettingsError
from tracejudge.judging import JudgeSpec, RunCaps, check_caps
from tracejudge.replay import OpenRun, ReplayReport, Source, check_run_name, open_run, replay
from tracejudge.scores import LIVE_RUN
from tracejudge.store import Store, TraceFilter
from tracejudge_consumer.choosing.comparable import criterion_of
from tracejudge_consumer.choosing.judges import require_prices, resolve_judges
from tracejudge_consumer.choosing.named_slice import require_slice
from tracejudge_consumer.choosing.replay import check_pairs, choose, drawn, plans, source_of, with_fields
from tracejudge_consumer.process.collector import settled_heap
from tracejudge_consumer.process.judging_run import run_judging
from tracejudge_consumer.settings import Settings, load_settings
from tracejudge_consumer.terminal.exit_status import EXIT_DONE
from tracejudge_consumer.terminal.options import Moment, Number, check_order, config_option, json_option
from tracejudge_consumer.terminal.rendering import to_json
from tracejudge_consumer.views.replay import JudgingBar, tell, tell_plan
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

It first prints the estimated cost and time. Live scores, rates and alerts are never touched. A stopped or killed replay
continues when started again with the same --run: it keeps its selection and pays for no stored verdict twice. After a
kill (not a stop) the calls of the last second, including those in flight, may be missing from the count. --max-calls
and --max-usd apply to the whole run, across restarts, within the caps of the settings.
Exit status: 0 the whole selection is judged, 2 stopped at a cap, 75 judge unavailable or its replies unreadable.""",
)
@config_option
@json_option
@click.option("--judge", "judges", multiple=True, required=True, help="Judge: NAME from the settings, or FILE.toml.")
@click.option("--run", "run_id", required=True, help="Name of the run to store the scores in.")
@click.option(
    "--from",
    "files",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False),
    help="Read traces from this JSONL or Parquet file, not the store. Repeatable.",
)
@click.option("--since", type=Moment(), default=None, help="Only traces served at or after this time.  [default: all]")
@click.option("--until", type=Moment(), default=None, help="Only traces served before this time.  [default: all]")
@click.option(
    "--where", "fields", multiple=True, metavar="FIELD=VALUE", help="Only traces with this field value. Repeatable."
)
@click.option("--environment", default=None, help="Only this environment.")
@click.option("--app", default=None, help="Only this app.")
@click.option("--version", default=None, help="Only this release of the app.")
@click.option("--category", default=None, help="Only this category.")
@click.option(
    "--against",
    default=None,
    metavar="VERSION",
    help="Pairwise judges: compare with this version's answers (by case_id).",
)
@click.option(
    "--sample", type=click.IntRange(1, 1_000_000_000), default=None, help="Size of a random sample.  [default: all]"
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the sample.")
@click.option("--max-calls", type=click.IntRange(0), default=None, help="Maximum number of judge calls.")
@click.option("--max-usd", type=Number(0), default=None, help="Maximum spend, in USD.")
@click.option("--dry-run", is_flag=True, help="Print the estimate and exit.")
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
    """Judge stored traces again with another judge."""
    try:
        check_run_name(run_id)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--run") from error
    check_order(since, until)
    specs = resolve_judges(config, judges)
    where = TraceFilter(start=since, end=until, environment=environment, app=app, version=version, category=category)
    asked = choose(with_fields(where, fields), files, sample=sample, seed=seed, against=against)
    check_pairs(asked, specs)
    settings = load_settings(config, require_caps=False)
    caps = RunCaps(max_calls=max_calls, max_usd=max_usd)
    with connect_store(settings) as store:
        form = build_file_form(settings)
        run = open_run(store, run_id, specs=specs, selection=asked, caps=caps, now=store.clock.now())
        if not run.resumed:
            run = run.drawing(drawn(run.selection, store, form, app=app or "file"))
        source = source_of(run.selection, store, form, specs=specs, app=app or "file")
        count = source.count()
        if count == 0:
            if not files:
                require_slice(store, environment=environment, app=app)
            raise NothingToDecide(
                "no trace in this selection; " + _advice(where, fields)
                if against is None
                else f"{version!r} and {against!r} share no question: log both with one case_id per question"
            )
        plan = plans(specs, source, store, traces=count)
        if not as_json:
            tell_plan(plan, specs, count, run)
        if dry_run:
            if as_json:
                click.echo(to_json({"traces": count, "selection": run.selection.digest, "plan": plan}))
            return EXIT_DONE
        require_prices(specs, max_usd)
        if max_calls is None and max_usd is None:
            faults = check_caps(specs, estimates=[item.cost for item in plan])
            if faults:
                raise SettingsError([f"{fault} (or give --max-calls or --max-usd)" for fault in faults])
        with JudgingBar(count * len(specs), hidden=as_json) as progress, settled_heap():
            report = run_judging(_run(settings, store, specs, source, run, _left(caps, store, run_id), progress))
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
            clock=store.clock,
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


def _live_alike(store: Store, spec: JudgeSpec) -> frozenset[str]:
    """Names of the judges with live scores that `tracejudge compare` takes beside this one."""
    criteria = {name: criterion_of(store, LIVE_RUN, name) for name in store.scores.judge_names(LIVE_RUN)}
    return frozenset(
        name for name, theirs in criteria.items() if not (spec.criterion and theirs) or theirs == spec.criterion
    )
