"""An alert event in one line, as it is said to whoever runs the alert loop."""

from __future__ import annotations

from tracejudge.alerts.event import AlertEvent
from tracejudge.alerts.judges.hold_mark import hold_says, is_held, known_before
from tracejudge_consumer.terminal.rendering import harmless


def alert_line(event: AlertEvent, *, delivered: bool = False) -> str | None:
    """The line; None where nothing is new: an event that is held back is said once, and once when it is let go.
    `delivered`: a channel prints what is sent, so that only what is held back is left to say."""
    if not is_held(event):
        return None if delivered else f"{event.kind}: {harmless(event.summary)}"
    if known_before(event):
        return None
    return f"{event.kind}, held back: {harmless(event.summary)}; {hold_says(event)}"
