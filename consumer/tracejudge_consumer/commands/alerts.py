"""`tracejudge alerts`: what was said, and where every series stands."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

import click
from rich.console import Console
from rich.text import Text

from tracejudge.alerts.event import AlertEvent
from tracejudge.alerts.judges.hold_mark import as_held_now, hold_numbers, hold_says
from tracejudge.alerts.telling.told import evidence_lines, evidence_link
from tracejudge_consumer.commands.alert_channels import channels
from tracejudge_consumer.commands.alert_rules import list_rules
from tracejudge_consumer.commands.alert_show import show
from tracejudge_consumer.commands.alert_trials import NO_SERIES, explain, try_history, try_rules
from tracejudge_consumer.commands.alert_verbs import accept, acknowledge, actions, dismiss, mark, silence
from tracejudge_consumer.settings import load_settings
from tracejudge_consumer.terminal.options import Moment, config_option, json_option, typed_last
from tracejudge_consumer.terminal.rendering import (
    console,
    harmless,
    ident,
    instant,
    interval,
    percent,
    slice_in_words,
    table,
    to_json,
)
from tracejudge_consumer.wiring import connect_store, stored_held, stored_series

_since_option = click.option(
    "--since", type=Moment(), default="7d", show_default=True, callback=typed_last, help="Events from then on."
)
_limit_option = click.option(
    "--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, callback=typed_last
)


@click.group(
    name="alerts",
    invoke_without_command=True,
    epilog="""\b
Examples:
  tracejudge alerts
  tracejudge alerts --since 30d --json
  tracejudge alerts show EVENT_ID --html alert.html
  tracejudge alerts accept rule=drift app=shop --note "agreed: v42 answers shorter"
  tracejudge alerts silence app=shop --for 2h""",
)
@click.pass_context
@config_option
@json_option
@_since_option
@_limit_option
def command(ctx: click.Context, config: str, as_json: bool, since: datetime, limit: int) -> None:
    """Past alert events, and the state of every series (`alerts list`); with a command, say something about them."""
    if ctx.invoked_subcommand is None:
        _list(config, as_json=as_json, since=since, limit=limit)


@command.command(
    name="list",
    epilog="""\b
Examples:
  tracejudge alerts list --since 30d
  tracejudge alerts list --limit 500 --json""",
)
@config_option
@json_option
@_since_option
@_limit_option
def list_alerts(config: str, as_json: bool, since: datetime, limit: int) -> None:
    """The state of every series, and past alert events: as without a command."""
    _list(config, as_json=as_json, since=since, limit=limit)


def _list(config: str, *, as_json: bool, since: datetime, limit: int) -> None:
    settings = load_settings(config, require_caps=False)
    with connect_store(settings) as store:
        held = {event.event_id: event for event in stored_held(store)}
        events = [as_held_now(event, held.keys()) for event in store.alert_events.all(since=since, limit=limit)]
        series = stored_series(settings, store)
    if as_json:
        told = [hold_numbers(event) for event in held.values()]
        click.echo(to_json({"series": series, "events": events, "held": told}))
        return
    out = console()
    if not series:
        out.print(NO_SERIES)
    else:
        rows = [
            [
                ident(status.key.rule),
                ident(status.key.app) or "–",
                ident(status.key.judge_id) + (" (heuristic)" if status.heuristic else ""),
                slice_in_words(status.key.group),
                status.state.replace("_", " ") + (", held back" if status.alert_event_id in held else ""),
                percent(status.boundary),
                f"{status.evidence:.3g}",
                f"{status.n_eff:.0f}",
                instant(status.last_judged_at),
            ]
            for status in series
        ]
        columns = [("rule", "left"), ("app", "left"), ("JudgeId", "left"), ("slice", "left"), ("state", "left")]
        # Headings of one word: a table has as many columns as fit the words in them.
        columns += [("boundary", "right"), ("evidence", "right"), ("n_eff", "right"), ("scored", "left")]
        out.print(table("Series: one fires when its evidence for a rate below the boundary reaches 1", columns, rows))
    for event in events:
        show_event(out, event)
    if not events:
        out.print(f"no events since {instant(since)} UTC")


for _verb in (
    show,
    accept,
    dismiss,
    acknowledge,
    channels,
    list_rules,
    silence,
    mark,
    actions,
    try_rules,
    try_history,
    explain,
):
    command.add_command(_verb)


def show_event(out: Console, event: AlertEvent) -> None:
    """Prints an event with its evidence: numbers and ids, as the channels get them."""
    heuristic = ", heuristic" if event.heuristic else ""
    out.print(Text(f"{instant(event.at)}  {event.kind} ({event.severity}{heuristic})", style="bold"))
    out.print(f"  {ident(event.summary)}")
    if (says := hold_says(event)) is not None:
        out.print(f"  {says}")
    evidence = dict(event.evidence)
    hours, needed = evidence.pop("evidence_hours", None), evidence.pop("alarm_hours", None)
    if isinstance(hours, float) and isinstance(needed, float):
        promise = evidence.get("false_alarms", "")
        out.print(
            f"  {'evidence':<18} {_hours(hours)} hours, fires at {needed:.0f} ({_shown(promise)} false alarms promised)"
        )
    lines = evidence_lines(event)
    if lines:
        evidence.pop("worst_trace_ids", None)  # they stand in the lines
    for line in lines:
        out.print(f"  {ident(line)}")
    if (link := evidence_link(event)) is not None:
        out.print(f"  page: {ident(link)}")
    for name, value in evidence.items():
        shown = "" if name in _TOLD_ALREADY else _shown(value)
        if shown:
            out.print(f"  {name.replace('_', ' '):<18} {shown}")


def _hours(hours: float) -> str:
    """Evidence; what is far above any level it fires at is no better known by more digits."""
    return f"{hours:.0f}" if hours < 1e6 else "over a million"


# Said by the lines above, or of interest to a program only; --json has them all.
_TOLD_ALREADY: Final = (
    frozenset(
        {"rule", "type", "evidence_share", "false_alarms", "budget_share", "hypothetical_rate", "compared", "slices"}
    )
    | {"retrieval_or_generation", "worst", "false_alarms_measured", "false_alarms_resampled", "page", "gathered"}
    | {"held", "held_back", "waits_until"}
)
_RATE: Final = frozenset({"rate", "low", "high", "judged", "n_eff"})


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Mapping):
        if value.keys() >= _RATE:
            bounds = interval(value["low"], value["high"])
            return f"{percent(value['rate'])} ({bounds}), {value['judged']} judged, n_eff {value['n_eff']:.0f}"
        return ", ".join(f"{str(name).replace('_', ' ')} {_shown(item)}" for name, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_shown, value))
    return "" if value is None else harmless(str(value), limit=160)
