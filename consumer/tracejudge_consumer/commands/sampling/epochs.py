"""`tracejudge sampling epochs`: the rates that the governors fixed, and since when."""

from __future__ import annotations

from datetime import datetime

import click

from tracejudge.sampling import epoch_from_json
from tracejudge_consumer.settings import load_settings
from tracejudge_consumer.terminal.options import Moment, config_option, json_option
from tracejudge_consumer.terminal.rendering import console, ident, instant, table, to_json
from tracejudge_consumer.wiring import connect_store


@click.command(
    name="epochs",
    epilog="""\b
Examples:
  tracejudge sampling epochs
  tracejudge sampling epochs --since 7d --json""",
)
@config_option
@json_option
@click.option("--since", type=Moment(), default="3h", show_default=True, help="Epochs in force since this event time.")
def epochs(config: str, as_json: bool, since: datetime) -> None:
    """List rates by epoch: the epoch in force at a trace's event time decides."""
    settings = load_settings(config, require_caps=False)
    with connect_store(settings) as store:
        rows = store.sampling_epochs.in_force(since).epochs
    if as_json:
        click.echo(to_json([{"epoch": one.epoch, "starts_at": one.starts_at, **one.rates} for one in rows]))
        return
    out = console()
    if not rows:
        out.print("no epochs: the policy applies as written")
        if settings.sampling.has_epochs:
            out.print("the leader (`tracejudge watch` or `up`) writes them once it runs and traces arrive")
        return
    found = [epoch_from_json(one.epoch, one.starts_at, one.rates) for one in rows]
    cells = [
        [
            instant(epoch.starts_at),
            ident(name),
            f"{rates.scale:.4g}",
            f"{rates.rules:.4g}",
            ", ".join(f"{ident(stratum)} {rate:.3g}" for stratum, rate in sorted(rates.floors.items())) or "–",
        ]
        for epoch in found
        for name, rates in sorted(epoch.rates.items())
    ]
    columns = [("from (UTC)", "left"), ("governor", "left"), ("rates x", "right"), ("rules x", "right")]
    out.print(table("Sampling epochs", [*columns, ("floors", "left")], cells))
    for key, first in sorted(found[-1].first_seen.items()):
        version = f"{ident(key.app)} {ident(key.version) or '(no version)'} ({ident(key.environment)})"
        out.print(f"young version: {version}, first seen {instant(first)} UTC")
