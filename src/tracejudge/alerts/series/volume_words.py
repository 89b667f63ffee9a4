"""What an alert on the judged volume says."""

from __future__ import annotations

from datetime import datetime

from tracejudge.alerts.detecting.recovery import RESOLVE_HOURS
from tracejudge.alerts.event import AlertEvent
from tracejudge.alerts.series import explain, wording
from tracejudge.alerts.series.volume_series import VolumeSeries
from tracejudge.counted import counted


def firing(series: VolumeSeries, *, share: float) -> AlertEvent:
    """The event of a volume that has changed; `share` is the part of the health budget that is its own."""
    alert, seen = series.alert, series.since
    if alert is None:
        raise ValueError(f"{series.key!r} has no open alert")
    days = alert.alarm_hours * share / 24.0
    summary = (
        f"{wording.subject(series)}: far {'fewer' if series.fewer else 'more'} judged traces than usual, {seen.traces} "
        f"in {_hours(seen.hours)} since about {alert.start.at:%Y-%m-%d %H:%M} UTC, {seen.expected:.0f} expected; "
        f"expected less than one such false alarm in {counted(days, 'day', form='g')}"
    )
    evidence: dict[str, object] = {
        "rule": series.rule.name,
        "type": series.rule.type,
        "direction": "fewer" if series.fewer else "more",
        "started_about": alert.start.at.isoformat(timespec="milliseconds"),
        "hours": seen.hours,
        "traces": seen.traces,
        "expected_traces": seen.expected,
        "phi": series.profile.phi,
        "evidence_hours": alert.evidence_hours,
        "alarm_hours": alert.alarm_hours,
        "evidence_share": alert.evidence_hours / alert.alarm_hours,
        "false_alarms": series.promise,
        "budget_share": share,
    }
    return explain.alert_event(series, kind="firing", at=alert.at, summary=summary, evidence=evidence)


def resolved(series: VolumeSeries, *, at: datetime) -> AlertEvent:
    """The event of a volume that has come back."""
    alert, seen = series.alert, series.since
    if alert is None:
        raise ValueError(f"{series.key!r} has no open alert")
    summary = f"{wording.subject(series)}: volume of judged traces is back to normal after {_hours(seen.hours)}"
    evidence: dict[str, object] = {
        "rule": series.rule.name,
        "fired_event_id": alert.event_id,
        "fired_at": alert.at.isoformat(timespec="milliseconds"),
        "traces": seen.traces,
        "expected_traces": seen.expected,
        "evidence_hours": series.recovery_hours,
        "resolve_hours": RESOLVE_HOURS,
    }
    return explain.alert_event(series, kind="resolved", at=at, summary=summary, evidence=evidence)


def _hours(count: int) -> str:
    return "1 hour" if count == 1 else f"{count} hours"
