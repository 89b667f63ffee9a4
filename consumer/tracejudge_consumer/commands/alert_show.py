"""`tracejudge alerts show`: one event with all its evidence, on the terminal or as a page."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.text import Text

from tracejudge.alerts import AlertEvent
from tracejudge.alerts.judges.hold_mark import as_held_now, hold_says
from tracejudge.comparing.paired import Estimate
from tracejudge.errors import NotFound
from tracejudge.evidence import Evidence, SlicedBy, in_reading_order, tells_of_a_fall, with_evidence
from tracejudge.evidence.words import (
    baseline_of,
    finding_says,
    judge_says,
    length_before,
    looked_at_says,
    rate_of,
    record_says,
    resampled_says,
    slices_say,
)
from tracejudge.store import Store
from tracejudge_consumer.alerting.evidence import AlertEvidence
from tracejudge_consumer.settings import Settings, load_settings
from tracejudge_consumer.terminal.fitting import FittedTable
from tracejudge_consumer.terminal.options import OutFile, Span, config_option, json_option
from tracejudge_consumer.terminal.rendering import console, ident, instant, percent, progress_bar, table, to_json
from tracejudge_consumer.views.alert_event import heading, show_event
from tracejudge_consumer.wiring import build_evidence, connect_store, stored_held

_SHORTEST_ID = 4
_MOST_ATTRIBUTES = 3
_MOST_VALUES = 8


@click.command(
    name="show",
    epilog="""\b
Examples:
  tracejudge alerts show 9f2c41d08e6b4b0f8f6c2a5d3e1b7a90
  tracejudge alerts show 9f2c41d08e6b4b0f8f6c2a5d3e1b7a90 --html alert.html --texts
  tracejudge alerts show 9f2c41d0 --measure 300d

A unique prefix of the id is enough. The evidence is recomputed from stored scores as of the alert; traces judged later
are ignored. For an event that is not an alert, the data stored with it is shown.""",
)
@click.argument("event_id")
@config_option
@json_option
@click.option("--html", "target", type=OutFile(), default=None, help="Write an HTML page to this file.")
@click.option(
    "--measure",
    "days",
    type=Span(),
    default=None,
    help="Simulate the rule on its own healthy history for this long (such as 300d) and count its false alarms.",
)
@click.option("--texts", is_flag=True, help="Include question, answer and passages of the worst traces in the page.")
def show(event_id: str, config: str, as_json: bool, target: str | None, days: timedelta | None, texts: bool) -> None:
    """Where the rate fell, retrieval or generation, the worst traces, and the rule's track record."""
    settings = load_settings(config, require_caps=False)
    with connect_store(settings) as store:
        event = as_held_now(_event(store, event_id), {one.event_id for one in stored_held(store)})
        if not tells_of_a_fall(event):
            if target is not None:
                raise NotFound(
                    f"event {event.event_id} is of kind {event.kind!r} and has no page; see its alert, "
                    f"{event.evidence.get('fired_event_id', 'no firing event')}"
                )
            _tell(event, as_json=as_json)
            return
        explainer = build_evidence(settings, store)
        evidence = explainer.evidence(event)
        if days is not None:
            evidence = _measured(settings, explainer, evidence, max(1, round(days / timedelta(days=1))))
        if target is not None:
            Path(target).write_text(explainer.html(evidence, texts=texts or None), encoding="utf-8")
    if as_json:
        page = event.evidence.get("page")
        click.echo(to_json(with_evidence(evidence, page=page if isinstance(page, str) else None)))
        return
    out = console()
    show_evidence(out, evidence)
    if target is not None:
        out.print(f"page: {target}")


def _event(store: Store, event_id: str) -> AlertEvent:
    """The event of this id, or the only one whose id begins so."""
    if exact := store.alert_events.get([event_id]):
        return exact[0]
    found = store.alert_events.beginning(event_id, limit=3) if len(event_id) >= _SHORTEST_ID else []
    if not found:
        raise NotFound(f"no alert event {ident(event_id)!r}; `tracejudge alerts` lists the ids")
    if len(found) > 1:
        names = ", ".join(one.event_id for one in found[:2])
        raise NotFound(f"several alert events begin with {ident(event_id)!r}, such as {names}: give more of the id")
    return found[0]


