"""Holds back quality alerts while their judge has moved, or while an anchor round is asked whether it has.

They are released once the judge is steady, the round has answered, or a time limit has passed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from tracejudge.alerts.event import AlertEvent
from tracejudge.alerts.judges.hold_mark import with_hold, without_hold
from tracejudge.alerts.series.wording import span
from tracejudge.alerts.wire import event_from_json, event_to_json

LONGEST_HOLD: Final = timedelta(days=3)
"""Longest hold because a judge has moved: a judge that never becomes steady must not hide an alert for ever."""

LONGEST_WAIT: Final = timedelta(minutes=30)
"""Longest wait for the anchor round that an alert asks for: one may have been asked for just before, which is ten
minutes, and a hundred anchors at ten seconds each are seventeen more. When the judge is down, the alert is released
without an answer."""

_WAITS_UNTIL: Final = "waits_until"


class HeldAlerts:
    """The held events. Pure: takes events and returns the same events when they are released. `changed` is set to True
    by every change, and to False by the caller."""

    def __init__(self) -> None:
        self.changed = False
        self._events: dict[str, AlertEvent] = {}
        self._next: datetime | None = None  # the earliest deadline

    def __len__(self) -> int:
        return len(self._events)

    def begin(self, event: AlertEvent) -> AlertEvent:
        """Holds back a firing event because its judge has moved; returns it marked as held. An event that waited for a
        round is held like any other from then on."""
        until, again = event.at + LONGEST_HOLD, event.event_id in self._events
        return self._hold(with_hold(_without(event, _WAITS_UNTIL), because="judge_moved", until=until, again=again))

    def wait(self, event: AlertEvent) -> AlertEvent:
        """Holds back a firing event until a round answers it, for `LONGEST_WAIT` at most; returns it marked as held."""
        until = event.at + LONGEST_WAIT
        event = with_hold(event, because="round_asked", until=until)
        return self._hold(replace(event, evidence={**event.evidence, _WAITS_UNTIL: until.isoformat()}))

    def firing(self) -> list[AlertEvent]:
        """The firing events that are held back."""
        return [event for event in self._events.values() if event.kind == "firing"]

    def waiting(self, judge_id: str) -> list[AlertEvent]:
        """The firing events that wait for a round of this JudgeId."""
        return [event for event in self._events.values() if event.series.judge_id == judge_id and _waits(event)]

    def all_waiting(self) -> list[AlertEvent]:
        """The firing events that wait for a round of any JudgeId."""
        return [event for event in self.firing() if _waits(event)]

    def follow(self, event: AlertEvent) -> AlertEvent:
        """A later event of an alert: held back and marked as such where the alert's firing event is held."""
        fired = event.alert_id
        if fired == event.event_id or fired not in self._events:
            return event
        event = with_hold(event, because="alert_held")
        if event.kind == "resolved":
            self._events = {key: one for key, one in self._events.items() if one.alert_id != fired}
        elif event.kind == "escalated":
            self._events[event.event_id] = event
        self.changed = True
        return event

    def let_go_of(self, judge_id: str, *, at: datetime) -> list[AlertEvent]:
        """Releases the events of a JudgeId that is steady again, but for those that wait for a round."""
        ours = [event for event in self._events.values() if event.series.judge_id == judge_id]
        waiting = {event.event_id for event in ours if _waits(event)}
        told = [event for event in ours if event.alert_id not in waiting]
        return self._let_go(told, at=at, words="held back until its judge was steady again")

    def answer(self, event: AlertEvent, *, at: datetime, words: str) -> list[AlertEvent]:
        """Releases an alert that waited for a round; `event` is its firing event with what the round found."""
        self._events[event.event_id] = event
        return self._let_go(self._parts(event.event_id), at=at, words=words)

    def let_go_all(self, *, at: datetime) -> list[AlertEvent]:
        """Releases all events, when the settings no longer hold any back."""
        return self._let_go(
            list(self._events.values()), at=at, words="held back because of its judge until the settings changed"
        )

    def let_go_overdue(self, now: datetime) -> list[AlertEvent]:
        """Releases alerts held for `LONGEST_HOLD`, and those that waited for a round in vain. Cheap without any."""
        if self._next is None or now < self._next:
            return []
        told: list[AlertEvent] = []
        for event in sorted(self.firing(), key=_deadline):
            # At the deadline's instant, not the tick's, so that every process makes the same event.
            if now >= _deadline(event):
                words = f"held back for {span(LONGEST_HOLD)}, as its judge had moved"
                if _waits(event):
                    words = f"held back for {span(LONGEST_WAIT)} for an anchor round of its judge, but none came"
                told += self._let_go(self._parts(event.event_id), at=_deadline(event), words=words)
        self._look_ahead()
        return told

    def to_state(self) -> list[dict[str, Any]]:
        """JSON values; `restore` continues from them."""
        return [event_to_json(event) for event in self._events.values()]

    def restore(self, state: Iterable[dict[str, Any]]) -> None:
        """Replaces the held events by those of the state."""
        self._events = {event.event_id: event for event in map(event_from_json, state)}
        self._look_ahead()

    def _hold(self, event: AlertEvent) -> AlertEvent:
        self._events[event.event_id] = event
        self.changed = True
        self._look_ahead()
        return event

    def _look_ahead(self) -> None:
        self._next = min(map(_deadline, self.firing()), default=None)

    def _parts(self, fired: str) -> list[AlertEvent]:
        """The firing event of an alert and, where there is one, its escalation."""
        return [event for event in self._events.values() if event.alert_id == fired]

    def _let_go(self, told: Iterable[AlertEvent], *, at: datetime, words: str) -> list[AlertEvent]:
        found = []
        for event in told:
            del self._events[event.event_id]
            self.changed = True
            event = without_hold(_without(event, _WAITS_UNTIL), until=at)
            found.append(replace(event, summary=f"{event.summary}; {words}"))
        return found


def _without(event: AlertEvent, name: str) -> AlertEvent:
    return replace(event, evidence={one: value for one, value in event.evidence.items() if one != name})


def _waits(event: AlertEvent) -> bool:
    return _WAITS_UNTIL in event.evidence


def _deadline(event: AlertEvent) -> datetime:
    until = event.evidence.get(_WAITS_UNTIL)
    return datetime.fromisoformat(until) if isinstance(until, str) else event.at + LONGEST_HOLD
