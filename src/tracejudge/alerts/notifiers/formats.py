"""An event in the words of other systems: Slack, PagerDuty, Alertmanager. Ids and numbers only, no texts of traces."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timezone
from typing import Any, Final

from tracejudge.alerts.event import AlertEvent
from tracejudge.alerts.wire import event_to_json

Body = dict[str, Any] | list[dict[str, Any]]
Encode = Callable[[AlertEvent], Body | None]
"""The body to send for an event; None when the system has no word for it, and nothing is sent."""

PAGERDUTY_URL: Final = "https://events.pagerduty.com/v2/enqueue"
_OPENS: Final = ("firing", "escalated", "no_data", "evaluator_unhealthy", "judge_drift")
_CLOSES: Final[Mapping[str, str]] = {
    "resolved": "firing",
    "data_back": "no_data",
    "evaluator_healthy": "evaluator_unhealthy",
    "judge_steady": "judge_drift",
}


def slack_body(event: AlertEvent) -> Body:
    """For an incoming webhook: one line in bold, one of what it is about. Names cannot become links or mentions."""
    heuristic = ", heuristic" if event.heuristic else ""
    about = f"{event.kind} ({event.severity}{heuristic}) {event.at.astimezone(timezone.utc):%Y-%m-%d %H:%M:%S}Z"
    lines = [f"*{_slack(event.summary)}*", _slack(f"{about}, rule {event.series.rule}, {event.event_id}")]
    return {"text": "\n".join(lines), "unfurl_links": False, "unfurl_media": False}


def pagerduty_body(event: AlertEvent, *, routing_key: str) -> Body:
    """For the Events API v2. An alert and its end share a `dedup_key`, that of the series and the kind of trouble."""
    closes = _CLOSES.get(event.kind)
    body: dict[str, Any] = {
        "routing_key": routing_key,
        "event_action": "resolve" if closes else "trigger",
        "dedup_key": incident_key(event),
    }
    if closes:
        return body
    body["payload"] = {
        "summary": event.summary[:1024],
        "source": f"{event.series.environment}/{event.series.app}",
        "severity": "critical" if event.severity == "page" else "warning",
        "timestamp": event.at.astimezone(timezone.utc).isoformat(timespec="milliseconds"),
        "component": event.series.judge_name,
        "group": event.series.rule,
        "class": event.kind,
        "custom_details": event_to_json(event),
    }
    return body


def alertmanager_body(event: AlertEvent) -> Body:
    """For `POST /api/v2/alerts`: the same labels open and close an alert."""
    series = event.series
    labels = {
        "alertname": f"tracejudge_{_CLOSES.get(event.kind, _kind(event))}",
        "rule": series.rule,
        "environment": series.environment,
        "app": series.app,
        "judge": series.judge_name,
        "judge_id": series.judge_id,
        "severity": event.severity,
        **{f"slice_{field}": value for field, value in series.group},
    }
    at = event.at.astimezone(timezone.utc).isoformat(timespec="milliseconds")
    alert: dict[str, Any] = {
        # An empty label is none to Alertmanager.
        "labels": {name: value for name, value in labels.items() if value},
        "annotations": {"summary": event.summary, "event_id": event.event_id},
    }
    alert["endsAt" if event.kind in _CLOSES else "startsAt"] = at
    return [alert]


def incident_key(event: AlertEvent) -> str:
    """The same for an alert and its end, in every process: which series has which kind of trouble."""
    fired = event.evidence.get("fired_event_id") if event.kind == "resolved" else None
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
    return f"tracejudge-{_CLOSES.get(event.kind, _kind(event))}-{'/'.join(named)}"[:255]


def _kind(event: AlertEvent) -> str:
    return "firing" if event.kind == "escalated" else event.kind


def _slack(text: str) -> str:
    # The three characters that Slack reads as markup of its own, and what would make several lines of one.
    plain = "".join(char if char.isprintable() else "?" for char in text)
    return plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
