"""Which pending events go into one message of a channel, and in which order: a function of the events alone.

A group is what happened to one application of an environment: group key (environment, app). All of it that is pending
when the channel's turn comes is one message, or several where there are more than `MOST_EVENTS`; each event stands in
exactly one. Events that the channel's limit held back are put together whatever their group, so that few messages say
them all.

Urgent first: an incident (an alert, what became of it, and its end) with a page among its events comes before the
others. Within an incident order is kept, as a receiver must not hear of the end before the beginning.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from typing import Final

from tracejudge.alerts.event import AlertEvent
from tracejudge.alerts.telling.incident import OPENS, incident_key

MOST_EVENTS: Final = 25
"""Of one message: what a person can still read, and a few kilobytes at most."""

Events = tuple[AlertEvent, ...]


def by_urgency(events: Iterable[AlertEvent]) -> list[AlertEvent]:
    """The events in the order in which a message shows them."""
    incidents: defaultdict[str, list[AlertEvent]] = defaultdict(list)
    for event in sorted(events, key=lambda event: (event.at, event.kind in OPENS, event.event_id)):
        incidents[incident_key(event)].append(event)
    ordered = sorted(incidents.values(), key=_rank)
    return [event for incident in ordered for event in incident]


def compose(events: Iterable[AlertEvent], *, group: bool, together: bool = False) -> list[Events]:
    """The events of the messages to be sent, in their order.

    Without `group` every event is a message; `together` puts events of all groups into the same ones.
    """
    ordered = by_urgency(events)
    if not group:
        return [(event,) for event in ordered]
    groups: dict[tuple[str, str], list[AlertEvent]] = {}
    for event in ordered:
        key = ("", "") if together else (event.series.environment, event.series.app)
        groups.setdefault(key, []).append(event)
    return [
        tuple(members[first : first + MOST_EVENTS])
        for members in groups.values()
        for first in range(0, len(members), MOST_EVENTS)
    ]


def _rank(incident: list[AlertEvent]) -> tuple[bool, datetime, str]:
    first = incident[0]
    return (all(event.severity != "page" for event in incident), first.at, first.event_id)
