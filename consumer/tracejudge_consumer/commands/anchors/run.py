"""`tracejudge anchors run`: a round by hand."""

from __future__ import annotations

from typing import Any

import click
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

from tracejudge.anchors import AnchorRound, AnchorSet
from tracejudge.counted import counted
from tracejudge.errors import ServiceUnavailable, SettingsError
from tracejudge.judging import JudgeSpec, RunCaps, check_caps, estimate
from tracejudge.store import Store
from tracejudge_consumer.alerting.leadership import Leadership
from tracejudge_consumer.anchors.lease import anchor_lease
from tracejudge_consumer.anchors.report import JudgeReport, judge_report, report_lines
from tracejudge_consumer.anchors.watch import make_round, new_round
from tracejudge_consumer.choosing.judges import judge_label, require_prices, resolve_judges
from tracejudge_consumer.settings import Settings, load_settings
from tracejudge_consumer.terminal.exit_status import EXIT_DONE, EXIT_UNAVAILABLE, EXIT_UNDECIDED
from tracejudge_consumer.terminal.options import Number, config_option, json_option
from tracejudge_consumer.terminal.rendering import console, harmless, ident, money, progress_bar, to_json
from tracejudge_consumer.wiring import anchor_judges, build_panel, connect_store


@click.command(
    name="run",
    epilog="""\b
Examples:
  tracejudge anchors run                      the set and the judges of the settings
  tracejudge anchors run golden --judge faithfulness --max-calls 200
  tracejudge anchors run golden --judge candidate.toml --max-usd 1

Every verdict is a fresh call, never from the cache. Later rounds of a JudgeId are compared with its first one. Only one
process at a time judges a set with a judge: during a round of `watch` this command is refused (exit 75). The alert loop
reads the round within a minute; its detector decides whether the judge moved.""",
)
@click.argument("name", required=False)
@config_option
@json_option
@click.option(
    "--judge", "wanted", multiple=True, help="Judge: NAME or FILE.toml. Repeatable.  [default: the settings']"
)
@click.option("--max-calls", type=click.IntRange(0), default=None, help="Maximum number of judge calls.")
@click.option("--max-usd", type=Number(0), default=None, help="Maximum spend, in USD.")
@click.option("--dry-run", is_flag=True, help="Print the estimated cost and exit.")
def run_anchors(
    name: str | None,
    config: str,
    as_json: bool,
    wanted: tuple[str, ...],
    max_calls: int | None,
    max_usd: float | None,
    dry_run: bool,
) -> int:
    """Judge the anchors now; report agreement with the first round and with human labels."""
    settings = load_settings(config, require_caps=False)
    chosen = name or settings.anchors.set
    if chosen is None:
        raise SettingsError([f'anchors run: name a set, or write set = "NAME" under [anchors] in {config}'])
    specs = resolve_judges(config, wanted) if wanted else anchor_judges(settings)
    if not specs:
        raise SettingsError(["anchors run: no judge in the settings calls a model: name one with --judge"])
    require_prices(specs, max_usd)
    told: list[dict[str, Any]] = []
    status = EXIT_DONE
    with connect_store(settings) as store:
        anchors = store.anchors.load(chosen)
        costs = estimate(specs, traces=[anchor.trace for anchor in anchors.anchors])
        if not as_json:
            for spec, cost in zip(specs, costs, strict=True):
                price = money(cost.usd) if cost.usd is None else f"about {money(cost.usd)}"
                what = f"{counted(cost.calls, 'call')}, {price}" if spec.calls_model else "no model, no cost"
                click.echo(f"{judge_label(spec)}: {counted(len(anchors.anchors), 'anchor')}: {what}", err=True)
        if dry_run:
            if as_json:
                click.echo(to_json({"set_id": anchors.set_id, "estimates": costs}))
            return EXIT_DONE
        if max_calls is None and max_usd is None and (faults := check_caps(specs, estimates=costs)):
            raise SettingsError([f"{fault} (or give --max-calls or --max-usd)" for fault in faults])
        for spec in specs:
            caps = RunCaps(max_calls=max_calls, max_usd=max_usd)
            with anchor_lease(store, anchors.set_id, spec.judge_id()) as lease:
                if lease is None:
                    raise ServiceUnavailable(
                        f"anchors run: another process is judging {anchors.set_id} with {spec.judge_id()}; "
                        "`tracejudge anchors show` has its round when it is done"
                    )
                facts, finished = _round(settings, store, spec, anchors, caps=caps, hidden=as_json, lease=lease)
            report = judge_report(store, anchors, spec.judge_id(), last=finished) if finished else None
            told.append({**facts, "report": report})
            if not as_json:
                _tell(spec, facts, report)
            if facts["gone"]:
                status = EXIT_UNAVAILABLE
            elif finished is None and status == EXIT_DONE:
                status = EXIT_UNDECIDED
    if as_json:
        click.echo(to_json({"set_id": anchors.set_id, "judges": told}))
    return status


def _round(
    settings: Settings,
    store: Store,
    spec: JudgeSpec,
    anchors: AnchorSet,
    *,
    caps: RunCaps,
    hidden: bool,
    lease: Leadership,
) -> tuple[dict[str, Any], AnchorRound | None]:
    begun = new_round(anchors, spec, now=store.now(), cause="by_hand")
    panel = build_panel(settings, store, [spec], caps=caps, cached=False)
    columns = (TextColumn(f"judging by {spec.name}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with progress_bar(*columns, hidden=hidden) as bar:
        task = bar.add_task("judging", total=len(anchors.anchors))
        run, finished = make_round(
            store,
            panel,
            spec,
            anchors,
            begun,
            still_wanted=lease.keep,
            progress=lambda done: bar.update(task, completed=done),
        )
    facts = {
        "judge_id": spec.judge_id(),
        "heuristic": spec.heuristic,
        "finished": finished is not None,
        "verdicts": len(run.verdicts),
        "left": run.left,
        "not_applicable": run.not_applicable,
        "calls": run.calls,
        "cost_usd": run.cost_usd,
        "gone": run.gone,
    }
    return facts, finished


def _tell(spec: JudgeSpec, facts: dict[str, Any], report: JudgeReport | None) -> None:
    out = console()
    out.print(f"{judge_label(spec)}  {ident(spec.judge_id())}")
    for line in report_lines(report) if report is not None else ():
        out.print(f"  {line}")
    if facts["not_applicable"]:
        out.print(
            f"  {counted(facts['not_applicable'], 'anchor does not apply', 'anchors do not apply')} to this judge"
        )
    for text in facts["gone"]:
        out.print(f"  stopped: {harmless(text)}")
    if report is None:
        out.print(f"  not finished: {counted(facts['left'], 'anchor is', 'anchors are')} left; nothing is compared")
    out.print(f"  {counted(facts['calls'], 'call')}, {money(facts['cost_usd'])}")
