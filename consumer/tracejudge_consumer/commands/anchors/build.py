"""`tracejudge anchors build`: traces are frozen into a set."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import click

from tracejudge.anchoring.choose import Chosen, anchors_of_file, choose_anchors
from tracejudge.anchors import AnchorSet
from tracejudge.counted import counted
from tracejudge.errors import NothingToDecide, SettingsError
from tracejudge.judging import JudgeSpec, estimate
from tracejudge.store import TraceFilter
from tracejudge_consumer.choosing.judges import judge_label
from tracejudge_consumer.choosing.named_slice import require_slice
from tracejudge_consumer.settings import Settings, load_settings
from tracejudge_consumer.terminal.options import Moment, config_option, json_option
from tracejudge_consumer.terminal.rendering import console, ident, money, to_json
from tracejudge_consumer.wiring import anchor_judges, choose_judges, connect_store

_FEW = 30  # below it only a large movement can be told


@click.command(
    name="build",
    epilog="""\b
Examples:
  tracejudge anchors build golden
  tracejudge anchors build golden --judge faithfulness --app shop --since 60d --size 200
  tracejudge anchors build golden --from labelled.jsonl

Half of the anchors passed and half failed, by human label or else by the judge's verdict. A set is frozen: its id is
a hash of its texts and labels, which are stored as long as the set exists. `tracejudge forget` deletes anchors too.""",
)
@click.argument("name")
@config_option
@json_option
@click.option(
    "--judge", default=None, help="Judge the anchors are for.  [default: the judge with anchors, or the only one]"
)
@click.option(
    "--from",
    "file",
    type=click.Path(exists=True, dir_okay=False),
    help="Use all traces of this JSONL file, not the store.",
)
@click.option(
    "--since", type=Moment(), default="30d", show_default=True, help="Only traces served at or after this time."
)
@click.option("--environment", default="production", show_default=True, help="Only this environment.")
@click.option("--app", default=None, help="Only this app; with --from, app of lines without one.")
@click.option(
    "--size", type=click.IntRange(2, 10_000), default=100, show_default=True, help="Maximum number of anchors."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the selection.")
def build(
    name: str,
    config: str,
    as_json: bool,
    judge: str | None,
    file: str | None,
    since: datetime,
    environment: str,
    app: str | None,
    size: int,
    seed: int,
) -> None:
    """Freeze traces from the store or a file into an anchor set."""
    settings = load_settings(config, require_caps=False)
    spec = _judge(settings, judge)
    with connect_store(settings, create=file is not None) as store:
        now = store.now()
        origin: dict[str, Any]
        if file is not None:
            found = anchors_of_file(Path(file), spec, app=app)
            origin = {"file": file}
        else:
            where = TraceFilter(start=since, end=now, environment=environment, app=app)
            found = choose_anchors(store, where, spec, size=size, seed=seed)
            origin = {"since": since.isoformat(), "environment": environment, "app": app, "seed": seed}
        if not found.anchors:
            if file is None:
                require_slice(store, environment=environment, app=app)
            raise NothingToDecide(
                f"no trace with its texts and a verdict of {spec.name!r} or a label of {spec.criterion!r} in this "
                "selection; try a longer --since, or --from FILE"
            )
        frozen = AnchorSet.freeze(name, found.anchors, built_at=now, origin={**origin, "judge": spec.name})
        store.anchors.freeze(frozen)
    (cost,) = estimate([spec], traces=[anchor.trace for anchor in frozen.anchors])
    if as_json:
        facts = {"set_id": frozen.set_id, "anchors": len(frozen.anchors), "labelled": found.labelled}
        facts |= {"passed": found.passed, "failed": found.failed, "round": cost, "criterion": spec.criterion}
        click.echo(to_json(facts))
        return
    _tell(frozen, found, spec)
    out = console()
    price = money(cost.usd) if cost.usd is None else f"about {money(cost.usd)}"
    out.print(f"one round of {ident(judge_label(spec))}: {counted(cost.calls, 'call')}, {price}")
    out.print(f'next: tracejudge anchors run {ident(name)}, and set = "{ident(name)}" under [anchors] in {config}')


def _judge(settings: Settings, judge: str | None) -> JudgeSpec:
    """The judge that is named, or the only one it can be."""
    if judge is not None:
        return choose_judges(settings.judges, [judge])[0]
    watched = anchor_judges(settings) or settings.judges
    if len(watched) > 1:
        names = ", ".join(spec.name for spec in watched)
        raise SettingsError([f"anchors build: there are several judges: name one with --judge: {names}"])
    return watched[0]


def _tell(frozen: AnchorSet, found: Chosen, spec: JudgeSpec) -> None:
    out = console()
    out.print(f"{ident(frozen.set_id)}: {counted(len(frozen.anchors), 'anchor')}, frozen")
    by_judge = found.passed + found.failed - found.labelled
    out.print(
        f"  {found.passed} passed, {found.failed} failed by {spec.criterion}: {found.labelled} by human label, "
        f"{by_judge} by the judge"
    )
    if len(frozen.anchors) < _FEW:
        out.print(f"  only {len(frozen.anchors)}: such a set can detect only large movements")
