"""What an alert rule has to say: one event of one series."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

SeriesState = Literal["warming_up", "ok", "pending", "firing", "no_data", "evaluator_unhealthy"]
EventKind = Literal[
    "firing",
    "resolved",
    "escalated",
    "no_data",
    "data_back",
    "evaluator_unhealthy",
    "evaluator_healthy",
    "more_values",
    "judge_changed",
    "judge_drift",
    "judge_steady",
    "reminder",
    "channel_down",
    "channel_up",
    "test",
    "test_over",
]
Severity = Literal["page", "ticket"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesKey:
    """One stream of scores that a rule watches: everything that must not be mixed."""

    rule: str
    environment: str
    app: str
    judge_name: str
    judge_id: str
    group: tuple[tuple[str, str], ...] = ()  # (field, value) pairs of the rule's group_by, in its order


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertEvent:
    """A change of a series that somebody may want to know. Carries ids and numbers, never texts of traces."""

    event_id: str  # stable: the same change of the same series has the same id in every process
    series: SeriesKey
    kind: EventKind
    severity: Severity
    heuristic: bool  # the judge is a heuristic: said wherever the event is shown
    at: datetime  # judged_at of the row that decided it, or the store's time for no_data
    summary: str  # one line for a person
    evidence: Mapping[str, object] = field(default_factory=dict)  # JSON values

    @property
    def alert_id(self) -> str:
        """The id of the event that opened the alert which this one is about: its own, where it is about no other."""
        fired = self.evidence.get("fired_event_id")
        return fired if isinstance(fired, str) else self.event_id

    @property
    def told_from(self) -> datetime:
        """From when on it could be told: its own instant, or when it was let go after it was held back."""
        until = self.evidence.get("held_until")
        return datetime.fromisoformat(until) if isinstance(until, str) else self.at

    @property
    def served_at(self) -> datetime:
        """Up to when the answers were served that it goes by: `at` where it does not say. Of old answers that are
        judged at once `at` says only when that was."""
        until = self.evidence.get("served_until")
        return datetime.fromisoformat(until) if isinstance(until, str) else self.at
