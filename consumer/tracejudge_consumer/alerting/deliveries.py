"""Delivers notifications: they are kept in the store's outbox until their channel has accepted them.

Delivery is at least once, under the event's stable id. The pending events of a channel are grouped into messages
(`alerts/telling/grouping.py`), within the channel's rate limit. Which events a message holds is stored before it is
sent, so that after a failure or a kill the same message is sent again, under the same id. A channel that does not
answer delays only itself: its first failure ends its turn, and it is tried again after 5 s, 10 s, 20 s ... up to 5
minutes. A message that a channel refuses waits likewise, together with later events of the same series, while other
messages go on. When a channel is dead, the other channels are told so once, and again when it is back; the channel
itself is not, and events about channels cause no further ones.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final, Literal

from tracejudge.alerts import Action, AlertEvent, GroupNotifier, Message, NotDelivered, Notifier, SeriesSnapshot
from tracejudge.alerts.notifiers import TerminalNotifier
from tracejudge.alerts.telling.channels import ChannelPolicy, ChannelState
from tracejudge.alerts.telling.grouping import compose
from tracejudge.alerts.telling.notify import message_of
from tracejudge.clock import Clock
from tracejudge.store import OutboxItem, Store
from tracejudge_consumer.alerting.outbox_entries import enqueue, is_fresh
from tracejudge_consumer.alerting.staleness import STALE_AFTER, waits

logger = logging.getLogger(__name__)

MAX_ATTEMPTS: Final = 300
"""With 5 minutes between them about a day."""

_FIRST_WAIT_S: Final = 5.0
_LONGEST_WAIT_S: Final = 300.0  # so long a page may wait for a pager that is back
_REFUSED: Final = "refused: "  # begins the error of a message that its channel, which is there, will not have
_AT_ONCE: Final = 1000  # most items of a channel in one tick

Save = Callable[[Sequence[SeriesSnapshot]], None]
"""Stores the states of channels, as the leader."""


class Deliveries:
    """The outbox of a store and the channels of this process. A channel without a policy is sent every event.

    `save` stores the state of channels that must survive a restart: how far the rate limit is used up, and whether the
    channel is dead.
    """

    def __init__(
        self,
        *,
        store: Store,
        notifiers: Sequence[Notifier],
        clock: Clock,
        policies: Mapping[str, ChannelPolicy] | None = None,
        save: Save = lambda _: None,
        checkpoint: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._store = store
        self._notifiers = {notifier.name: notifier for notifier in notifiers}
        self._policies = {name: (policies or {}).get(name, ChannelPolicy()) for name in self._notifiers}
        self._clock = clock
        self._save = save
        self._checkpoint = checkpoint
        self._catching_up: Callable[[], AbstractSet[str]] = frozenset
        self.restore({})

    def restore(self, stored: Mapping[str, Mapping[str, Any]]) -> list[SeriesSnapshot]:
        """Restores the states of the channels from stored snapshots; returns all states, to be stored again."""
        self._states = {name: ChannelState(name=name) for name in self._notifiers}
        self._waiting: set[str] = set()  # channels that had something to deliver at their last turn
        for state in stored.values():
            found = ChannelState.from_snapshot(state)
            if found is not None and found.name in self._states:
                self._states[found.name] = found
        return [state.to_snapshot() for state in self._states.values()]

    @property
    def dead(self) -> Mapping[str, bool]:
        """By channel of this process, whether it is dead."""
        return {name: state.down for name, state in self._states.items()}

    @property
    def mute(self) -> bool:
        """Whether alerts wait and reach nobody: every channel but terminals is dead."""
        far = [name for name, notifier in self._notifiers.items() if not isinstance(notifier, TerminalNotifier)]
        return any(name in self._waiting for name in far) and all(self._states[name].down for name in far)

    def enqueue(
        self, events: Sequence[AlertEvent], *, still_open: AbstractSet[str | None], silences: Sequence[Action] = ()
    ) -> None:
        """Puts every event into the outbox of every channel that wants it (`outbox_entries.py`)."""
        enqueue(
            self._store,
            events,
            policies=self._policies,
            still_open=still_open,
            silences=silences,
            now=self._clock.now(),
            most_pending=_AT_ONCE,
        )

    def deliver(
        self, *, still_leading: Callable[[], bool], catching_up: Callable[[], AbstractSet[str]] = frozenset
    ) -> int:
        """Delivers what is due, as long as this process leads; returns the number of events accepted by channels.
        `catching_up`: the alerts whose firing event waits."""
        self._catching_up = catching_up
        taken = 0
        self._tell_of_channels()
        # Channels that failed come last: each attempt may cost seconds.
        for name in sorted(self._notifiers, key=lambda name: self._states[name].failures > 0):
            taken += self._turn(name, still_leading)
        # Failed attempts may have taken longer than the lease: then the new leader reports the channels.
        if still_leading():
            if self._tell_of_channels():
                # At once, not a round later: a single round, as cron makes them, has no later one.
                for name in [name for name, state in self._states.items() if state.failures == 0]:
                    taken += self._turn(name, still_leading)
            self._drop_strangers()
        return taken

    # ------------------------------------------------------------------ one channel's turn

    def _turn(self, name: str, still_leading: Callable[[], bool]) -> int:
        # Read for each channel separately: the backlog of a dead one would fill a common page and starve the others.
        items = {item.event_id: item for item in self._store.outbox.pending_of(name, limit=_AT_ONCE)}
        now = self._clock.now()
        (self._waiting.add if items else self._waiting.discard)(name)
        if not items and still_leading():
            self._nothing_waits(name)
        resting = [item for item in items.values() if item.attempts and now - item.updated_at < _wait(item.attempts)]
        if not items or not all(_was_refused(item) for item in resting):
            return 0
        events = {event.event_id: event for event in self._store.alert_events.get(list(items))}
        for event_id in items.keys() - events.keys():
            self._drop_if_old(items[event_id], what="no such event", now=now)
        # Later events of a series wait with its refused one: a resolved event must not be sent before its firing.
        barred = {events[item.event_id].series for item in resting if item.event_id in events}
        old = self._catching_up()
        waiting = {
            event.series
            for event_id, event in events.items()
            if is_fresh(items[event_id]) and waits(event, catching_up=old, now=now)
        }
        events = {event_id: event for event_id, event in events.items() if event.series not in barred | waiting}
        taken = 0
        for message, begun in self._messages(name, items, events):
            if not still_leading():
                break
            if not barred.isdisjoint(event.series for event in message.events):
                continue
            if not begun and not self._may_send(name, message, now=now):
                break
            end = self._attempt(name, message, [items[event.event_id] for event in message.events], now=now)
            if end == "failed":
                break
            if end == "refused":
                barred |= {event.series for event in message.events}
            else:
                taken += len(message.events)
        else:
            if len(items) < _AT_ONCE and not barred:
                self._nothing_waits(name)
        return taken

    def _nothing_waits(self, name: str) -> None:
        """Nothing is pending: later messages are grouped as usual, and do not say that they were held."""
        state = self._states[name]
        if state.held:
            state.held = False
            self._save([state.to_snapshot()])

    def _messages(
        self, name: str, items: Mapping[str, OutboxItem], events: Mapping[str, AlertEvent]
    ) -> list[tuple[Message, bool]]:
        """The messages to send, in order, each with whether it was begun: such a message is sent again as it was, and
        is charged to the rate limit already."""
        held = self._states[name].held
        group = self._policies[name].group and isinstance(self._notifiers[name], GroupNotifier)
        begun: dict[str, list[AlertEvent]] = {}
        fresh: list[AlertEvent] = []
        for event_id, event in events.items():
            item = items[event_id]
            if item.message or item.attempts:
                begun.setdefault(item.message or event_id, []).append(event)
            else:
                fresh.append(event)
        again = [parts for members in begun.values() for parts in compose(members, group=group, together=True)]
        new = compose(fresh, group=group, together=held)
        return [
            *((message_of(parts, channel=name), True) for parts in again),
            *((message_of(parts, channel=name, held=held), False) for parts in new),
        ]

    def _may_send(self, name: str, message: Message, *, now: datetime) -> bool:
        policy, state = self._policies[name], self._states[name]
        if policy.rate is None:
            return True
        was_held = state.held
        allowed = state.take(policy.rate, page=message.severity == "page", now=now)
        if allowed or not was_held:
            # Before the message is sent: a kill must not undo the charge to the rate limit.
            self._save([state.to_snapshot()])
            self._checkpoint("limit stored")
        if not allowed and not was_held:
            logger.warning(
                "channel %r: its limit of %d messages per %s is reached; what comes waits for a later message",
                name,
                policy.rate.messages,
                policy.rate.per,
            )
        return allowed

    def _attempt(
        self, name: str, message: Message, items: Sequence[OutboxItem], *, now: datetime
    ) -> Literal["sent", "refused", "failed"]:
        notifier = self._notifiers[name]
        if len(items) > 1 and any(item.message != message.message_id for item in items):
            # At least 1 ms after the item's last state, also where the clock stands still: the latest state counts.
            items = [
                replace(
                    item,
                    message=message.message_id,
                    updated_at=max(now, item.updated_at + timedelta(milliseconds=1)),
                )
                for item in items
            ]
            self._store.outbox.put(items)
            self._checkpoint("message composed")
        tried = [replace(item, attempts=item.attempts + 1, updated_at=max(now, item.updated_at)) for item in items]
        self._checkpoint("delivering")
        try:
            if len(message.events) > 1 and isinstance(notifier, GroupNotifier):
                notifier.notify_all(message)
            else:
                notifier.notify(message.events[0])
        # Channels may run third-party code, whose faults must not stop the detectors or the other channels.
        except Exception as error:
            words = str(error)
            if not isinstance(error, NotDelivered):
                logger.exception("message %s: channel %r raised", message.message_id, name)
                # The exception's text stays in this process's log, because other channels are told of this error.
                words = f"{name}: raised {type(error).__name__}; the log of the alert loop says where"
            refused = isinstance(error, NotDelivered) and error.refused
            self._failed(name, message, tried, _REFUSED + words if refused else words, now=now)
            return "refused" if refused else "failed"
        self._checkpoint("delivered")
        self._store.outbox.put([replace(item, state="sent", last_error="") for item in tried])
        self._checkpoint("delivery recorded")
        if self._states[name].succeeded(self._policies[name], now=now):
            self._save([self._states[name].to_snapshot()])
        return "sent"

    def _failed(self, name: str, message: Message, tried: Sequence[OutboxItem], error: str, *, now: datetime) -> None:
        attempts = max(item.attempts for item in tried)
        last = attempts >= MAX_ATTEMPTS
        logger.warning(
            "message %s (%d events): attempt %d by %r failed%s: %s",
            message.message_id,
            len(tried),
            attempts,
            name,
            ", given up" if last else "",
            error,
        )
        state: Literal["given_up", "pending"] = "given_up" if last else "pending"
        self._store.outbox.put([replace(item, state=state, attempts=attempts, last_error=error) for item in tried])
        self._states[name].failed(self._policies[name], error, now=now)
        self._save([self._states[name].to_snapshot()])

    # ------------------------------------------------------------------ about the channels themselves

    def _tell_of_channels(self) -> bool:
        """Enqueues for the other channels that a channel is dead or back. The event is stored first, so that a kill
        loses nothing. False where there was nothing to report."""
        told = False
        for name, state in self._states.items():
            if not state.untold:
                continue
            for event in state.untold:
                logger.error("%s", event.summary) if event.kind == "channel_down" else logger.info("%s", event.summary)
            self._store.alert_events.insert(state.untold)
            others = [
                OutboxItem(event_id=event.event_id, notifier=other, updated_at=self._clock.now())
                for event in state.untold
                for other, policy in self._policies.items()
                if other != name and policy.wants(event)
            ]
            if others:
                self._store.outbox.put(others)
            self._checkpoint("channel told")
            state.untold = []
            self._save([state.to_snapshot()])
            told = True
        return told

    def _drop_strangers(self) -> None:
        now = self._clock.now()
        for item in self._store.outbox.pending_of_others(list(self._notifiers), limit=_AT_ONCE):
            self._drop_if_old(item, what="no channel of this name", now=now)

    def _drop_if_old(self, item: OutboxItem, *, what: str, now: datetime) -> None:
        """Gives an item up after a day: until then another process may know its channel or event."""
        if now - item.updated_at > STALE_AFTER:
            logger.warning("event %s: given up for %r: %s", item.event_id, item.notifier, what)
            self._store.outbox.put([replace(item, state="given_up", last_error=what, updated_at=now)])


def _was_refused(item: OutboxItem) -> bool:
    return item.last_error.startswith(_REFUSED)


def _wait(attempts: int) -> timedelta:
    return timedelta(seconds=min(_FIRST_WAIT_S * 2.0 ** min(attempts - 1, 10), _LONGEST_WAIT_S))
