"""Incidents: an alert, its escalation, its reminders and its end belong together for a channel."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final

from tracejudge.alerts.event import AlertEvent, EventKind

OPENS: Final[Mapping[EventKind, EventKind]] = {
    "resolved": "firing",
    "data_back": "no_data",
    "evaluator_healthy": "evaluator_unhealthy",
    "judge_steady": "judge_drift",
    "channel_up": "channel_down",
    "test_over": "test",
}
"""The kinds that end something, each with the kind that began it."""

LONGEST_KEY: Final = 255
"""Characters; PagerDuty refuses longer ones."""

_GOES_ON: Final[Mapping[EventKind, EventKind]] = {"escalated": "firing", "reminder": "firing"}


def incident_kind(event: AlertEvent) -> EventKind:
    """The kind of event that began what this event is about."""
    return OPENS.get(event.kind, _GOES_ON.get(event.kind, event.kind))


def can_end(event: AlertEvent) -> bool:
    """Whether an event of another kind ends what this one is about."""
    return incident_kind(event) in OPENS.values()


def incident_key(event: AlertEvent) -> str:
    """Names an incident: the same for all of its events, in every process, from the series and the kind of trouble.

    An alert is known by the id of the event that opened it, which `fired_event_id` of the later ones names.
    """
    kind = incident_kind(event)
    if kind == "firing":
        fired = event.evidence.get("fired_event_id")
        if isinstance(fired, str):
            return f"tracejudge-{fired}"
        if event.kind == "firing":
            return f"tracejudge-{event.event_id}"
    series = event.series
    named = (
        series.rule,
        series.environment,
        series.app,
        series.judge_name,
        series.judge_id,
        *map("=".join, series.group),
    )
    key = f"tracejudge-{kind}-{'/'.join(named)}"
    if len(key) <= LONGEST_KEY:
        return key
    # What is cut off tells series apart: one's end must not close another's incident.
    told_apart = hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()[:32]
    return f"{key[: LONGEST_KEY - 33]}-{told_apart}"
