"""An event as JSON values: what channels send, and what a receiver may rely on."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any, Final

from tracejudge.alerts.event import AlertEvent, SeriesKey

EVENT_VERSION: Final = 1
"""Additive changes do not raise it: receivers ignore what they do not know."""


def event_to_json(event: AlertEvent) -> dict[str, Any]:
    """The event with its series and evidence: ids and numbers, never texts of traces."""
    series = event.series
    return {
        "version": EVENT_VERSION,
        "event_id": event.event_id,
        "kind": event.kind,
        "severity": event.severity,
        "heuristic": event.heuristic,
        "at": event.at.astimezone(timezone.utc).isoformat(timespec="microseconds"),
        "summary": event.summary,
        "series": {
            "rule": series.rule,
            "environment": series.environment,
            "app": series.app,
            "judge_name": series.judge_name,
            "judge_id": series.judge_id,
            "group": dict(series.group),
        },
        "evidence": dict(event.evidence),
    }


def event_from_json(data: Mapping[str, Any]) -> AlertEvent:
    """The event that `event_to_json` wrote."""
    series = dict(data["series"])
    series["group"] = tuple(series["group"].items())
    return AlertEvent(
        event_id=data["event_id"],
        series=SeriesKey(**series),
        kind=data["kind"],
        severity=data["severity"],
        heuristic=data["heuristic"],
        at=datetime.fromisoformat(data["at"]),
        summary=data["summary"],
        evidence=data["evidence"],
    )
