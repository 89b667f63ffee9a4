"""The interface of channels: messages, notifiers, and the error of a failed delivery."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from tracejudge.alerts.event import AlertEvent, Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What one channel is sent at once: the events of a group, the most urgent first, and never none.

    `held` says that the channel's own limit held back some of them for a while.
    """

    message_id: str  # stable: the same message, sent again, has the same id; of a single event it is the event's
    events: tuple[AlertEvent, ...]
    held: bool = False

    @property
    def severity(self) -> Severity:
        """The severity of the most urgent event."""
        return "page" if any(event.severity == "page" for event in self.events) else "ticket"

    @property
    def title(self) -> str:
        """What there is, in one line: `3 alerts of shop: 2 firing, 1 resolved`."""
        if len(self.events) == 1:
            return self.events[0].summary
        apps = list(dict.fromkeys(event.series.app for event in self.events))
        where = apps[0] if len(apps) == 1 else f"{len(apps)} apps"
        kinds = Counter(event.kind.replace("_", " ") for event in self.events)
        told = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
        return f"{len(self.events)} alerts of {where}: {told}"


def message_of(events: tuple[AlertEvent, ...], *, channel: str, held: bool = False) -> Message:
    """The message of these events; its id hangs on them and on the channel alone."""
    if len(events) == 1:
        return Message(message_id=events[0].event_id, events=events, held=held)
    named = "\n".join([channel, *(event.event_id for event in events)])
    return Message(message_id=hashlib.sha256(named.encode()).hexdigest()[:32], events=events, held=held)


@runtime_checkable
class Notifier(Protocol):
    """One channel. Events may come twice (at least once): receivers tell them apart by `event_id`."""

    @property
    def name(self) -> str:
        """Unique among the channels of a process, and stable: deliveries are recorded under it."""
        ...

    def notify(self, event: AlertEvent) -> None:
        """Returns when the other side has taken the event; raises NotDelivered otherwise."""
        ...


@runtime_checkable
class GroupNotifier(Notifier, Protocol):
    """A channel that can say several events at once."""

    def notify_all(self, message: Message) -> None:
        """Returns when the other side has taken all of it; raises NotDelivered otherwise."""
        ...


class NotDelivered(Exception):
    """A channel did not take an event; the caller tries again later. Never carries a secret or a full URL.

    `refused`: the channel is there and will not have this message (too large, not as it expects); others may do better.
    """

    def __init__(self, message: str, *, refused: bool = False) -> None:
        super().__init__(message)
        self.refused = refused
