"""The two tables that deliveries go by, as dictionaries with the store's keys and its rule for which row stands."""

from __future__ import annotations

from collections.abc import Sequence

from tracejudge.alerts import AlertEvent
from tracejudge.store import OutboxItem

_RANK = {"pending": 0, "given_up": 1, "sent": 2}


class MemoryOutbox:
    """Stands for a `Store` whose `outbox` and `alert_events` alone are used. It outlives whoever writes to it."""

    def __init__(self) -> None:
        self.items: dict[tuple[str, str], OutboxItem] = {}
        self.events: dict[str, AlertEvent] = {}

    @property
    def outbox(self) -> MemoryOutbox:
        return self

    @property
    def alert_events(self) -> MemoryOutbox:
        return self

    def insert(self, events: Sequence[AlertEvent]) -> None:
        self.events |= {event.event_id: event for event in events}

    def get(self, event_ids: Sequence[str]) -> list[AlertEvent]:
        found = [self.events[ident] for ident in event_ids if ident in self.events]
        return sorted(found, key=lambda event: (event.at, event.event_id))

    def all(self) -> list[AlertEvent]:
        return sorted(self.events.values(), key=lambda event: event.at, reverse=True)

    def pending(self) -> list[OutboxItem]:
        return [item for item in self.items.values() if item.state == "pending"]

    def put(self, items: Sequence[OutboxItem]) -> None:
        for item in items:
            stored = self.items.get((item.event_id, item.notifier))
            if stored is None or _version(item) >= _version(stored):
                self.items[item.event_id, item.notifier] = item

    def pending_of(self, notifier: str, *, limit: int) -> list[OutboxItem]:
        mine = [item for item in self.items.values() if item.state == "pending" and item.notifier == notifier]
        mine.sort(
            key=lambda item: (
                -item.attempts,
                item.message == "",
                self.events[item.event_id].severity != "page",
                item.updated_at,
                item.event_id,
            )
        )
        return mine[:limit]

    def pending_of_others(self, notifiers: Sequence[str], *, limit: int) -> list[OutboxItem]:
        others = [item for item in self.items.values() if item.state == "pending" and item.notifier not in notifiers]
        return sorted(others, key=lambda item: item.updated_at)[:limit]


def _version(item: OutboxItem) -> tuple[object, ...]:
    return (_RANK[item.state], item.attempts, item.updated_at.replace(microsecond=item.updated_at.microsecond // 1000))
