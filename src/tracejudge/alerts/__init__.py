"""Alerting on judged pass rates with a promise about false alarms. Pure except for the notifiers."""

from tracejudge.alerts.actions import Action
from tracejudge.alerts.bridge import HourSums, Overlap
from tracejudge.alerts.engine import Engine
from tracejudge.alerts.event import AlertEvent, EventKind, SeriesKey, SeriesState, Severity
from tracejudge.alerts.notifiers import NotifierSettings, build_notifier, build_notifiers
from tracejudge.alerts.notify import GroupNotifier, Message, NotDelivered, Notifier
from tracejudge.alerts.promise import PlacePromise, Promises
from tracejudge.alerts.rule import (
    AnyRule,
    DriftRule,
    MaxDropRule,
    MinimumRule,
    Rule,
    ThresholdRule,
    VolumeRule,
    effective_severity,
)
from tracejudge.alerts.rule_base import HEALTH_RULE
from tracejudge.alerts.seen import SeenRows
from tracejudge.alerts.snapshots import SeriesSnapshot
from tracejudge.alerts.standing import JUDGE_DRIFT_RULE, DriftPolicy, Standing
from tracejudge.alerts.status import SeriesStatus
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
