"""`tracejudge retry`: traces that a judge failed to judge, judged again."""

from __future__ import annotations

from collections import Counter
from datetime import datetime

import click
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

from tracejudge.counted import counted
from tracejudge.scores import InvalidReason
from tracejudge.store import Store
from tracejudge_consumer.background.again import AgainReport
from tracejudge_consumer.background.retry import RetryFilter, by_reason, invalid_scores, retry
from tracejudge_consumer.settings import Settings, load_settings
from tracejudge_consumer.terminal.exit_status import EXIT_DONE, EXIT_UNAVAILABLE
from tracejudge_consumer.terminal.options import Moment, check_order, config_option, json_option
from tracejudge_consumer.terminal.rendering import console, harmless, ident, progress_bar, table, to_json
from tracejudge_consumer.wiring import choose_judges, connect_store


@click.command(
    name="retry",
    epilog="""\b
Examples:
  tracejudge retry --reason judge_timeout --since 24h --dry-run
  tracejudge retry --reason judge_timeout --reason judge_error --since 24h
  tracejudge retry --judge faithfulness --since 7d --limit 500

A settled verdict replaces the invalid one everywhere, rates included, and keeps the inclusion probability of the trace.
The judges' caps apply. Traces left undecided because a judge was unavailable need no retry: the consumer judges them
once it is available again. Exit status 75 if a judge does not respond.""",
)
@config_option
@json_option
@click.option(
    "--reason",
    "reasons",
    multiple=True,
    type=click.Choice([reason.value for reason in InvalidReason]),
    help="Only scores invalid for this reason; repeatable.  [default: any]",
)
@click.option(
    "--since", type=Moment(), default="24h", show_default=True, help="Only traces served at or after this time."
)
@click.option("--until", type=Moment(), default=None, help="Only traces served before this time.  [default: now]")
@click.option("--judge", "judges", multiple=True, help="Only this judge from the settings.  [default: all]")
@click.option("--limit", type=click.IntRange(1), default=None, help="Maximum number of scores, oldest first.")
@click.option("--dry-run", is_flag=True, help="Print the number of scores and exit.")
def command(
    config: str,
    as_json: bool,
    reasons: tuple[str, ...],
    since: datetime,
    until: datetime | None,
    judges: tuple[str, ...],
    limit: int | None,
    dry_run: bool,
) -> int:
    """Judge invalid scores again."""
    check_order(since, until)
    settings = load_settings(config)
    specs = choose_judges(settings.judges, judges) if judges else settings.judges
    where = RetryFilter(
        since=since, until=until, reasons=frozenset(reasons), judges=frozenset(one.name for one in specs), limit=limit
    )
    with connect_store(settings) as store:
        ids = frozenset(spec.judge_id() for spec in specs)
        found = by_reason(invalid_scores(store.scores, where, ids))
        if dry_run or not found:
            _tell_found(found, as_json=as_json)
            return EXIT_DONE
        report = _run(settings, store, where, sum(found.values()), hidden=as_json)
    _tell(report, as_json=as_json)
    return EXIT_UNAVAILABLE if report.gone else EXIT_DONE


def _run(settings: Settings, store: Store, where: RetryFilter, count: int, *, hidden: bool) -> AgainReport:
    columns = (TextColumn("judging again"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with progress_bar(*columns, hidden=hidden) as bar:
        task = bar.add_task("", total=count)

        def show(report: AgainReport) -> None:
            bar.update(task, completed=report.counts.asked + report.settled + report.expired)

        from tracejudge_consumer.wiring.again import running_again  # loads LlamaIndex: two seconds --help need not take

        with running_again(settings, store) as (again, worker):
            ids = frozenset(spec.judge_id() for spec in settings.judges)
            scores = invalid_scores(store.scores, where, ids)
            return worker.submit(retry(scores, again, progress=show)).result()


def _tell_found(found: Counter[tuple[str, str]], *, as_json: bool) -> None:
    rows = [{"judge": judge, "reason": reason, "scores": count} for (judge, reason), count in sorted(found.items())]
    if as_json:
        click.echo(to_json({"invalid": sum(found.values()), "by_reason": rows}))
        return
    out = console()
    if not rows:
        out.print("no invalid score in this selection by a judge as currently configured; try a longer --since")
        return
    columns = [("judge", "left"), ("reason", "left"), ("scores", "right")]
    cells = [[ident(judge), harmless(reason), str(count)] for (judge, reason), count in sorted(found.items())]
    out.print(table("Invalid scores", columns, cells))


def _tell(report: AgainReport, *, as_json: bool) -> None:
    counts = report.counts
    if as_json:
        click.echo(
            to_json(
                {
                    "asked": counts.asked,
                    "passed": counts.passed,
                    "failed": counts.failed,
                    "invalid": counts.invalid,
                    "invalid_reasons": counts.invalid_reasons,
                    "decisions": counts.ledger,
                    "settled_meanwhile": report.settled,
                    "texts_expired": report.expired,
                    "judge_calls": counts.judge_calls,
                    "gone": [str(fault) for fault in report.gone],
                }
            )
        )
        return
    out = console()
    out.print(
        f"{counts.asked} judged again: {counts.passed} passed, {counts.failed} failed, {counts.invalid} still invalid"
    )
    for reason, number in sorted(counts.invalid_reasons.items()):
        out.print(f"  {number} invalid: {harmless(reason)}")
    if report.settled:
        out.print(f"  {counted(report.settled, 'was', 'were')} settled meanwhile")
    if report.expired:
        out.print(f"  {report.expired} skipped: their texts are past their retention")
    out.print(f"  {counted(counts.judge_calls, 'judge call')}")
    for fault in report.gone:
        out.print(f"  stopped: {harmless(str(fault))}")
