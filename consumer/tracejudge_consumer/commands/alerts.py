"""`tracejudge alerts`: what was said, and where every series stands."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import click
from rich.console import Console
from rich.text import Text

from tracejudge.alerts.event import AlertEvent
from tracejudge_consumer.options import Moment, config_option, json_option
from tracejudge_consumer.rendering import console, harmless, instant, table, to_json
from tracejudge_consumer.settings import load_settings
from tracejudge_consumer.wiring import connect_store, stored_series


@click.command(
    name="alerts",
    epilog="""\b
Examples:
  tracejudge alerts
  tracejudge alerts --since 30d --json""",
)
@config_option
@json_option
@click.option("--since", type=Moment(), default="7d", show_default=True, help="Events from then on.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True)
def command(config: str, as_json: bool, since: datetime, limit: int) -> None:
    """Past alert events, and the state of every series."""
    settings = load_settings(config)
    with connect_store(settings) as store:
        events = store.alert_events.all(since=since, limit=limit)
        series = stored_series(settings, store)
    if as_json:
        click.echo(to_json({"series": series, "events": events}))
        return
    out = console()
    if not series:
        out.print("no series yet: the alert loop (`tracejudge watch`) has folded no scores, or there are no [[rules]]")
    else:
        rows = [
            [
                harmless(status.key.rule),
                harmless(status.key.app),
                harmless(status.key.judge_id) + (" (heuristic)" if status.heuristic else ""),
                ", ".join(f"{harmless(name)}={harmless(value)}" for name, value in status.key.group) or "–",
                status.state.replace("_", " "),
                f"{status.evidence:.3g}",
                f"{status.n_eff:.0f}",
                instant(status.last_judged_at),
            ]
            for status in series
        ]
        columns = [("rule", "left"), ("app", "left"), ("JudgeId", "left"), ("slice", "left"), ("state", "left")]
        columns += [("evidence (fires at 1)", "right"), ("n_eff", "right"), ("last score", "left")]
        out.print(table("Series", columns, rows))
    for event in events:
        show_event(out, event)
    if not events:
        out.print(f"no events since {instant(since)} UTC")


def show_event(out: Console, event: AlertEvent) -> None:
    """Prints an event with its evidence: numbers and ids, as the channels get them."""
    heuristic = ", heuristic" if event.heuristic else ""
    out.print(Text(f"{instant(event.at)}  {event.kind} ({event.severity}{heuristic})", style="bold"))
    out.print(f"  {harmless(event.summary)}")
    for name, value in event.evidence.items():
        shown = _shown(value)
        if shown:
            out.print(f"  {name.replace('_', ' '):<18} {shown}")


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{str(name).replace('_', ' ')} {_shown(item)}" for name, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_shown, value))
    return "" if value is None else harmless(str(value), limit=160)
