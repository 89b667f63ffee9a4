"""`tracejudge consume`: the consumer."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from typing import TYPE_CHECKING

import click
from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

from tracejudge.counted import counted
from tracejudge.store import Store
from tracejudge_consumer.process.collector import settled_heap
from tracejudge_consumer.process.shutdown import StoppedAtStart, stop_on_signals
from tracejudge_consumer.report import PipelineReport
from tracejudge_consumer.settings import Settings, load_settings, without_password
from tracejudge_consumer.terminal.exit_status import EXIT_DONE, EXIT_UNAVAILABLE
from tracejudge_consumer.terminal.options import config_option, json_option
from tracejudge_consumer.terminal.rendering import console, harmless, ident, progress_bar, to_json
from tracejudge_consumer.terminal.saying import perhaps_unread
from tracejudge_consumer.views.not_applicable import lacking_hint, reasons_in_words
from tracejudge_consumer.watching.json_logs import JsonFormatter
from tracejudge_consumer.watching.line_logs import LineFormatter
from tracejudge_consumer.watching.watched import Watch
from tracejudge_consumer.wiring import CONSUMER_STORE_PATIENCE_S, build_pipeline, connect_store

if TYPE_CHECKING:
    from tracejudge_consumer.flow.pipeline import Pipeline


@click.command(
    name="consume",
    epilog="""\b
Examples:
  tracejudge consume                 until SIGTERM or Ctrl-C; a second signal stops at once
  tracejudge consume --until-idle    read the queue to its end, then stop; exit 75 if a signal stops it earlier

Consumers in a group share the partitions; start up to one per partition. Offsets are committed only after the store
has accepted all results for a record: a kill at any moment loses nothing, and no settled verdict is paid for twice.""",
)
@config_option
@json_option
@click.option("--until-idle", is_flag=True, help="Stop at the end of the queue.")
def command(config: str, as_json: bool, until_idle: bool) -> int:
    """Read traces from the queue, sample, judge and store them."""
    settings = load_settings(config)
    set_up_logging(settings)
    stop = threading.Event()
    with (
        connect_store(settings, create=True, patience_s=CONSUMER_STORE_PATIENCE_S) as store,
        stop_on_signals(stop) as signals,
        ExitStack() as stack,
    ):
        # What a judge prints is not ours: standard output may be read as JSON.
        stack.enter_context(redirect_stdout(sys.stderr))
        try:
            with signals.starting():
                pipeline = stack.enter_context(consumer_of(settings, store, quiet=as_json))
        except StoppedAtStart:
            report = PipelineReport(ended="stopped")
        else:
            with settled_heap():
                report = pipeline.run(until_idle=until_idle, stop=stop)
    unread = until_idle and report.ended == "stopped"
    with perhaps_unread():
        if as_json:
            click.echo(to_json(report))
        else:
            tell(report, settings)
            if unread:
                console().print("stopped before the end of the queue: run it again to continue from there")
    # What goes on to work with a queue that was read to its end must not take a part of it for that.
    return EXIT_UNAVAILABLE if unread or report.ended == "unassigned" else EXIT_DONE


@contextmanager
def consumer_of(settings: Settings, store: Store, *, quiet: bool, watch: Watch | None = None) -> Iterator[Pipeline]:
    """The pipeline of the settings on an open store, watched over and shown while it runs; `watch` where more than the
    consumer runs in this process."""
    watch = watch or Watch(consumer=True)
    with watch.over(settings), progress_line(f"reading {without_password(settings.queue)}", hidden=quiet) as progress:
        yield build_pipeline(settings, store, health=watch.health, metrics=watch.metrics, progress=progress)


def set_up_logging(settings: Settings) -> None:
    """One line a record on stderr, as text or as JSON. Only a command does this, libraries leave it to their hosts."""
    logging.basicConfig(level=settings.log_level)
    for handler in logging.getLogger().handlers:
        handler.setFormatter(JsonFormatter() if settings.log_format == "json" else LineFormatter())


@contextmanager
def progress_line(text: str, *, hidden: bool) -> Iterator[Callable[[PipelineReport], None]]:
    """A line that counts while the consumer works; nothing where nobody looks."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with progress_bar(*columns, hidden=hidden) as progress:
        task = progress.add_task(harmless(text), total=None)

        def show(report: PipelineReport) -> None:
            scored = report.passed + report.failed
            said = f"{counted(report.records, 'record')}, {counted(scored, 'verdict')}, {report.invalid} invalid"
            progress.update(task, description=harmless(f"{text}: {said}"))

        yield show


def tell(report: PipelineReport, settings: Settings) -> None:
    """What the run did, in a few lines."""
    out = console()
    out.print(
        f"{counted(report.records, 'record')}: {counted(report.traces, 'trace')}, {counted(report.parts, 'part')}, "
        f"{report.feedback} feedback, "
        f"{report.duplicates} duplicates, {_dead_letters(report.dead)}"
    )
    out.print(
        f"  verdicts: {report.passed} passed, {report.failed} failed, {report.invalid} invalid, "
        f"{report.settled} settled before"
    )
    if report.abandoned:
        out.print(f"  {report.abandoned} left to the consumer that took over their partition")
    for reason, number in sorted(report.invalid_reasons.items()):
        out.print(f"  {number} invalid: {harmless(reason)}")
    for decision, number in sorted(report.ledger.items(), key=lambda item: item[0].value):
        out.print(f"  {number} {decision.value.replace('_', ' ')}")
    for judge, reasons in sorted(report.not_applicable.items()):
        out.print(f"  not applicable to {ident(judge)}: {reasons_in_words(reasons)}")
        if hint := lacking_hint(judge, reasons, judged=report.scored_by.get(judge, 0), settings=settings):
            out.print(f"  hint: {hint}")
    for reason, number in sorted(report.dead_letters.items()):
        out.print(f"  {_dead_letters(number)}: {harmless(reason)}")
    out.print(f"  {counted(report.judge_calls, 'judge call')}")
    if report.ended == "unassigned":
        out.print("no partition was assigned: other consumers in this group hold all of them")
    out.print("next: tracejudge rates, tracejudge worst, tracejudge ledger")


def _dead_letters(number: int) -> str:
    return f"{counted(number, 'dead letter')}"
