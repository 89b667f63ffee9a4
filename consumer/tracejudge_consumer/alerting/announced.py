"""Which channels were told of the beginning of what has ended: an end that is found late still has to reach these.

A pager keeps an incident open until it is told of its end, however long ago that was.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tracejudge.alerts import AlertEvent
from tracejudge.alerts.telling.incident import OPENS
from tracejudge.store import Store


def announced(store: Store, events: Sequence[AlertEvent], late: Collection[str]) -> frozenset[tuple[str, str]]:
    """(Channel, event id) of the late ends whose beginning the channel has been sent, or is still to be.

    An end that comes together with its beginning has nobody who waits for it.
    """
    fresh = {event.event_id for event in events}
    begun: dict[str, list[str]] = {}
    for event in events:
        if event.event_id in late and event.kind in OPENS:
            beginning = _beginning(store, event)
            if beginning is not None and beginning not in fresh:
                begun.setdefault(beginning, []).append(event.event_id)
    told = store.outbox.of(list(begun)) if begun else []
    return frozenset((one.notifier, end) for one in told if one.state != "given_up" for end in begun[one.event_id])


def _beginning(store: Store, end: AlertEvent) -> str | None:
    if end.alert_id != end.event_id:
        return end.alert_id
    for event in store.alert_events.all(rule=end.series.rule):  # the latest first
        if event.series == end.series and event.kind == OPENS[end.kind] and event.at <= end.at:
            return event.event_id
    return None
