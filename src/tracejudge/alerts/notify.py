"""Who is told about an event, and how it is set up."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from tracejudge.alerts.event import AlertEvent


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


class NotDelivered(Exception):
    """A channel did not take an event; the caller tries again later. Never carries a secret or a full URL."""
