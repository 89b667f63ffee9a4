"""What rules would have said about scores that are stored already, held against what people know of that time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import islice
from typing import Final

from tracejudge.alerts.actions import Action
from tracejudge.alerts.engine import Engine
from tracejudge.alerts.event import AlertEvent
from tracejudge.alerts.order import in_order
from tracejudge.alerts.rules.budget import promised_per_hour
from tracejudge.alerts.rules.promise import Promises
from tracejudge.alerts.rules.rule import Rule
from tracejudge.alerts.series.status import SeriesStatus
from tracejudge.alerts.watched_time import watched_time
from tracejudge.scores import Score, TraceFacts, TraceKey

_PAGE: Final = 5000
_QUALITY: Final = ("firing", "resolved", "escalated")
OPEN_INCIDENT: Final = timedelta(days=7)
"""How long one waits for an alert of an incident whose end nobody gave."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentFound:
    """A marked incident, and the alert that told of it: None when none did."""

    incident: Action
    alert: AlertEvent | None
    delay_s: float | None  # from the marked start to the alert, by when answers were served; 0 when it fired already


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceFound:
    """One application of an environment: the promise is made for all of its quality series together."""

    environment: str
    app: str
    days: float  # of event time that its rows watched, see `watched_time`: a gap of more than 30 days is none of it
    alerts: int
    false_alarms: int  # alerts outside of every marked incident
    expected_false_alarms: float  # at most, if the promise holds
    unpromised: int = 0  # alerts of classic thresholds, which are in none of the figures before


@dataclass(frozen=True, slots=True, kw_only=True)
class Backtest:
    """All of it, in order of time and of name."""

    rows: int
    events: tuple[AlertEvent, ...]
    places: tuple[PlaceFound, ...]
    incidents: tuple[IncidentFound, ...]
    series: tuple[SeriesStatus, ...]


def backtest(
    rules: Sequence[Rule],
    scores: Iterable[Score],
    *,
    promises: Promises | None = None,
    incidents: Sequence[Action] = (),
    facts: Callable[[Sequence[Score]], Mapping[TraceKey, TraceFacts]] | None = None,
) -> Backtest:
    """Folds live rows, in the order in which they were judged, as the alert loop would have; memory is that of the
    engine and the events. Marks are of the time of serving, so events are held against them by that: old answers may
    have been judged all at once.

    Baselines are learned from the first row on: rules that need one are quiet at the beginning. Nothing is known here
    of accepted or dismissed alerts. `facts` tells of the traces of some rows what the rules want to know.
    """
    engine = Engine(rules, promises=promises)
    events: list[AlertEvent] = []
    spans: dict[tuple[str, str], dict[date, tuple[datetime, datetime]]] = {}
    rows, stream = 0, in_order(scores)
    while page := list(islice(stream, _PAGE)):
        rows += len(page)
        for score in page:
            days = spans.setdefault((score.environment, score.app), {})
            at = score.event_time
            first, last = days.get(at.date(), (at, at))
            days[at.date()] = (min(first, at), max(last, at))
        known = facts(page) if facts is not None and engine.asks_traces else None
        events += (event for event in engine.fold(page, facts=known) if event.kind in _QUALITY)
    marks = [action for action in incidents if action.verb == "mark"]
    return Backtest(
        rows=rows,
        events=tuple(events),
        places=tuple(
            _place(place, watched_time(days.values()), events, marks, rules, promises or Promises())
            for place, days in sorted(spans.items())
        ),
        incidents=tuple(_incident(mark, events) for mark in sorted(marks, key=lambda mark: mark.start)),
        series=tuple(engine.status()),
    )


def _place(
    place: tuple[str, str],
    watched: timedelta,
    events: list[AlertEvent],
    marks: list[Action],
    rules: Sequence[Rule],
    promises: Promises,
) -> PlaceFound:
    environment, app = place
    here = [e for e in events if e.kind == "firing" and (e.series.environment, e.series.app) == place]
    promised = promised_per_hour(rules, promises, environment=environment, app=app)
    fired = [event for event in here if event.series.rule in promised]
    days = watched / timedelta(days=1)
    return PlaceFound(
        environment=environment,
        app=app,
        days=days,
        alerts=len(fired),
        false_alarms=sum(not any(_within(mark, event) for mark in marks) for event in fired),
        expected_false_alarms=24.0 * days * sum(promised.values()),
        unpromised=len(here) - len(fired),
    )


def _within(mark: Action, event: AlertEvent) -> bool:
    return mark.matches(event.series) and mark.start <= event.served_at < _end(mark)


def _end(mark: Action) -> datetime:
    return mark.end if mark.end is not None else mark.start + OPEN_INCIDENT


def _incident(mark: Action, events: list[AlertEvent]) -> IncidentFound:
    open_alerts: dict[object, AlertEvent] = {}
    for event in events:
        if not mark.matches(event.series):
            continue
        if event.served_at >= mark.start:
            continue  # of several series, each in its own order
        if event.kind == "firing":
            open_alerts[event.series] = event
        elif event.kind == "resolved":
            open_alerts.pop(event.series, None)
    if open_alerts:
        return IncidentFound(incident=mark, alert=next(iter(open_alerts.values())), delay_s=0.0)
    found = next((event for event in events if event.kind == "firing" and _within(mark, event)), None)
    delay = None if found is None else (found.served_at - mark.start).total_seconds()
    return IncidentFound(incident=mark, alert=found, delay_s=delay)
