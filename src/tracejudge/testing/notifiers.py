"""A channel that remembers what it was given, and fails when told to."""

from __future__ import annotations

from tracejudge.alerts.event import AlertEvent
from tracejudge.alerts.notify import NotDelivered


class RecordingNotifier:
    """Keeps every delivered event in `events`. While `failing` is set it takes none, and counts the attempts."""

    def __init__(self, name: str = "recording") -> None:
        self._name = name
        self.events: list[AlertEvent] = []
        self.attempts = 0
        self.failing = False

    @property
    def name(self) -> str:
        return self._name

    def notify(self, event: AlertEvent) -> None:
        self.attempts += 1
        if self.failing:
            raise NotDelivered(f"{self._name}: told to fail; set failing = False")
        self.events.append(event)
