"""Incidents: an alert, its escalation, its reminders and its end belong together for a channel."""

from __future__ import annotations

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

_GOES_ON: Final[Mapping[EventKind, EventKind]] = {"escalated": "firing", "reminder": "firing"}


def incident_kind(event: AlertEvent) -> EventKind:
    """The kind of event that began what this event is about."""
    return OPENS.get(event.kind, _GOES_ON.get(event.kind, event.kind))


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
    return f"tracejudge-{kind}-{'/'.join(named)}"[:255]
