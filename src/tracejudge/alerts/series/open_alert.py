"""An alert between its beginning and its end: what decided it, and what is kept of it until it resolves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tracejudge.alerts.detecting.baseline import Baseline
from tracejudge.alerts.detecting.bets import hypothetical_rates
from tracejudge.alerts.detecting.detector import place_from_state, place_to_state
from tracejudge.alerts.detecting.recovery import RecoveryDetector
from tracejudge.alerts.detecting.sums import Place
from tracejudge.alerts.event import Severity


@dataclass(slots=True, kw_only=True)
class OpenAlert:
    """An alert that fired and is not resolved."""

    event_id: str
    at: datetime  # judged_at of the row that decided it
    start: Place  # where the drop seems to have begun
    component: int
    boundary: float  # that it fell below, as of the row that decided it
    evidence_hours: float  # M when it fired
    alarm_hours: float  # A when it fired
    recovery: RecoveryDetector
    severity: Severity = "page"  # of its size alone; a heuristic judge may be held to less
    told_at: datetime | None = None  # when it was last told by itself, without a row
    acknowledged: bool = False
    unjudged: int = 0  # traces since the drop began that the judge failed on
    lowered: bool = False  # it fired as a ticket instead of a page, as these could explain the fall
    aside: Baseline | None = None  # what a learned baseline has not learned since the drop began

    @property
    def hypothetical_rate(self) -> float:
        """The pass rate that the leading component bet on when the alert fired."""
        return hypothetical_rates(self.boundary)[self.component]

    def to_state(self) -> dict[str, Any]:
        """JSON values; `from_state` continues exactly."""
        return {
            "event_id": self.event_id,
            "at": self.at.isoformat(),
            "start": place_to_state(self.start),
            "component": self.component,
            "boundary": self.boundary,
            "aside": self.aside.to_state() if self.aside is not None else None,
            "evidence_hours": self.evidence_hours,
            "alarm_hours": self.alarm_hours,
            "recovery": self.recovery.to_state(),
            "severity": self.severity,
            "told_at": self.told_at.isoformat() if self.told_at is not None else None,
            "acknowledged": self.acknowledged,
            "unjudged": self.unjudged,
            "lowered": self.lowered,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> OpenAlert:
        aside, told_at = state.get("aside"), state.get("told_at")  # older snapshots may have neither
        return cls(
            event_id=state["event_id"],
            at=datetime.fromisoformat(state["at"]),
            start=place_from_state(state["start"]),
            component=state["component"],
            boundary=state["boundary"],
            aside=Baseline.from_state(aside) if aside is not None else None,
            evidence_hours=state["evidence_hours"],
            alarm_hours=state["alarm_hours"],
            recovery=RecoveryDetector.from_state(state["recovery"]),
            severity=state["severity"],
            told_at=datetime.fromisoformat(told_at) if told_at is not None else None,
            acknowledged=state.get("acknowledged", False),
            unjudged=state.get("unjudged", 0),
            lowered=state.get("lowered", False),
        )
