"""A channel that remembers what it was given, and fails when told to."""

from __future__ import annotations

from tracejudge.alerts.event import AlertEvent
from tracejudge.alerts.telling.notify import Message, NotDelivered


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


class RecordingGroupNotifier(RecordingNotifier):
    """A RecordingNotifier that takes several events at once: `messages` holds the event ids of each message."""

    def __init__(self, name: str = "recording") -> None:
        super().__init__(name)
        self.messages: list[tuple[str, ...]] = []
        self.held: list[bool] = []

    def notify(self, event: AlertEvent) -> None:
        super().notify(event)
        self.messages.append((event.event_id,))
        self.held.append(False)

    def notify_all(self, message: Message) -> None:
        self.attempts += 1
        if self.failing:
            raise NotDelivered(f"{self._name}: told to fail; set failing = False")
        self.events += message.events
        self.messages.append(tuple(event.event_id for event in message.events))
        self.held.append(message.held)
