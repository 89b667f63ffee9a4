"""Which channels were told of what has ended: its end has to reach these, whatever else keeps events from them.

A pager keeps an incident open until it is told of its end, however long ago it began, and also where a person has
silenced it meanwhile, or where the channel is not sent events of the severity that it has by now.
"""

from __future__ import annotations

from collections.abc import Sequence

from tracejudge.alerts import AlertEvent
from tracejudge.alerts.telling.incident import OPENS
from tracejudge.store import Store


def announced(store: Store, events: Sequence[AlertEvent]) -> frozenset[tuple[str, str]]:
    """(Channel, event id) of those ends among the events of which the channel has been sent an earlier event, or is
    still to be. Events that are stored together with their end do not count."""
    fresh = {event.event_id for event in events}
    ends = [event for event in events if event.kind in OPENS]
    of_alerts = [event for event in ends if event.alert_id != event.event_id]
    ends_of = {event.alert_id: event.event_id for event in of_alerts}
    begun: dict[str, list[str]] = {}
    for event in store.alert_events.of_alerts(list(ends_of)) if ends_of else ():
        if event.kind not in OPENS and event.event_id not in fresh:
            begun.setdefault(event.event_id, []).append(ends_of[event.alert_id])
    for end in ends:
        beginning = _beginning(store, end) if end.alert_id == end.event_id else None
        if beginning is not None and beginning not in fresh:
            begun.setdefault(beginning, []).append(end.event_id)
    told = store.outbox.of(list(begun)) if begun else []
    return frozenset((one.notifier, end) for one in told if one.state != "given_up" for end in begun[one.event_id])


def _beginning(store: Store, end: AlertEvent) -> str | None:
    for event in store.alert_events.all(rule=end.series.rule):  # the latest first
        if event.series == end.series and event.kind == OPENS[end.kind] and event.at <= end.at:
            return event.event_id
    return None
