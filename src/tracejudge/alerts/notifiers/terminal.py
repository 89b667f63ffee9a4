"""Events as plain lines on a stream."""

from __future__ import annotations

import sys
from datetime import timezone
from typing import TextIO

from tracejudge.alerts.event import AlertEvent
from tracejudge.alerts.telling.next_step import next_steps
from tracejudge.alerts.telling.notify import NotDelivered
from tracejudge.alerts.telling.told import where_it_fell


class TerminalNotifier:
    """One line an event: instant (UTC), severity, kind, summary, id, and where it fell, if that is known; of a
    judge that moved the next step."""

    def __init__(self, *, name: str = "terminal", stream: TextIO | None = None) -> None:
        self._name = name
        self._stream = stream

    @property
    def name(self) -> str:
        return self._name

    def notify(self, event: AlertEvent) -> None:
        # Looked up at each event: whoever replaces sys.stdout later (a test, a pager) means this line too.
        stream = self._stream if self._stream is not None else sys.stdout
        try:
            print(line(event), file=stream, flush=True)
        except (OSError, ValueError) as error:  # a closed pipe, or a closed stream
            raise NotDelivered(f"{self._name}: the stream takes no more lines: {error}") from error


def line(event: AlertEvent) -> str:
    """The event on one line, without anything that could steer a terminal."""
    at = event.at.astimezone(timezone.utc)
    text = f"{at:%Y-%m-%d %H:%M:%S}Z {event.severity} {event.kind}: {event.summary} [{event.event_id}]"
    if where := where_it_fell(event):
        text += f"; {where}"
    text += "".join(f"; {step}" for step in next_steps(event)[-1:])
    return "".join(char if char.isprintable() else "?" for char in text)
