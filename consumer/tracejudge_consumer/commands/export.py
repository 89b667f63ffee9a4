"""`tracejudge export`: stored traces or scores into files."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, Literal

import click

from tracejudge.counted import counted
from tracejudge.datasets.write import write_line
from tracejudge.scores import LIVE_RUN
from tracejudge.store import ScoreFilter, Store, TraceFilter, Wanted
from tracejudge_consumer.choosing.named_run import require_run
from tracejudge_consumer.choosing.named_slice import require_judge, require_slice
from tracejudge_consumer.settings import load_settings
from tracejudge_consumer.terminal.options import Moment, OutFile, check_order, config_option, json_option
from tracejudge_consumer.terminal.rendering import progress_bar, to_json
from tracejudge_consumer.wiring import connect_store

What = Literal["traces", "scores"]


@click.command(
    name="export",
    epilog="""\b
Examples:
  tracejudge export --since 7d --out traces.jsonl        the format that `tracejudge ingest` reads
  tracejudge export --outcome failed --app shop > failed.jsonl
  tracejudge export scores --since 90d --format parquet --out scores/

Rows are ordered by event time and streamed, so memory does not grow with their number. Parquet is written to a folder,
in files of at most 100 000 rows. `tracejudge forget` does not reach exported files.""",
)
@click.argument("what", type=click.Choice(["traces", "scores"]), default="traces")
@config_option
@json_option
@click.option(
    "--out",
    "-o",
    "target",
    type=click.Path(),
    default="-",
    help="Output file, or folder for parquet.  [default: stdout]",
)
@click.option("--format", "form", type=click.Choice(["jsonl", "parquet"]), default="jsonl", show_default=True)
@click.option("--since", type=Moment(), default=None, help="Start of the time range, by event time.  [default: all]")
@click.option("--until", type=Moment(), default=None, help="End of the time range (exclusive).  [default: all]")
@click.option("--environment", default=None, help="Only this environment.")
@click.option("--app", default=None, help="Only this app.")
@click.option("--version", default=None, help="Only this release of the app.")
@click.option("--category", default=None, help="Only this category.")
@click.option(
    "--outcome",
    type=click.Choice(["passed", "failed", "invalid"]),
    default=None,
    help="Only with this outcome of a verdict.",
)
@click.option("--judge", default=None, help="Verdicts of this judge (name or JudgeId).  [default: any]")
@click.option("--run", "run_id", default=LIVE_RUN, show_default=True, help="Run whose scores are read.")
def command(
    what: What,
    config: str,
    as_json: bool,
    target: str,
    form: Literal["jsonl", "parquet"],
    since: datetime | None,
    until: datetime | None,
    environment: str | None,
    app: str | None,
    version: str | None,
    category: str | None,
    outcome: Literal["passed", "failed", "invalid"] | None,
    judge: str | None,
    run_id: str,
) -> None:
    """Write stored traces or scores to JSONL or Parquet."""
    check_order(since, until)
    if form == "parquet" and target == "-":
        raise click.UsageError("parquet needs a folder: give --out FOLDER")
    if as_json and target == "-":
        raise click.UsageError("--json reports on stdout what was written: give --out FILE")
    if what == "traces" and run_id != LIVE_RUN:
        raise click.UsageError("--run applies to scores: tracejudge export scores --run NAME")
    if form == "jsonl":
        OutFile(dash=True).convert(target, None, None)
    elif Path(target).exists() and not Path(target).is_dir():
        raise click.UsageError(f"{target} is a file: name a folder for the parquet files")
    where = TraceFilter(start=since, end=until, environment=environment, app=app, version=version, category=category)
    wanted = Wanted(where=where, outcome=outcome, judge=judge)
    chosen = ScoreFilter(
        start=since, end=until, environment=environment, app=app, version=version, category=category,
        outcome=outcome, judge=judge, run_id=run_id,
    )  # fmt: skip
    settings = load_settings(config, require_caps=False)
    with connect_store(settings) as store:
        # Before a file is opened: an empty one would pass for a run, an app or a judge without scores.
        require_run(store, run_id)
        require_judge(store, judge, run_id=run_id, configured={spec.name for spec in settings.judges})
        if environment is not None or app is not None:
            require_slice(store, environment=environment, app=app)
        if form == "parquet":
            written, unit = _parquet(store, what, wanted if what == "traces" else chosen, Path(target)), "files"
        else:
            with _output(target) as out:
                written, unit = _jsonl(store, what, wanted, chosen, out), what
    if as_json:
        click.echo(to_json({"what": what, "written": written, "unit": unit, "out": target}))
    else:
        click.echo(f"{counted(written, unit.removesuffix('s'))} -> {'stdout' if target == '-' else target}", err=True)


def _jsonl(store: Store, what: What, wanted: Wanted, chosen: ScoreFilter, out: BinaryIO) -> int:
    written = 0
    with progress_bar() as progress:
        task = progress.add_task(f"exporting {what}", total=None)
        if what == "traces":
            for page in store.traces.stream(wanted.where, outcome=wanted.outcome, judge=wanted.judge):
                for stored in page:
                    write_line(out, stored.trace)
                written += len(page)
                progress.update(task, completed=written)
        else:
            for scores in store.scores.stream(chosen):
                for score in scores:
                    out.write(to_json(score).encode() + b"\n")
                written += len(scores)
                progress.update(task, completed=written)
    return written


def _parquet(store: Store, what: What, where: Wanted | ScoreFilter, folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.glob("*.parquet")):
        raise click.UsageError(f"{folder} already contains parquet files: give an empty folder")
    number = 0
    for number, content in enumerate(store.exporter.parquet(what, where), start=1):
        path = folder / f"{what}-{number:05d}.parquet"
        temporary = path.with_suffix(".part")  # a file that is there is whole
        temporary.write_bytes(content)
        temporary.replace(path)
    return number


@contextmanager
def _output(target: str) -> Iterator[BinaryIO]:
    if target == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with Path(target).open("wb") as out:
        yield out
