"""Quality alerts that nobody hears of while their judge has moved: told once it is steady, or after a time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from tracejudge.alerts.event import AlertEvent
from tracejudge.alerts.wire import event_from_json, event_to_json
from tracejudge.alerts.wording import span

LONGEST_HOLD: Final = timedelta(days=3)
"""So long an alert waits for its judge at most: one that never gets steady, or is judged no more, must not hide it."""


class HeldAlerts:
    """Pure: events in, the same events out when they are to be told. `changed`: since that was last set to False."""

    def __init__(self) -> None:
        self.changed = False
        self._events: dict[str, AlertEvent] = {}

    def __len__(self) -> int:
        return len(self._events)

    def begin(self, event: AlertEvent) -> AlertEvent:
        """Holds an alert back from its beginning on, and gives it with the mark that says so."""
        event = self._events[event.event_id] = _marked(event)
        self.changed = True
        return event

    def follow(self, event: AlertEvent) -> AlertEvent:
        """An event about an alert, marked too where that is held: nobody has heard of its beginning."""
        fired = event.evidence.get("fired_event_id")
        if not isinstance(fired, str) or fired not in self._events:
            return event
        event = _marked(event)
        if event.kind == "resolved":
            self._events = {key: one for key, one in self._events.items() if _alert_of(one) != fired}
        elif event.kind == "escalated":
            self._events[event.event_id] = event
        self.changed = True
        return event

    def let_go_of(self, judge_id: str, *, at: datetime) -> list[AlertEvent]:
        """The alerts that wait for a judge that is steady again: the same events, to be told now."""
        told = [event for event in self._events.values() if event.series.judge_id == judge_id]
        return self._let_go(told, at=at, words="held back until its judge was steady again")

    def let_go_all(self, *, at: datetime) -> list[AlertEvent]:
        """All of them, when the settings hold nothing any more."""
        return self._let_go(list(self._events.values()), at=at, words="held back while its judge had moved")

    def let_go_overdue(self, now: datetime) -> list[AlertEvent]:
        """Those that have waited for `LONGEST_HOLD`."""
        told: list[AlertEvent] = []
        for event in list(self._events.values()):
            # The instant of the deadline, not of the tick: another process that notices it later says the same.
            deadline = event.at + LONGEST_HOLD
            if event.event_id in self._events and event.kind == "firing" and now >= deadline:
                parts = [one for one in self._events.values() if _alert_of(one) == event.event_id]
                words = f"held back for {span(LONGEST_HOLD)}, as its judge had moved"
                told += self._let_go(parts, at=deadline, words=words)
        return told

    def to_state(self) -> list[dict[str, Any]]:
        """JSON values; `restore` continues from them."""
        return [event_to_json(event) for event in self._events.values()]

    def restore(self, state: Iterable[dict[str, Any]]) -> None:
        """Holds what was held, and nothing else."""
        self._events = {event.event_id: event for event in map(event_from_json, state)}

    def _let_go(self, told: Iterable[AlertEvent], *, at: datetime, words: str) -> list[AlertEvent]:
        found = []
        for event in told:
            del self._events[event.event_id]
            self.changed = True
            evidence = {**{k: v for k, v in event.evidence.items() if k != "held"}, "held_until": at.isoformat()}
            found.append(replace(event, summary=f"{event.summary}; {words}", evidence=evidence))
        return found


def _marked(event: AlertEvent) -> AlertEvent:
    return replace(event, evidence={**event.evidence, "held": True})


def _alert_of(event: AlertEvent) -> str:
    """The id of the alert that an event is about."""
    fired = event.evidence.get("fired_event_id")
    return fired if isinstance(fired, str) else event.event_id