def _measured(settings: Settings, explainer: AlertEvidence, evidence: Evidence, days: int) -> Evidence:
    name = evidence.event.series.rule
    rule = next((one for one in settings.rules if one.name == name), None)
    if rule is None:
        raise NotFound(f"rule {name!r} is no longer in the settings, so it cannot be simulated; omit --measure")
    with progress_bar(TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn()) as bar:
        task = bar.add_task("simulating healthy days", total=days)
        found = explainer.measured(evidence, rule, days=days, told=lambda day: bar.update(task, completed=day))
    if found.resampled is None:
        click.echo("less than a day of healthy history: nothing to simulate", err=True)
    return found


def _tell(event: AlertEvent, *, as_json: bool) -> None:
    if as_json:
        click.echo(to_json(event))
        return
    show_event(console(), event)


def show_evidence(out: Console, evidence: Evidence) -> None:
    """Prints everything that is known about one alert."""
    event = evidence.event
    out.print(Text(heading(event), style="bold"))
    out.print(f"  {ident(event.summary)}")
    if (held := hold_says(event)) is not None:
        _line(out, "told", held)
    _line(out, "began about", f"{instant(evidence.started)} UTC")
    if (learned := baseline_of(event)) is not None:
        _line(out, "baseline", f"{percent(learned)}, learned by the rule when it fired")
    _line(out, "before", f"{rate_of(evidence.before)} in the {length_before(evidence)} before the fall")
    _line(out, "since", f"{rate_of(evidence.since)} from the fall to the alert")
    if evidence.change is not None:
        _line(out, "change", _points(evidence.change))
    _line(out, "where", slices_say(evidence))
    for finding in evidence.findings[1:5]:
        _line(out, "", finding_says(finding))
    _line(out, "component", evidence.reading.says)
    for measure in evidence.reading.measures:
        if measure.moved:
            of = percent if measure.unit == "share" else "{:.4g}".format
            _line(out, "", f"{measure.name}: {of(measure.before)} before, {of(measure.since)} since")
    if evidence.passages is not None:
        before, since = percent(evidence.passages.before), percent(evidence.passages.since)
        _line(out, "", f"traffic without passages to judge: {before} before, {since} since")
    if (judge := judge_says(event)) is not None:
        _line(out, "judge", judge)
    _line(out, "trust", record_says(evidence.record, app=event.series.app))
    if evidence.resampled is not None:
        _line(out, "", resampled_says(evidence.resampled))
    _line(out, "compared", looked_at_says(evidence))
    if (page := event.evidence.get("page")) is not None:
        _line(out, "page", str(page))
    for one in in_reading_order(evidence)[:_MOST_ATTRIBUTES]:
        out.print(_slices(one))
    if evidence.worst:
        columns = [("trace", "left"), ("when", "left"), ("score", "right"), ("why", "left")]
        rows = [[ident(one.trace_id), instant(one.at), f"{one.score:.2f}", ident(one.why)] for one in evidence.worst]
        out.print(table("Read these first", columns, rows))


def _slices(one: SlicedBy) -> FittedTable:
    parts = one.parts
    rows = [
        [
            ident(part.value) or "(none)",
            percent(part.share_before),
            percent(part.share_since),
            percent(part.before.estimate if part.before is not None else None),
            percent(part.since.estimate if part.since is not None else None),
            f"{100 * part.within:+.1f}",
            f"{100 * part.mix:+.1f}",
            f"{100 * part.new_or_gone:+.1f}",
        ]
        for part in parts.slices[:_MOST_VALUES]
    ]
    columns = [("value", "left"), ("traffic before", "right"), ("since", "right"), ("rate before", "right")]
    columns += [("since", "right"), ("within", "right"), ("mix", "right"), ("new or gone", "right")]
    title = f"By {ident(one.name)}: within {_points(parts.within)}, mix {_points(parts.mix)}"
    return table(title, columns, rows)


def _line(out: Console, name: str, said: str) -> None:
    out.print(f"  {name:<12} {ident(said)}")


def _points(change: Estimate) -> str:
    return f"{100 * change.value:+.1f} points ({100 * change.low:+.1f} to {100 * change.high:+.1f})"
