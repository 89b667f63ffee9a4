"""What people do about alerts: accept the new normal, dismiss a false alarm, acknowledge, silence, mark an incident."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from tracejudge.alerts.event import AlertEvent, SeriesKey

Verb = Literal["accept", "dismiss", "acknowledge", "silence", "mark", "adopt"]
FIELDS: Final = ("rule", "environment", "app", "judge_name", "judge_id", "event_id")
"""The fields that a matcher may name, beside those that rules group by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """An action of a person at the instant `at`.

    `matchers` select series: field -> value, all of which must hold; an empty mapping selects every series. `accept`
    and `dismiss` close the open alerts of these series at `at`. `acknowledge` stops their reminders. `silence` keeps
    from the channels those of their events that happen in [start, end), or were held back until then, but not the end
    of what a channel was told of before. `mark` says that something was really wrong in [start, end): it changes
    nothing, but back-tests are measured against it. `adopt` made a JudgeId live: its matchers are judge_name, judge_id
    and the run_id of the replay whose scores seed its baselines.
    """

    action_id: str
    verb: Verb
    matchers: Mapping[str, str]
    start: datetime
    end: datetime | None = None
    by: str = ""
    note: str = ""
    at: datetime

    def matches(self, key: SeriesKey, *, event_id: str | None = None) -> bool:
        """Whether the action is about this series, or about the alert of this id."""
        named = {**dict(key.group), **{name: getattr(key, name) for name in FIELDS[:-1]}, "event_id": event_id}
        return all(named.get(field) == value for field, value in self.matchers.items())

    def silences(self, event: AlertEvent) -> bool:
        """Whether the action keeps the event from all channels."""
        named = (event.alert_id, event.event_id)  # what became of an alert is part of it
        if self.verb != "silence" or not any(self.matches(event.series, event_id=one) for one in named):
            return False
        # Who silences an alert that waits for its judge has not been told of it yet.
        return any(self.start <= at and (self.end is None or at < self.end) for at in (event.at, event.told_from))
