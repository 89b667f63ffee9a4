"""`tracejudge alerts`: what was said, and where every series stands."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import click
from rich.text import Text

from tracejudge.alerts.judges.hold_mark import as_held_now, hold_numbers
from tracejudge.alerts.series.wording import of_what_fires
from tracejudge_consumer.commands.alert_channels import channels
from tracejudge_consumer.commands.alert_rules import list_rules
from tracejudge_consumer.commands.alert_show import show
from tracejudge_consumer.commands.alert_trials import NO_SERIES, explain, try_history, try_rules
from tracejudge_consumer.commands.alert_verbs import accept, acknowledge, actions, dismiss, mark, silence
from tracejudge_consumer.settings import load_settings
from tracejudge_consumer.terminal.options import Moment, config_option, json_option, typed_last
from tracejudge_consumer.terminal.rendering import (
    console,
    ident,
    instant,
    percent,
    slice_in_words,
    table,
    to_json,
)
from tracejudge_consumer.views.alert_event import show_briefly, show_event
from tracejudge_consumer.wiring import connect_store, stored_held, stored_series

MOST: Final = 10_000
_MOST_PAST: Final = 20

_since_option = click.option(
    "--since", type=Moment(), default="7d", show_default=True, callback=typed_last, help="Start of the time range."
)
_limit_option = click.option(
    "--limit",
    type=click.IntRange(1, MOST),
    default=None,
    callback=typed_last,
    help="Maximum number of past events, latest first.  [default: 20; with --json 50, open ones included]",
)
_all_option = click.option(
    "--all", "everything", is_flag=True, callback=typed_last, help="Show all events in the time range."
)


@click.group(
    name="alerts",
    invoke_without_command=True,
    epilog="""\b
Examples:
  tracejudge alerts
  tracejudge alerts --since 30d --all
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
@_all_option
def command(
    ctx: click.Context, config: str, as_json: bool, since: datetime, limit: int | None, everything: bool
) -> None:
    """State of every series, and past alert events (`alerts list`); the commands below act on alerts."""
    if ctx.invoked_subcommand is None:
        _list(config, as_json=as_json, since=since, limit=MOST if everything else limit)


@command.command(
    name="list",
    epilog="""\b
Examples:
  tracejudge alerts list --since 30d
  tracejudge alerts list --limit 500 --json

Open alerts come first, in full, then the latest past events in two lines each.""",
)
@config_option
@json_option
@_since_option
@_limit_option
@_all_option
def list_alerts(config: str, as_json: bool, since: datetime, limit: int | None, everything: bool) -> None:
    """State of every series, and past alert events (the default command)."""
    _list(config, as_json=as_json, since=since, limit=MOST if everything else limit)


def _list(config: str, *, as_json: bool, since: datetime, limit: int | None) -> None:
    settings = load_settings(config, require_caps=False)
    with connect_store(settings) as store:
        held = {event.event_id: event for event in stored_held(store)}
        series = stored_series(settings, store)
        if as_json:
            events = [
                as_held_now(event, held.keys()) for event in store.alert_events.all(since=since, limit=limit or 50)
            ]
            told = [hold_numbers(event) for event in held.values()]
            click.echo(to_json({"series": series, "events": events, "held": told}))
            return
        ids = sorted({one.alert_event_id for one in series if one.alert_event_id is not None})
        still_open = [as_held_now(event, held.keys()) for event in reversed(store.alert_events.get(ids))]
        most = limit or _MOST_PAST
        found = store.alert_events.all(since=since, limit=most + len(ids))
        past = [as_held_now(event, held.keys()) for event in found if event.event_id not in ids][:most]
        recent = sum(event.at >= since for event in still_open)
        more = store.alert_events.count(since=since) - recent - len(past)
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
                of_what_fires(status.evidence) if status.promises else "–",
                f"{status.n_eff:.0f}",
                instant(status.last_judged_at),
            ]
            for status in series
        ]
        columns = [("rule", "left"), ("app", "left"), ("JudgeId", "left"), ("slice", "left"), ("state", "left")]
        # Headings of one word: a table has as many columns as fit the words in them.
        columns += [("boundary", "right"), ("evidence", "right"), ("n_eff", "right"), ("scored", "left")]
        out.print(
            table("Series: a series fires when its evidence for a rate below the boundary reaches 100 %", columns, rows)
        )
    if still_open:
        out.print(Text("Open", style="italic"))
    for event in still_open:
        show_event(out, event)
    if past:
        out.print(Text("Past events, latest first; `tracejudge alerts show ID` shows an event in full", style="italic"))
    for event in past:
        show_briefly(out, event)
    if more > 0:
        out.print(f"... {more} more since {instant(since)} UTC: use a later --since, a higher --limit, or --all")
    if not still_open and not past:
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
