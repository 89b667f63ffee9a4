"""Notifications on their way: kept in the store's outbox until their channel has taken them.

At least once, in order within a channel, under the event's stable id. A channel that does not answer holds up only
itself: its first refusal ends its turn, and it is tried again after 5 s, 10 s, 20 s ... up to 15 minutes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from tracejudge.alerts import Action, AlertEvent, NotDelivered, Notifier
from tracejudge.clock import Clock
from tracejudge.store import OutboxItem, Store

logger = logging.getLogger(__name__)

STALE_AFTER: Final = timedelta(hours=24)
"""An event found later than this (a first start on a store with history) is kept but sent to nobody, unless it is an
alert that is still open."""

MAX_ATTEMPTS: Final = 100
"""With 15 minutes between them about a day."""

_FIRST_WAIT_S: Final = 5.0
_LONGEST_WAIT_S: Final = 900.0
_AT_ONCE: Final = 1000  # of a channel's items: the others wait for the next tick


class Deliveries:
    """The outbox of a store and the channels of this process."""

    def __init__(
        self,
        *,
        store: Store,
        notifiers: Sequence[Notifier],
        clock: Clock,
        checkpoint: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._store = store
        self._notifiers = {notifier.name: notifier for notifier in notifiers}
        self._clock = clock
        self._checkpoint = checkpoint

    def enqueue(
        self, events: Sequence[AlertEvent], *, still_open: AbstractSet[str | None], silences: Sequence[Action] = ()
    ) -> None:
        """Puts every event into the outbox of every channel; repeating it changes nothing.

        One that a person has silenced is kept there as well, as given up with the reason.
        """
        now = self._clock.now()
        items = []
        for event in events:
            stale = now - event.at > STALE_AFTER and not (event.kind == "firing" and event.event_id in still_open)
            silence = next((action for action in silences if action.silences(event)), None)
            for name in self._notifiers:
                item = OutboxItem(event_id=event.event_id, notifier=name, updated_at=now)
                if silence is not None:
                    item = replace(item, state="given_up", last_error=f"silenced by action {silence.action_id}")
                if stale:
                    item = replace(item, state="given_up", last_error="older than a day when it was found; not sent")
                items.append(item)
        if items:
            self._store.outbox.put(items)

    def deliver(self, *, still_leading: Callable[[], bool]) -> int:
        """Delivers what is due, as long as this process leads; the number of notifications taken."""
        pending = self._pending()
        if not pending:
            return 0
        now = self._clock.now()
        events = {event.event_id: event for event in self._store.alert_events.get([item.event_id for item in pending])}
        pending.sort(key=lambda item: _order(item, events))
        waiting = {item.notifier for item in pending if item.attempts and now - item.updated_at < _wait(item.attempts)}
        taken = 0
        for item in pending:
            if item.notifier in waiting:
                continue
            event, notifier = events.get(item.event_id), self._notifiers.get(item.notifier)
            if event is None or notifier is None:
                self._drop_if_old(item, event=event, now=now)
                continue
            if not still_leading():
                return taken
            if self._attempt(notifier, item, event, now=now):
                taken += 1
            else:
                waiting.add(item.notifier)
        return taken

    def _pending(self) -> list[OutboxItem]:
        # Asked of each channel by itself: what a dead one piles up would else fill the answer and starve the others.
        outbox = self._store.outbox
        items = [item for name in self._notifiers for item in outbox.pending_of(name, limit=_AT_ONCE)]
        return items + outbox.pending_of_others(list(self._notifiers), limit=_AT_ONCE)

    def _attempt(self, notifier: Notifier, item: OutboxItem, event: AlertEvent, *, now: datetime) -> bool:
        tried = replace(item, attempts=item.attempts + 1, updated_at=now)
        self._checkpoint("delivering")
        try:
            notifier.notify(event)
        # Channels may be somebody else's code: its mistake must not stop the detectors or the other channels.
        except Exception as error:
            if not isinstance(error, NotDelivered):
                logger.exception("event %s: channel %r raised", item.event_id, item.notifier)
            last = tried.attempts >= MAX_ATTEMPTS
            logger.warning(
                "event %s: attempt %d by %r failed%s: %s",
                item.event_id,
                tried.attempts,
                item.notifier,
                ", given up" if last else "",
                error,
            )
            self._store.outbox.put([replace(tried, state="given_up" if last else "pending", last_error=str(error))])
            return False
        self._checkpoint("delivered")
        self._store.outbox.put([replace(tried, state="sent", last_error="")])
        self._checkpoint("delivery recorded")
        return True

    def _drop_if_old(self, item: OutboxItem, *, event: AlertEvent | None, now: datetime) -> None:
        """Another process may know the channel; after a day nobody does."""
        if now - item.updated_at > STALE_AFTER:
            what = "no such event" if event is None else "no channel of this name"
            logger.warning("event %s: given up for %r: %s", item.event_id, item.notifier, what)
            self._store.outbox.put([replace(item, state="given_up", last_error=what, updated_at=now)])


def _order(item: OutboxItem, events: dict[str, AlertEvent]) -> tuple[object, ...]:
    event = events.get(item.event_id)
    return (event.at if event is not None else item.updated_at, item.event_id, item.notifier)


def _wait(attempts: int) -> timedelta:
    return timedelta(seconds=min(_FIRST_WAIT_S * 2.0 ** min(attempts - 1, 10), _LONGEST_WAIT_S))
