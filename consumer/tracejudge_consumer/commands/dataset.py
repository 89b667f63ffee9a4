"""`tracejudge dataset`: versioned datasets out of stored traffic."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime, timezone
from importlib.metadata import version as release_of
from pathlib import Path
from typing import Any

import click

from tracejudge.counted import counted
from tracejudge.datasets.build import STRATA, BuildPolicy, build
from tracejudge.datasets.labelled_rag import FORMS, write_form
from tracejudge.datasets.versions import diff, read_dataset, write_version
from tracejudge.errors import CheckFailed, NothingToDecide
from tracejudge.scores import Label, TraceKey
from tracejudge.store import Store, TraceFilter
from tracejudge_consumer.choosing.named_run import listed
from tracejudge_consumer.choosing.named_slice import require_slice
from tracejudge_consumer.settings import load_settings
from tracejudge_consumer.terminal.options import (
    Moment,
    Number,
    OutFile,
    check_order,
    config_option,
    group_config_option,
    json_option,
)
from tracejudge_consumer.terminal.rendering import console, ident, one_line, progress_bar, to_json
from tracejudge_consumer.wiring import connect_store
from tracejudge_sdk.digests import Digester
from tracejudge_sdk.trace import Trace

KEY_ENV = "TRACEJUDGE_DATASET_KEY"


@click.group(
    name="dataset",
    epilog="""\b
Examples:
  tracejudge dataset build questions/ --app shop --share 0.02 --stratify category
  tracejudge dataset diff questions/v0001.jsonl questions/v0002.jsonl
  tracejudge dataset llama-index questions/v0002.jsonl --out rag_dataset.json
  tracejudge score questions/v0002.jsonl --engine my_app.rag:engine --judge faithfulness --max-usd 2""",
)
@group_config_option
def command() -> None:
    """Datasets from stored traffic: build versions, compare them, export for LlamaIndex."""


@command.command(
    name="build",
    epilog="""\b
Examples:
  tracejudge dataset build questions/ --app shop
  tracejudge dataset build questions/ --share 0.05 --at-most 500 --stratify category --stratify tags.tier
  tracejudge dataset build everything/ --since 7d --share 1 --near 1

Takes a share of every day and stratum, at least one trace, and every labelled trace. Of traces with the same or nearly
the same question (--near) one is kept. E-mail addresses, phone and card numbers, keys, and user and session ids are
removed; data without a fixed format, such as names, is not. The same traffic gives the same version. `tracejudge
forget` does not reach files already written: build again and delete the old ones.""",
)
@click.argument("folder", type=click.Path(file_okay=False))
@config_option
@json_option
@click.option("--since", type=Moment(), default="90d", show_default=True, help="Start of the time range.")
@click.option("--until", type=Moment(), default=None, help="End of the time range (exclusive).  [default: now]")
@click.option("--environment", default="production", show_default=True, help="Only this environment.")
@click.option("--app", default=None, help="Only this app.")
@click.option("--version", "app_version", default=None, help="Only this release of the app.")
@click.option(
    "--share", type=Number(0, 1, min_open=True), default=0.02, show_default=True, help="Share of each day's traces."
)
@click.option(
    "--at-most",
    type=click.IntRange(1),
    default=2000,
    show_default=True,
    help="Maximum rows, not counting labelled ones.",
)
@click.option(
    "--stratify", multiple=True, default=("category",), show_default=True, help="Stratify by this field. Repeatable."
)
@click.option(
    "--near",
    type=Number(0.5, 1),
    default=0.8,
    show_default=True,
    help="Similarity that counts as duplicate; 1 keeps all.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the selection.")
@click.option("--keep-personal-data", is_flag=True, help="Do not remove personal data from texts and ids.")
def build_command(
    folder: str,
    config: str,
    as_json: bool,
    since: datetime,
    until: datetime | None,
    environment: str,
    app: str | None,
    app_version: str | None,
    share: float,
    at_most: int,
    stratify: tuple[str, ...],
    near: float,
    seed: int,
    keep_personal_data: bool,
) -> None:
    """Write the next version of a dataset into FOLDER."""
    if unknown := [name for name in stratify if name not in STRATA and not name.startswith("tags.")]:
        known = ", ".join((*STRATA, "tags.NAME"))
        raise click.BadParameter(f"{', '.join(unknown)} is not one of {known}", param_hint="--stratify")
    check_order(since, until)
    policy = BuildPolicy(
        share=share, at_most=at_most, stratify=stratify, near=near, seed=seed, personal=keep_personal_data
    )
    with connect_store(load_settings(config, require_caps=False)) as store:
        where = TraceFilter(
            start=since, end=until or store.now(), environment=environment, app=app, version=app_version
        )
        labels: dict[TraceKey, list[Label]] = defaultdict(list)
        for label in store.labels.all():
            labels[TraceKey(label.environment, label.app, label.trace_id)].append(label)
        found = build(lambda: _traffic(store, where), policy, labels=labels, digester=Digester(os.environ.get(KEY_ENV)))
        if not found.rows:
            require_slice(store, environment=environment, app=app)
            raise NothingToDecide(
                "no stored trace with its texts in this selection; try a longer --since, or another --app"
            )
    facts = {
        "built_at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "release": release_of("tracejudge"),
        "since": since.isoformat(),
        "until": where.end.isoformat() if where.end is not None else None,
        "environment": environment,
        "app": app,
        "app_version": app_version,
        "policy": {name: getattr(policy, name) for name in BuildPolicy.__slots__},
        "traffic": found.traffic,
        "share": found.share,
        "labelled": found.labelled,
    }
    written = write_version(Path(folder), found.rows, facts)
    if as_json:
        told = {name: getattr(found, name) for name in found.__slots__ if name != "rows"}
        click.echo(to_json({**told, "rows": len(found.rows), "path": str(written.path), "new": written.new}))
        return
    out = console()
    out.print(
        f"{counted(found.traffic, 'trace')}, {found.chosen} chosen ({100 * found.share:.3g} % of each day and stratum, "
        "and every labelled trace)"
    )
    out.print(f"  {found.exact_duplicates} duplicate questions, {found.near_duplicates} near duplicates")
    out.print(f"  {counted(len(found.rows), 'row')}, {found.labelled} with labels")
    out.print(f"{written.path}" if written.new else f"{written.path} already contains exactly this")
    if written.new and written.version > 1:
        before = written.path.with_name(f"v{written.version - 1:04d}.jsonl")
        out.print(f"next: tracejudge dataset diff {before} {written.path}")


def _traffic(store: Store, where: TraceFilter) -> Iterator[Trace]:
    """One reading of the traces, with a line that says how many have come; a build reads them more than once."""
    with progress_bar() as progress:
        task = progress.add_task("reading traces", total=None)
        for page in store.traces.stream(where):
            for stored in page:
                if not stored.texts_expired and stored.trace.query.strip() and stored.trace.status != "incomplete":
                    yield stored.trace
            progress.update(task, advance=len(page))


class _VersionFile(click.Path):
    """The file of one version; for what is none it is said which ones there are."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        path = Path(os.fsdecode(value))
        if path.is_file():
            return super().convert(value, param, ctx)
        folder = path if path.is_dir() else path.parent
        names = [str(one) for one in sorted(folder.glob("v[0-9]*.jsonl"))]
        what = "is a folder" if path.is_dir() else "does not exist"
        there = f"; versions: {listed(names)}" if names else f"; {folder} contains no version"
        return self.fail(
            f"{str(path)!r} {what}: name the file of a version, such as questions/v0001.jsonl{there}", param, ctx
        )


