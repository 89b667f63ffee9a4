"""Which events are too old to be sent: alerts that ended more than a day ago, by when they were found or by serving
time.

What was found a day ago (a loop that was down, a first start on a store with history) is told only where the alert is
still open. What is found now may be of old answers, logged or judged at once: an alert that fell and ended in them more
than a day ago is no news to whoever is on call. Both are stored and listed all the same.

While old answers are still being judged (verdicts rest) the end may be among those to come, so an alert about them
waits: until they are through, or have come to the last day.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta
from typing import Final

from tracejudge.alerts import AlertEvent, SeriesStatus

STALE_AFTER: Final = timedelta(hours=24)

LONG_OVER: Final = "of answers served more than a day ago, and over since then; not sent"

_FOUND_LATE: Final = "older than a day when it was found; not sent"
_STILL_COMING: Final = timedelta(minutes=5)  # since the last verdict of a series; after that its answers are through
_LONGEST_WAIT: Final = timedelta(hours=3)  # a consumer may be a day behind for good: its alerts are told all the same


def too_late(events: Iterable[AlertEvent], *, still_open: AbstractSet[str | None], now: datetime) -> Mapping[str, str]:
    """Why, by event id, of those events that are not to be sent. `still_open`: the ids of the alerts that are.

    An end by old answers is held back only beside its beginning. One that was found late goes to whom its beginning was
    told (`announced.py`).
    """
    found = list(events)
    begun = {event.event_id for event in found if event.kind == "firing"}
    over = {event.alert_id for event in found if event.alert_id in begun and is_long_over(event, now=now)}
    late = {}
    for event in found:
        lasts = event.kind in ("firing", "escalated") and event.alert_id in still_open
        if now - event.told_from > STALE_AFTER and not lasts:
            late[event.event_id] = _FOUND_LATE
        elif event.alert_id in over:
            late[event.event_id] = LONG_OVER
    return late


def is_old(event: AlertEvent, *, now: datetime) -> bool:
    """Whether the event goes by answers that were served more than a day ago."""
    return event.served_at < now - STALE_AFTER


def is_long_over(event: AlertEvent, *, now: datetime) -> bool:
    """Whether the event is the end of an alert, and that was more than a day ago by the time of serving."""
    if event.kind != "resolved" or "closed_because" in event.evidence:  # a person or other settings ended it
        return False
    recovered = event.evidence.get("recovered_about")  # none of a threshold or a volume, which are of whole windows
    at = datetime.fromisoformat(recovered) if isinstance(recovered, str) else event.served_at
    return at < now - STALE_AFTER


def catching_up(series: Iterable[SeriesStatus], *, now: datetime) -> frozenset[str]:
    """The ids of open alerts of series whose answers are more than a day old, and are being judged now."""
    return frozenset(
        one.alert_event_id
        for one in series
        if one.alert_event_id is not None
        and one.served_until is not None
        and one.last_judged_at is not None
        and one.served_until < now - STALE_AFTER
        and one.last_judged_at > now - _STILL_COMING
    )


def waits(event: AlertEvent, *, catching_up: AbstractSet[str], now: datetime) -> bool:
    """Whether the firing event of an alert is not to be sent yet."""
    return event.kind == "firing" and event.event_id in catching_up and now - event.told_from < _LONGEST_WAIT
