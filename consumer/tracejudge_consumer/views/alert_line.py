"""Alert events as `watch` and `up` print them: each in one line, and what is held back in two."""

from __future__ import annotations

from collections.abc import Iterable

from tracejudge.alerts.event import AlertEvent
from tracejudge.alerts.judges.hold_mark import hold_says, is_held, known_before
from tracejudge_consumer.terminal.rendering import harmless


def news_of(events: Iterable[AlertEvent]) -> list[AlertEvent]:
    """What is new by a round of the loop, in order and each event once, as it stands after it. One that is held back is
    new then, and when it is let go; not when it is held back for something else."""
    last: dict[str, AlertEvent] = {}
    new = set()
    for event in events:
        last[event.event_id] = event
        if not known_before(event):
            new.add(event.event_id)
    return [event for event in last.values() if event.event_id in new or not is_held(event)]


def alert_line(event: AlertEvent, *, delivered: bool = False) -> str | None:
    """The line. `delivered`: a channel prints what is sent, so that only what is held back is left to say."""
    if is_held(event):
        return f"{event.kind}, held back: {harmless(event.summary)}; {hold_says(event)}"
    return None if delivered else f"{event.kind}: {harmless(event.summary)}"
