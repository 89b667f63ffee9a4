"""`tracejudge alerts accept|dismiss|silence|mark|actions`: what people say about alerts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

import click

from tracejudge.alerts.actions import FIELDS, Action, Verb
from tracejudge.alerts.rules.rule_base import CHANNEL_RULE, HEALTH_RULE
from tracejudge.alerts.rules.slices import OF_SCORE, OF_TRACE, is_of_trace
from tracejudge.errors import NotFound
from tracejudge.store import Store
from tracejudge_consumer.alerting.actions import read_actions, record_action
from tracejudge_consumer.settings import load_settings
from tracejudge_consumer.terminal.options import Moment, Span, config_option, json_option
from tracejudge_consumer.terminal.person import this_person
from tracejudge_consumer.terminal.rendering import console, ident, instant, one_line, slice_in_words, table, to_json
from tracejudge_consumer.wiring import connect_store, stored_series

_Command = TypeVar("_Command", bound=Callable[..., Any])


class _Matcher(click.ParamType[tuple[str, str]]):
    """FIELD=VALUE on the command line."""

    name = "field=value"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        field, separator, wanted = str(value).partition("=")
        known = (*FIELDS, *OF_SCORE, *OF_TRACE, "anchors", "against")
        if not separator or not (field in known or is_of_trace(field)):
            self.fail(f"{value!r} is not FIELD=VALUE with a field of {', '.join(known)} or tags.NAME", param, ctx)
        return field, wanted


def _said(command: _Command) -> _Command:
    for option in (
        json_option,
        config_option,
        click.option("--by", default=None, help="Your name, recorded with the action.  [default: the user's name]"),
        click.option("--note", default="", help="Reason, recorded with the action."),
    ):
        command = option(command)
    return command


def _matchers(command: _Command) -> _Command:
    return click.argument("matchers", nargs=-1, type=_Matcher(), metavar="[FIELD=VALUE]...")(command)


@click.command(
    name="accept",
    epilog="""\b
Example:
  tracejudge alerts accept rule=drift app=shop --note "v42 answers shorter, agreed with the team"
Evidence and learned baseline restart from the scores since the fall. A minimum rule only restarts: change its minimum
if the new level is here to stay.""",
)
@_matchers
@_said
def accept(matchers: tuple[tuple[str, str], ...], **said: Any) -> None:
    """Close open alerts: the current level is the new normal."""
    _close("accept", matchers, **said)


@click.command(
    name="dismiss",
    epilog="""\b
Example:
  tracejudge alerts dismiss event_id=9f2c41...
A learned baseline also learns the scores since then, so that the same chance event does not fire again and again.""",
)
@_matchers
@_said
def dismiss(matchers: tuple[tuple[str, str], ...], **said: Any) -> None:
    """Close open alerts: nothing was wrong."""
    _close("dismiss", matchers, **said)


@click.command(
    name="acknowledge",
    epilog="""\b
Example:
  tracejudge alerts acknowledge event_id=9f2c41... --note "looking into it"
The alert stays open but sends no more reminders (`remind_after` of its rule) unless it escalates to a page.""",
)
@_matchers
@_said
def acknowledge(matchers: tuple[tuple[str, str], ...], **said: Any) -> None:
    """Acknowledge open alerts: somebody is working on them."""
    _close("acknowledge", matchers, **said)


@click.command(
    name="silence",
    epilog="""\b
Example:
  tracejudge alerts silence app=shop --for 2h --note "index is being rebuilt"
  tracejudge alerts silence rule=drift --until 2026-02-01T08:00:00Z
Detection continues and events are stored; only notifications stop, except for the end of
an alert that was open before. An alert that began in the silence and outlasts it is told when it ends.""",
)
@_matchers
@_said
@click.option("--for", "span", type=Span(), default=None, help="Duration from now: 30m, 2h, 7d ...")
@click.option("--until", type=Moment(), default=None, help="End of the silence, instead of --for.")
def silence(matchers: tuple[tuple[str, str], ...], span: timedelta | None, until: datetime | None, **said: Any) -> None:
    """Mute notifications of some series for a while."""
    if not matchers:
        raise click.UsageError("name what to silence, such as app=shop, or environment=production for all of it")
    if (span is None) == (until is None):
        raise click.UsageError("give --for or --until")
    settings = load_settings(said["config"], require_caps=False)
    with connect_store(settings) as store:
        end = store.now() + span if span is not None else until
        if end is None or end <= store.now():
            raise click.BadParameter("is in the past; give a future instant", param_hint="--until")
        action = _record(store, "silence", matchers, end=end, **said)
        met = [one for one in stored_series(settings, store) if action.matches(one.key, event_id=one.alert_event_id)]
    _told(action, said)
    if not met and dict(matchers).get("rule") not in (HEALTH_RULE, CHANNEL_RULE):  # these two have no series
        click.echo(
            "note: no series matches now (`tracejudge alerts` lists them); the silence applies to future ones", err=True
        )


@click.command(
    name="mark",
    epilog="""\b
