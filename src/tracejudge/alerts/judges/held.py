"""Quality alerts that nobody hears of while their judge has moved, or is asked whether it has: told once it is steady,
or after a time."""

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
"""So long an alert waits for its judge at most: one that never gets steady, or is judged no more, must not hide it."""

LONGEST_WAIT: Final = timedelta(minutes=30)
"""So long an alert waits at most for the round that it asks for: one may have been asked for just before, which is ten
minutes, and a hundred anchors by a judge that takes ten seconds for each are seventeen more. The judge may be down, or
the day's calls used up: then the alert is told without an answer."""

_WAITS_UNTIL: Final = "waits_until"


class HeldAlerts:
    """Pure: events in, the same events out when they are to be told. `changed`: since that was last set to False."""

    def __init__(self) -> None:
        self.changed = False
        self._events: dict[str, AlertEvent] = {}
        self._next: datetime | None = None  # no deadline is earlier

    def __len__(self) -> int:
        return len(self._events)

    def begin(self, event: AlertEvent) -> AlertEvent:
        """Holds an alert back from its beginning on, as its judge moved, and gives it with the mark that says so. One
        that waited is held as any other from then on."""
        until, again = event.at + LONGEST_HOLD, event.event_id in self._events
        return self._hold(with_hold(_without(event, _WAITS_UNTIL), because="judge_moved", until=until, again=again))

    def wait(self, event: AlertEvent) -> AlertEvent:
        """Holds an alert back from its beginning on until a round answers it, for `LONGEST_WAIT` at most."""
        until = event.at + LONGEST_WAIT
        event = with_hold(event, because="round_asked", until=until)
        return self._hold(replace(event, evidence={**event.evidence, _WAITS_UNTIL: until.isoformat()}))

    def firing(self) -> list[AlertEvent]:
        """The alerts that are held back, as they began."""
        return [event for event in self._events.values() if event.kind == "firing"]

    def waiting(self, judge_id: str) -> list[AlertEvent]:
        """The alerts that wait for a round of this judge, as they began."""
        return [event for event in self._events.values() if event.series.judge_id == judge_id and _waits(event)]

    def follow(self, event: AlertEvent) -> AlertEvent:
        """An event about an alert, marked too where that is held: nobody has heard of its beginning."""
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
        """The alerts that wait for a judge that is steady again: the same events, to be told now."""
        ours = [event for event in self._events.values() if event.series.judge_id == judge_id]
        waiting = {event.event_id for event in ours if _waits(event)}
        told = [event for event in ours if event.alert_id not in waiting]
        return self._let_go(told, at=at, words="held back until its judge was steady again")

    def answer(self, event: AlertEvent, *, at: datetime, words: str) -> list[AlertEvent]:
        """Lets an alert go that waited for a round, as it is given: with what the round says."""
        self._events[event.event_id] = event
        return self._let_go(self._parts(event.event_id), at=at, words=words)

    def let_go_all(self, *, at: datetime) -> list[AlertEvent]:
        """All of them, when the settings hold nothing any more."""
        return self._let_go(
            list(self._events.values()), at=at, words="held back because of its judge until the settings changed"
        )

    def let_go_overdue(self, now: datetime) -> list[AlertEvent]:
        """Those that have waited for `LONGEST_HOLD`, or in vain for a round. Cheap while there are none."""
        if self._next is None or now < self._next:
            return []
        told: list[AlertEvent] = []
        for event in sorted(self.firing(), key=_deadline):
            # The instant of the deadline, not of the tick: another process that notices it later says the same.
            if now >= _deadline(event):
                words = f"held back for {span(LONGEST_HOLD)}, as its judge had moved"
                if _waits(event):
                    words = f"held back for {span(LONGEST_WAIT)} for a round of its judge's anchors, and none came"
                told += self._let_go(self._parts(event.event_id), at=_deadline(event), words=words)
        self._look_ahead()
        return told

    def to_state(self) -> list[dict[str, Any]]:
        """JSON values; `restore` continues from them."""
        return [event_to_json(event) for event in self._events.values()]

    def restore(self, state: Iterable[dict[str, Any]]) -> None:
        """Holds what was held, and nothing else."""
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
        """An alert as it began, and as it became a page."""
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
