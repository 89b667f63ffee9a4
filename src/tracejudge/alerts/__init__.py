"""Alerting on judged pass rates with a promise about false alarms. Pure except for the notifiers."""

from tracejudge.alerts.engine import Engine, SeriesStatus
from tracejudge.alerts.event import AlertEvent, EventKind, SeriesKey, SeriesState, Severity
from tracejudge.alerts.notify import NotDelivered, Notifier
from tracejudge.alerts.rule import HEALTH_RULE, MinimumRule
from tracejudge.alerts.snapshots import SeriesSnapshot

__all__ = [
    "HEALTH_RULE",
    "AlertEvent",
    "Engine",
    "EventKind",
    "MinimumRule",
    "NotDelivered",
    "Notifier",
    "SeriesKey",
    "SeriesSnapshot",
    "SeriesState",
    "SeriesStatus",
    "Severity",
]
