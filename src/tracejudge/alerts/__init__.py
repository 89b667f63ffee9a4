"""Alerting on judged pass rates with a promise about false alarms. Pure except for the notifiers."""

from tracejudge.alerts.actions import Action
from tracejudge.alerts.engine import Engine
from tracejudge.alerts.event import AlertEvent, EventKind, SeriesKey, SeriesState, Severity
from tracejudge.alerts.judges.standing import JUDGE_DRIFT_RULE, DriftPolicy, Standing
from tracejudge.alerts.notifiers import NotifierSettings, build_notifier, build_notifiers
from tracejudge.alerts.rules.promise import PlacePromise, Promises
from tracejudge.alerts.rules.rule import (
    AnyRule,
    DriftRule,
    MaxDropRule,
    MinimumRule,
    Rule,
    ThresholdRule,
    VolumeRule,
    effective_severity,
)
from tracejudge.alerts.rules.rule_base import HEALTH_RULE
from tracejudge.alerts.seen import SeenRows
from tracejudge.alerts.series.bridge import HourSums, Overlap
from tracejudge.alerts.series.snapshots import SeriesSnapshot
from tracejudge.alerts.series.status import SeriesStatus
from tracejudge.alerts.telling.notify import GroupNotifier, Message, NotDelivered, Notifier
from tracejudge.alerts.wire import EVENT_VERSION, event_from_json, event_to_json

__all__ = [
    "EVENT_VERSION",
    "HEALTH_RULE",
    "JUDGE_DRIFT_RULE",
    "Action",
    "AlertEvent",
    "AnyRule",
    "DriftPolicy",
    "DriftRule",
    "Engine",
    "EventKind",
    "GroupNotifier",
    "HourSums",
    "MaxDropRule",
    "Message",
    "MinimumRule",
    "NotDelivered",
    "Notifier",
    "NotifierSettings",
    "Overlap",
    "PlacePromise",
    "Promises",
    "Rule",
    "SeenRows",
    "SeriesKey",
    "SeriesSnapshot",
    "SeriesState",
    "SeriesStatus",
    "Severity",
    "Standing",
    "ThresholdRule",
    "VolumeRule",
    "build_notifier",
    "build_notifiers",
    "effective_severity",
    "event_from_json",
    "event_to_json",
]
