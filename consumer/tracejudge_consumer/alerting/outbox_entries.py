"""Which events enter the outbox of which channel, and which of them are given up at once, with the reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from tracejudge.alerts import Action, AlertEvent
from tracejudge.alerts.telling.channels import ChannelPolicy
from tracejudge.alerts.telling.incident import OPENS, incident_key
from tracejudge.store import OutboxItem, Store
from tracejudge_consumer.alerting.announced import announced
from tracejudge_consumer.alerting.staleness import LONG_OVER, is_long_over, too_late

_LATER: Final = timedelta(milliseconds=1)  # of two states of an item the later counts


def enqueue(
    store: Store,
    events: Sequence[AlertEvent],
    *,
    policies: Mapping[str, ChannelPolicy],
    still_open: AbstractSet[str | None],
    silences: Sequence[Action],
    now: datetime,
    most_pending: int,
) -> None:
    """Puts every event into the outbox of every channel that wants it, and every end into that of the channels that
    were told of what it ends; repeating it changes nothing.

    Another event that a person has silenced, or that is too old (`staleness.py`), is put there as given up.
    `most_pending` bounds what is read of a channel's outbox.
    """
    items = []
    late = too_late(events, still_open=still_open, now=now)
    told = announced(store, events)
    long_over = {event.alert_id for event in events if is_long_over(event, now=now)}
    untold = _give_up_untold(store, long_over, channels=policies.keys(), now=now, most_pending=most_pending)
    begun: set[tuple[str, str]] = set()  # (channel, incident) of what the channel is sent of these events
    for event in events:
        silence = next((action for action in silences if action.silences(event)), None)
        ends = event.kind in OPENS
        for name, policy in policies.items():
            incident = (name, incident_key(event))
            owed = ends and ((name, event.event_id) in told or incident in begun)
            if not owed and not policy.wants(event):
                continue
            item = OutboxItem(event_id=event.event_id, notifier=name, updated_at=now)
            if silence is not None and not owed:
                item = replace(item, state="given_up", last_error=f"silenced by action {silence.action_id}")
            if event.event_id in late and not owed:
                item = replace(item, state="given_up", last_error=late[event.event_id])
            elif (name, event.alert_id) in untold:
                item = replace(item, state="given_up", last_error=LONG_OVER)
            if ends:
                begun.discard(incident)
            elif item.state == "pending":
                begun.add(incident)
            items.append(item)
    if items:
        store.outbox.put(items)


def is_fresh(item: OutboxItem) -> bool:
    """Neither tried nor put into a message: its channel was sent nothing of it."""
    return not item.attempts and not item.message


def _give_up_untold(
    store: Store, alerts: AbstractSet[str], *, channels: AbstractSet[str], now: datetime, most_pending: int
) -> AbstractSet[tuple[str, str]]:
    """Gives up pending events of these alerts in channels that were sent nothing of them: (channel, alert) pairs."""
    dropped: set[tuple[str, str]] = set()
    for name in channels if alerts else ():
        fresh = {one.event_id: one for one in store.outbox.pending_of(name, limit=most_pending) if is_fresh(one)}
        events = [event for event in store.alert_events.get(list(fresh)) if event.alert_id in alerts]
        begun = {event.alert_id for event in events if event.kind == "firing"}
        items = [fresh[event.event_id] for event in events if event.alert_id in begun]
        store.outbox.put(
            [
                replace(one, state="given_up", last_error=LONG_OVER, updated_at=max(now, one.updated_at + _LATER))
                for one in items
            ]
        )
        dropped |= {(name, alert) for alert in begun}
    return dropped
