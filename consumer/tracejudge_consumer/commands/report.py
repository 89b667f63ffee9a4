"""`tracejudge report`: a period of live traffic, or a run, as one HTML file."""

from __future__ import annotations

from datetime import datetime, timedelta
from importlib.metadata import version as release_of
from pathlib import Path

import click

from tracejudge.errors import NothingToDecide
from tracejudge.reports import BY_MINUTE_IN_WORDS, compare, judge_labels
from tracejudge.reports.contents import Report, ReportQuery, make_report, step_for
from tracejudge.scores import LIVE_RUN
from tracejudge.store import RateQuery, ScoreFilter, Store, TraceFilter
from tracejudge_consumer.choosing.comparable import check_sides, side_of
from tracejudge_consumer.choosing.named_run import require_run
from tracejudge_consumer.choosing.named_slice import require_judge, require_slice
from tracejudge_consumer.settings import load_settings
from tracejudge_consumer.terminal.options import (
    Beginning,
    Moment,
    OutFile,
    Since,
    Span,
    check_order,
    check_windows,
    config_option,
    exact_option,
    json_option,
    slice_options,
    whole_steps,
)
from tracejudge_consumer.terminal.rendering import console, ident, instant, interval, percent, table, to_json
from tracejudge_consumer.wiring import connect_store


@click.command(
    name="report",
    epilog="""\b
Examples:
  tracejudge report --since 90d --html quarter.html --title "Shop, third quarter"
  tracejudge report --run try-1 --html try-1.html
  tracejudge report --run try-1 --against live:lexical --html change.html
  tracejudge report --since 7d --app shop --texts --html week.html     with the worst answers in full

The HTML file is self-contained, without scripts, and printable. Without --html the figures are printed as a table.
Texts of traces are included only with --texts, as a report may reach people who must not see the traces.""",
)
@config_option
@json_option
@slice_options
@click.option("--run", "run_id", default=LIVE_RUN, show_default=True, help="Run whose scores are read.")
@click.option("--judge", default=None, help="Only this judge (name or JudgeId).  [default: all]")
@click.option(
    "--since", "begin", type=Since(), default=None, help="Start of the time range.  [default: 30d, or all of a run]"
)
@click.option(
    "--until", type=Moment(), default=None, help="End of the time range (exclusive).  [default: now, or all of a run]"
)
@click.option("--step", type=Span(), default=None, help="Window length of the plots.  [default: a few dozen points]")
@click.option("--against", default=None, metavar="RUN[:JUDGE]", help="Compare with this run, trace by trace.")
@click.option("--html", "target", type=OutFile(), default=None, help="Write the report to this HTML file.")
@click.option("--title", default=None, help="Title of the report.")
@exact_option
@click.option("--texts", is_flag=True, help="Include the worst answers in full.")
@click.option("--worst", type=click.IntRange(0, 200), default=10, show_default=True, help="Number of worst answers.")
def command(
    config: str,
    as_json: bool,
    environment: str,
    app: str | None,
    version: str | None,
    category: str | None,
    run_id: str,
    judge: str | None,
    begin: Beginning | None,
    until: datetime | None,
    step: timedelta | None,
    against: str | None,
    target: str | None,
    title: str | None,
    exact: bool | None,
    texts: bool,
    worst: int,
) -> None:
    """Report on a period or a run, as one printable HTML file."""
    if begin is not None:
        check_order(begin.at, until)
    settings = load_settings(config, require_caps=False)
    with connect_store(settings) as store:
        first, last = _time(store, run_id, begin, until)
        step_s = int(step.total_seconds()) if step is not None else step_for(first.at, until or last)
        if step_s < 1:
            raise click.BadParameter("the shortest window is 1s", param_hint="--step")
        start, end = whole_steps(first, until, last=last, step_s=step_s)
        check_order(start, end)
        check_windows(start, end, step_s)
        query = RateQuery(
            start=start,
            end=end,
            step_s=step_s,
            environment=environment,
            app=app,
            version=version,
            category=category,
            judge=judge,
            run_id=run_id,
        )
        asked = ReportQuery(
            title=title or f"Quality of answers, run {run_id}", query=query, exact=exact, texts=texts, worst=worst
        )
        comparison = None
        if against is not None:
            a = side_of(store, against)
            b = side_of(store, f"{run_id}:{judge}" if judge else run_id)
            check_sides(store, a, b, None)
            where = TraceFilter(
                start=start, end=end, environment=environment, app=app, version=version, category=category
            )
            pairs = store.scores.pairs(a.run_id, b.run_id, judge_a=a.judge, judge_b=b.judge, where=where)
            comparison = (f"{a.run_id}:{a.judge}", f"{b.run_id}:{b.judge}", compare(pairs, kept_flips=0))
        run = None if run_id == LIVE_RUN else store.runs.get(run_id)
        report = make_report(
            store, asked, release=release_of("tracejudge"), now=store.now(), run=run, comparison=comparison
        )
        if not report.lines:
            require_judge(store, judge, run_id=run_id, configured={spec.name for spec in settings.judges})
            require_slice(store, environment=environment, app=app)
            raise NothingToDecide(
                f"run {run_id!r} has no scores in this time range and slice: see `tracejudge rates --run {run_id}`"
            )
    if target is not None:
        Path(target).write_text(report.html, encoding="utf-8")
    if as_json:
        click.echo(
            to_json(
                {
                    "run": run_id,
                    "start": start,
                    "end": end,
                    "html": target,
                    "exact": report.exact,
                    "lines": report.lines,
                }
            )
        )
        return
    _show(report, target, start=start, end=end)


def _time(store: Store, run_id: str, since: Beginning | None, until: datetime | None) -> tuple[Beginning, datetime]:
    """From when on, and the last instant without --until: now, or that of the run's last trace."""
    now = store.now()
    if run_id == LIVE_RUN or (since is not None and until is not None):
        return since or Beginning(now - timedelta(days=30), ago=True), now
    edges = store.scores.span(ScoreFilter(run_id=run_id))
    if edges is None:
        require_run(store, run_id)
        raise NothingToDecide(f"run {run_id!r} has no scores: `tracejudge ledger --run {run_id}` says why")
    return since or Beginning(edges[0], ago=True), edges[1]


def _show(report: Report, target: str | None, *, start: datetime, end: datetime) -> None:
    out = console()
    columns = [("judge", "left"), ("judged", "right"), ("invalid", "right"), ("pass rate", "right"), ("95 %", "right")]
    rows, names = [], judge_labels(report.lines)
    for line in report.lines:
        name, rate = ident(names[line.judge_id]), line.rate
        if rate is None:
            rows.append([name, "0", "0", "no data", "–"])
        else:
            cells = [str(rate.judged), str(rate.invalid), percent(rate.estimate), interval(rate.low, rate.high)]
            rows.append([name, *cells])
    out.print(table(f"The whole period, {instant(start)} to {instant(end)} UTC", columns, rows))
    if not report.exact:
        out.print(f"{BY_MINUTE_IN_WORDS} --exact reads every row.")
    if target is not None:
        out.print(f"report: {target}")
