"""Which events come too late to be told: what is over for a day, by the time it was found or by the time of serving.

What was found a day ago (a loop that was down, a first start on a store with history) is told only where the alert is
still open. What is found now may be of old answers, logged or judged at once: an alert that fell and ended in them more
than a day ago is no news to whoever is on call. Both are stored and listed all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta
from typing import Final

from tracejudge.alerts import AlertEvent

STALE_AFTER: Final = timedelta(hours=24)

_FOUND_LATE: Final = "older than a day when it was found; not sent"
_LONG_OVER: Final = "of answers served more than a day ago, and over since then; not sent"


def too_late(events: Iterable[AlertEvent], *, still_open: AbstractSet[str | None], now: datetime) -> Mapping[str, str]:
    """Why, by event id, of those events that are not to be sent. `still_open`: the ids of the alerts that are.

    An end is held back only beside its beginning: one whose alert was told before goes out whenever it was.
    """
    found = list(events)
    begun = {event.event_id for event in found if event.kind == "firing"}
    over = {
        event.alert_id
        for event in found
        if event.kind == "resolved" and event.alert_id in begun and _ended_before(event, now - STALE_AFTER)
    }
    late = {}
    for event in found:
        lasts = event.kind in ("firing", "escalated") and event.alert_id in still_open
        if now - event.told_from > STALE_AFTER and not lasts:
            late[event.event_id] = _FOUND_LATE
        elif event.alert_id in over:
            late[event.event_id] = _LONG_OVER
    return late


def _ended_before(event: AlertEvent, limit: datetime) -> bool:
    recovered = event.evidence.get("recovered_about")  # by event time; none where a person or other settings ended it
    return isinstance(recovered, str) and datetime.fromisoformat(recovered) < limit
