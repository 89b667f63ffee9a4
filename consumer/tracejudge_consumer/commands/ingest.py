"""`tracejudge ingest`: files of traces, sent to the queue as an app would have logged them."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Final

import click
from rich.progress import BarColumn, TextColumn

from tracejudge.counted import counted
from tracejudge.datasets import BrokenLine, EventTimes, Line, LineForm, event_times, read_lines
from tracejudge.scores import DeadLetter, Label
from tracejudge.store import Store
from tracejudge_consumer.intake.mapping import ForeignForm
from tracejudge_consumer.settings import Settings, load_settings, without_password
from tracejudge_consumer.terminal.exit_status import EXIT_DONE, EXIT_FAILED
from tracejudge_consumer.terminal.options import Moment, Span, config_option, json_option
from tracejudge_consumer.terminal.rendering import console, one_line, progress_bar, to_json
from tracejudge_consumer.views.dry_run import show_tried, try_file
from tracejudge_consumer.views.reasons import show_reasons
from tracejudge_consumer.wiring import build_line_form, build_transport, connect_store, queue_app
from tracejudge_sdk import codec
from tracejudge_sdk.errors import RecordError, TransportUnavailable
from tracejudge_sdk.trace import Record
from tracejudge_sdk.transports import Transport

_BATCH_RECORDS: Final = 500
_BATCH_BYTES: Final = 8_000_000
_PATIENCE_S: Final = 60.0


@dataclass
class IngestReport:
    """What became of one file: `lines` = `sent` + `dead_letters`; labels went to the store beside them."""

    file: str
    lines: int = 0
    sent: int = 0
    truncated: int = 0
    labels: int = 0
    dead_letters: int = 0
    reasons: dict[str, int] = field(default_factory=dict)


@click.command(
    name="ingest",
    epilog="""\b
Examples:
  tracejudge ingest answers.jsonl.gz --app shop
  tracejudge ingest old.jsonl --event-time 2026-01-31T00:00:00Z --event-step 1m
  tracejudge ingest log.jsonl --dry-run --lines 3     show how the mapping reads the first lines; send nothing