Example:
  tracejudge alerts mark app=shop --from 2026-01-31T12:00:00Z --to 2026-01-31T15:00:00Z --note "index was empty"
It changes no alert; backtests are measured against it.""",
)
@_matchers
@_said
@click.option("--from", "start", type=Moment(), required=True, help="Start of the incident.")
@click.option("--to", "end", type=Moment(), default=None, help="End of the incident.  [default: ongoing]")
def mark(matchers: tuple[tuple[str, str], ...], start: datetime, end: datetime | None, **said: Any) -> None:
    """Record a real incident, with start and end."""
    if end is not None and end <= start:
        raise click.BadParameter("is not after --from", param_hint="--to")
    with _store(said) as store:
        _told(_record(store, "mark", matchers, start=start, end=end, **said), said)


@click.command(name="actions", epilog="\b\nExample:\n  tracejudge alerts actions --since 30d")
@config_option
@json_option
@click.option("--since", type=Moment(), default="30d", show_default=True, help="Start of the time range.")
def actions(config: str, as_json: bool, since: datetime) -> None:
    """List actions that people took on alerts."""
    with connect_store(load_settings(config, require_caps=False)) as store:
        found = [action for action in read_actions(store) if action.at >= since]
    if as_json:
        click.echo(to_json({"actions": found}))
        return
    rows = [
        [
            instant(one.at),
            one.verb,
            _about(one),
            instant(one.start),
            instant(one.end),
            ident(one.by),
            one_line(one.note),
        ]
        for one in found
    ]
    columns = [("at", "left"), ("what", "left"), ("about", "left"), ("from", "left"), ("to", "left")]
    console().print(table("Actions", [*columns, ("by", "left"), ("note", "left")], rows))


def _close(verb: Verb, matchers: tuple[tuple[str, str], ...], **said: Any) -> None:
    if not matchers:
        raise click.UsageError(
            f"name what to {verb}, such as event_id=... or rule=... app=...; `tracejudge alerts` lists them"
        )
    settings = load_settings(said["config"], require_caps=False)
    with connect_store(settings) as store:
        series = stored_series(settings, store)
        matchers = _whole_ids(matchers, [one.alert_event_id for one in series if one.alert_event_id is not None])
        probe = Action(action_id="", verb=verb, matchers=dict(matchers), start=store.now(), at=store.now())
        opened = [
            status
            for status in series
            if status.alert_event_id is not None and probe.matches(status.key, event_id=status.alert_event_id)
        ]
        if not opened:
            about = " ".join(f"{field}={value}" for field, value in matchers)
            raise NotFound(f"no open alert matches {about}; `tracejudge alerts` shows what is firing")
        action = _record(store, verb, matchers, **said)
    _told(action, said)
    if not said["as_json"]:
        for status in opened:
            app = ident(status.key.app) or "all apps"
            where = f" [{slice_in_words(status.key.group)}]" if status.key.group else ""
            click.echo(f"  {ident(status.key.rule)}: {ident(status.key.judge_id)} of {app}{where}")
        click.echo("The alert loop applies it in its next round, within about a minute.")


def _whole_ids(matchers: tuple[tuple[str, str], ...], open_ids: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """With the whole id of an open alert in place of its beginning, where only one begins so."""
    whole = []
    for field, value in matchers:
        met = [one for one in open_ids if one.startswith(value)] if field == "event_id" and len(value) >= 4 else []
        whole.append((field, met[0] if len(met) == 1 else value))
    return tuple(whole)


def _record(
    store: Store,
    verb: Verb,
    matchers: tuple[tuple[str, str], ...],
    *,
    start: datetime | None = None,
    end: datetime | None = None,
    **said: Any,
) -> Action:
    by = said["by"] if said["by"] is not None else this_person()
    return record_action(store, verb, matchers=dict(matchers), start=start, end=end, by=by, note=said["note"])


def _store(said: dict[str, Any]) -> Store:
    return connect_store(load_settings(said["config"], require_caps=False))


def _told(action: Action, said: dict[str, Any]) -> None:
    if said["as_json"]:
        click.echo(to_json({"action": action}))
    else:
        until = f" until {instant(action.end)} UTC" if action.end is not None else ""
        click.echo(f"{action.verb} {_about(action)}{until} (action {action.action_id})")


def _about(action: Action) -> str:
    return " ".join(f"{field}={ident(value)}" for field, value in action.matchers.items()) or "everything"