@command.command(
    name="diff",
    epilog="""\b
Examples:
  tracejudge dataset diff questions/v0001.jsonl questions/v0002.jsonl""",
)
@click.argument("before", type=_VersionFile())
@click.argument("after", type=_VersionFile())
@json_option
def diff_command(before: str, after: str, as_json: bool) -> None:
    """Show the differences between two versions of a dataset."""
    found = diff(Path(before), Path(after))
    if as_json:
        click.echo(to_json(found))
        return
    out = console()
    out.print(f"{counted(found.before, 'question')} before, {found.after} after")
    lines = {**read_dataset(Path(before)), **read_dataset(Path(after))}
    for name in ("added", "removed", "relabelled", "changed"):
        cases = getattr(found, name)
        out.print(f"{len(cases)} {name}")
        for case in cases[:10]:
            out.print(f"  {ident(case)}  {one_line(lines[case].trace.query, limit=90)}")
        if len(cases) > 10:
            out.print(f"  ... and {len(cases) - 10} more")


@command.command(
    name="llama-index",
    epilog="""\b
Examples:
  tracejudge dataset llama-index questions/v0002.jsonl --out rag_dataset.json
  tracejudge dataset llama-index questions/v0002.jsonl --out pairs.json --form query-response

llama-index-core up to 0.13 reads labelled-rag (LabelledRagDataset.from_json): questions, passages, reference answers.
0.14.25 ships without that class and reads query-response (QueryResponseDataset.from_json): questions and reference
answers. In Python, `tracejudge.datasets.llama_index.load(FILE)` returns the object for the installed release.""",
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option("--out", "target", type=OutFile(), required=True, help="JSON file to write.")
@click.option(
    "--form", type=click.Choice(FORMS), default=FORMS[0], show_default=True, help="LlamaIndex class to write."
)
def llama_index_command(file: str, target: str, form: str) -> None:
    """Write a dataset in LlamaIndex format, for its `from_json`."""
    if Path(target).exists() and Path(target).samefile(file):
        raise CheckFailed(f"{target}: is the dataset itself; name another file with --out")
    count = write_form(Path(target), read_dataset(Path(file)), form=form)
    click.echo(f"{target}: {count} examples")