One JSON object per line, as in the wire contract, plain or gzip. A line without event_time gets the file's
modification time plus its line number in milliseconds, so ingesting a file twice changes nothing. Labels go to the
store; an unreadable line becomes a dead letter with its reason. Lines in another format are read through
[intake.mapping] in the settings; test it with --dry-run (exit status 1: no line is readable).""",
)
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False))
@config_option
@json_option
@click.option("--app", default=None, help="App of lines without one.")
@click.option("--event-time", type=Moment(), default=None, help="Event time of the first line without one.")
@click.option("--event-step", type=Span(), default="1s", show_default=True, help="Step between lines.")
@click.option("--dry-run", is_flag=True, help="Show how the first lines are read; send and store nothing.")
@click.option(
    "--lines", type=click.IntRange(0, 1000), default=5, show_default=True, help="With --dry-run: number of lines shown."
)
def command(
    files: tuple[str, ...],
    config: str,
    as_json: bool,
    app: str | None,
    event_time: datetime | None,
    event_step: timedelta,
    dry_run: bool,
    lines: int,
) -> int:
    """Send trace files to the queue."""
    settings = load_settings(config, require_caps=False)
    times = None if event_time is None else event_times(event_time, event_step.total_seconds())
    form = build_line_form(settings)
    if form is not None and app is None:
        app = queue_app(settings)  # as the consumer does, so that a dry run tells what becomes of the queue's records
    if dry_run:
        return _try(settings, files, app=app, times=times, form=form, most=lines, as_json=as_json)
    reports = []
    with connect_store(settings, create=True) as store:
        transport = build_transport(settings)
        try:
            for name in files:
                with _progress(name, hidden=as_json) as advance:
                    reports.append(
                        ingest_file(Path(name), transport, store, app=app, times=times, form=form, advance=advance)
                    )
        finally:
            transport.close(10.0)
    # A script must not go on to judge what never arrived.
    status = EXIT_DONE if any(report.sent for report in reports) else EXIT_FAILED
    if as_json:
        click.echo(to_json(reports))
        return status
    out = console()
    for report in reports:
        sent = f"{report.sent} of {counted(report.lines, 'line')} sent"
        out.print(f"{report.file}: {sent} to {without_password(settings.queue)}")
        if report.truncated:
            were = counted(report.truncated, "was", "were")
            out.print(f"  {were} over the record limit; the longest texts were truncated: truncated=true")
        if report.labels:
            out.print(f"  {counted(report.labels, 'human label')} stored")
        show_reasons(out, report.reasons, one="dead letter", many="dead letters")
    if status == EXIT_FAILED:
        # Not the contract's own check: it refuses lines without id or time, which are read here.
        why = (
            "`tracejudge dead-letters` shows what is wrong with each line (the offset is the line number)"
            if any(report.reasons for report in reports)
            else "it contains no trace"
        )
        out.print(f"nothing was sent: {why}")
    else:
        out.print("next: tracejudge consume --until-idle (unless `consume` or `up` is running)")
    return status


def _try(
    settings: Settings,
    files: tuple[str, ...],
    *,
    app: str | None,
    times: EventTimes | None,
    form: ForeignForm | None,
    most: int,
    as_json: bool,
) -> int:
    """Neither queue nor store is opened: a mapping is tried before there is one."""
    tried = [try_file(Path(name), app=app, times=times, form=form, most=most) for name in files]
    if as_json:
        click.echo(to_json(tried))
    else:
        out = console()
        if form is None:
            out.print("no [intake.mapping] in the settings: lines are read as in the wire contract")
        for one in tried:
            show_tried(out, one)
        if form is not None and (unmapped := {"event_time", "trace_id"} - form.nowhere(()).keys()):
            queued = {
                "event_time": "a record of the queue gets the queue's time of it",
                "trace_id": "a record of the queue gets an id made of its bytes, so that equal records are one trace",
            }
            for name in sorted(unmapped):
                out.print(f"  not mapped: {name}: a line gets one made of its number; {queued[name]}")
        if settings.intake.resolve_nodes is not None:
            out.print(f"texts of bare ids are resolved by {settings.intake.resolve_nodes} when the consumer reads them")
    return EXIT_DONE if any(one.readable for one in tried) else EXIT_FAILED


def ingest_file(
    path: Path,
    transport: Transport,
    store: Store,
    *,
    app: str | None = None,
    times: EventTimes | None = None,
    form: LineForm | None = None,
    advance: Callable[[int], None] = lambda _: None,
) -> IngestReport:
    """Sends every readable line of the file, stores its labels, and keeps the others as dead letters.

    `advance` is told how many lines more were dealt with. Raises TransportUnavailable when the queue does not answer
    for a minute; what was sent by then stays sent, and sending the file again changes nothing.
    """
    report = IngestReport(file=path.name)
    batch: list[tuple[str, bytes]] = []
    labels: list[Label] = []
    dead: list[DeadLetter] = []

    def flush() -> None:
        if batch:
            _send(transport, batch)
            report.sent += len(batch)
        if labels:
            store.labels.insert(labels)
            report.labels += len(labels)
        if dead:
            store.dead_letters.insert(dead)
            report.dead_letters += len(dead)
        advance(len(batch) + len(dead))
        batch.clear()
        labels.clear()
        dead.clear()

    def bury(number: int, raw: bytes, reason: str, detail: str) -> None:
        report.reasons[f"{reason}: {detail}"] = report.reasons.get(f"{reason}: {detail}", 0) + 1
        dead.append(
            DeadLetter(
                source=f"file:{path.name}",
                partition=0,
                offset=number,
                key=None,
                value=raw,
                reason=reason,
                detail=detail,
                at=datetime.now(timezone.utc),
            )
        )

    size = 0
    for line in read_lines(path, app=app, event_time=times, form=form):
        report.lines += 1
        if isinstance(line, BrokenLine):
            bury(line.number, line.raw, line.reason, line.detail)
        else:
            record: Record = line.trace if isinstance(line, Line) else line.record
            try:
                data = codec.encode(record, max_bytes=transport.max_record_bytes)
            except RecordError as error:
                bury(line.number, record.model_dump_json().encode(), error.reason, str(error))
            else:
                size += len(data)
                report.truncated += len(data) >= transport.max_record_bytes - 64 and _was_cut(data)
                batch.append((record.trace_id, data))
                if isinstance(line, Line):
                    labels.extend(line.labels)
        if len(batch) + len(dead) >= _BATCH_RECORDS or size >= _BATCH_BYTES:
            flush()
            size = 0
    flush()
    return report


def _was_cut(data: bytes) -> bool:
    record = codec.decode(data)
    return getattr(record, "truncated", False)


def _send(transport: Transport, batch: list[tuple[str, bytes]]) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    wait_s = 0.2
    pending = list(batch)
    while True:
        try:
            transport.send(pending)
            return
        except TransportUnavailable as error:
            if error.failed is not None:
                pending = [pending[index] for index in error.failed]
            if time.monotonic() + wait_s > deadline:
                raise
            # Jitter keeps several processes from knocking at the same moments.
            time.sleep(wait_s * random.uniform(0.5, 1.5))  # noqa: S311 - spreads retries, guards nothing
            wait_s = min(wait_s * 2, 5.0)


class _progress:  # noqa: N801 - reads as the function it stands for
    """A progress bar over the lines of a file; nothing is drawn when hidden or not on a terminal."""

    def __init__(self, name: str, *, hidden: bool) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed} lines"))
        self._progress = progress_bar(*columns, hidden=hidden)
        self._name = name

    def __enter__(self) -> Callable[[int], None]:
        self._progress.start()
        task = self._progress.add_task(one_line(Path(self._name).name), total=None)
        return lambda count: self._progress.advance(task, count)

    def __exit__(self, *_: object) -> None:
        self._progress.stop()
