"""`tracejudge alerts channels`: where each channel stands, and whether it takes a message."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import NamedTuple

import click

from tracejudge.alerts import AlertEvent, NotDelivered, Notifier, SeriesKey
from tracejudge.alerts.event import EventKind
from tracejudge.alerts.notifiers import NotifierSettings, TerminalNotifier
from tracejudge.alerts.rules.rule_base import CHANNEL_RULE
from tracejudge.alerts.telling.channels import ChannelState
from tracejudge.errors import SettingsError
from tracejudge.store import OutboxStanding
from tracejudge_consumer.settings import Settings, load_settings
from tracejudge_consumer.terminal.exit_status import EXIT_DONE, EXIT_FAILED
from tracejudge_consumer.terminal.options import config_option, json_option
from tracejudge_consumer.terminal.rendering import console, harmless, ident, instant, table, to_json
from tracejudge_consumer.wiring import build_notifiers, connect_store

_KEEPS_INCIDENTS = ("pagerduty", "alertmanager")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelStanding:
    """One channel: what it hears of, and how far its deliveries are; notifications, not messages, are counted."""

    channel: str
    type: str
    severities: tuple[str, ...]
    match: Mapping[str, str]
    limit: str
    state: str  # ok, failing, dead
    held: bool  # some wait for the limit
    failing_since: datetime | None
    pending: int
    sent: int
    given_up: int  # silenced, too old when found, or tried for a day
    last_sent_at: datetime | None
    last_error: str  # of what waits


@click.group(
    name="channels",
    invoke_without_command=True,
    epilog="""\b
Examples:
  tracejudge alerts channels
  tracejudge alerts channels test on-call""",
)
@click.pass_context
@config_option
@json_option
def channels(ctx: click.Context, config: str, as_json: bool) -> None:
    """State of each channel: messages waiting and sent, and whether it is dead."""
    if ctx.invoked_subcommand is not None:
        return
    settings = load_settings(config, require_caps=False)
    with connect_store(settings) as store:
        counted = {one.notifier: one for one in store.outbox.standing()}
        kept = [ChannelState.from_snapshot(row.state) for row in store.alert_snapshots.load_all().values()]
    states = {state.name: state for state in kept if state is not None}
    found = [_standing(channel, states, counted) for channel in settings.notifiers]
    if as_json:
        click.echo(to_json({"channels": found}))
        return
    if not found:
        click.echo("no [[notifiers]] in the settings: nobody is notified")
        return
    rows = [
        [
            ident(one.channel),
            ", ".join([*one.severities, *(f"{field}={harmless(value)}" for field, value in one.match.items())]),
            one.limit,
            one.state + (", held back" if one.held else ""),
            str(one.pending),
            str(one.sent),
            str(one.given_up),
            instant(one.last_sent_at),
        ]
        for one in found
    ]
    columns = [("channel", "left"), ("receives", "left"), ("limit", "left"), ("state", "left"), ("waiting", "right")]
    columns += [("sent", "right"), ("given up", "right"), ("last sent", "left")]
    out = console()
    out.print(table("Channels", columns, rows))
    for one in found:
        if one.pending and one.last_error:
            out.print(f"{ident(one.channel)}: {harmless(_bare(one.channel, one.last_error))}")


def _standing(
    channel: NotifierSettings, states: Mapping[str, ChannelState], counted: Mapping[str, OutboxStanding]
) -> ChannelStanding:
    name, policy = channel.channel, channel.policy
    state, counts = states.get(name, ChannelState(name=name)), counted.get(name)
    return ChannelStanding(
        channel=name,
        type=channel.type,
        severities=tuple(sorted(policy.severities)),
        match=policy.match,
        limit=channel.max_messages_text,
        state="dead" if state.down else "failing" if state.failures else "ok",
        held=state.held and policy.rate is not None,
        failing_since=state.failing_since,
        pending=counts.pending if counts else 0,
        sent=counts.sent if counts else 0,
        given_up=counts.given_up if counts else 0,
        last_sent_at=counts.last_sent_at if counts else None,
        last_error=counts.last_error if counts else "",
    )


def _bare(channel: str, error: str) -> str:
    """The error without the name it begins with: that stands before it already."""
    return error.removeprefix(f"{channel}: ")


class _Tried(NamedTuple):
    channel: str
    ok: bool
    error: str


@channels.command(
    name="test",
    epilog="""\b
Examples:
  tracejudge alerts channels test
  tracejudge alerts channels test on-call
On channels that track incidents (pagerduty, alertmanager) the test is resolved right away. No rate limit applies and
nothing is stored. Exit status 1 if delivery to any channel failed.""",
)
@click.argument("name", required=False)
@config_option
@json_option
def try_channels(name: str | None, config: str, as_json: bool) -> int:
    """Send a test event to one channel, or to all."""
    settings = load_settings(config, require_caps=False)
    names = [channel.channel for channel in settings.notifiers]
    if not names:
        raise SettingsError([f"{config}: has no [[notifiers]], so there is nothing to test"])
    if name is not None and name not in names:
        raise click.BadParameter(f"{name!r} is not one of {', '.join(map(repr, names))}", param_hint="NAME")
    if name is not None:
        chosen = tuple(channel for channel in settings.notifiers if channel.channel == name)
        settings = settings.model_copy(update={"notifiers": chosen})
    tried = [_try(notifier, settings) for notifier in build_notifiers(settings)]
    if as_json:
        click.echo(to_json({"channels": [one._asdict() for one in tried]}))
    else:
        for one in tried:
            fault = "" if one.ok else f": {_bare(one.channel, one.error)}"
            click.echo(f"{'ok  ' if one.ok else 'FAIL'} {ident(one.channel)}{fault}")
    return EXIT_DONE if all(one.ok for one in tried) else EXIT_FAILED


def _try(notifier: Notifier, settings: Settings) -> _Tried:
    (channel,) = [channel for channel in settings.notifiers if channel.channel == notifier.name]
    if isinstance(notifier, TerminalNotifier):
        notifier = TerminalNotifier(name=notifier.name, stream=sys.stderr)  # what we say ourselves is on stdout
    kinds: tuple[EventKind, ...] = ("test", "test_over") if channel.type in _KEEPS_INCIDENTS else ("test",)
    try:
        for kind in kinds:
            notifier.notify(_event(notifier.name, kind))
    except NotDelivered as error:
        return _Tried(notifier.name, ok=False, error=harmless(str(error), limit=400))
    return _Tried(notifier.name, ok=True, error="")


def _event(name: str, kind: EventKind) -> AlertEvent:
    return AlertEvent(
        event_id=uuid.uuid4().hex,
        series=SeriesKey(
            rule=CHANNEL_RULE,
            environment="all",
            app="tracejudge",
            judge_name="",
            judge_id="",
            group=(("channel", name),),
        ),
        kind=kind,
        severity="ticket",
        heuristic=False,
        at=datetime.now(timezone.utc),
        summary=f"test of channel {name}: nothing is wrong" if kind == "test" else f"test of channel {name} is over",
        evidence={"channel": name},
    )
