"""Events of an alert that stays open: it escalates to a page, or a reminder is sent as nobody acknowledged it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from tracejudge.alerts.actions import Action
from tracejudge.alerts.event import AlertEvent
from tracejudge.alerts.series import explain, wording
from tracejudge.alerts.series.open_alert import OpenAlert
from tracejudge.alerts.series.state import Series
from tracejudge.counted import counted


def escalated(series: Series, *, at: datetime) -> AlertEvent:
    """The event of an open alert that has become a page; once for each alert."""
    alert = _open(series)
    since = wording.rate_of(series.since_start)
    hours = series.page.hours if series.page is not None else None
    alert.told_at = at
    drop = wording.percent_points(series.rule.page_drop)
    page = f"escalated to a page (a fall of about {drop} or more)"
    if alert.lowered:
        summary = f"{wording.subject(series)} fell, and not only because its judge failed on many traces: {page}"
    else:
        summary = f"{wording.subject(series)} fell further: {page}"
    evidence: dict[str, object] = {
        "rule": series.rule.name,
        "fired_event_id": alert.event_id,
        "fired_at": alert.at.isoformat(timespec="milliseconds"),
        "boundary": alert.boundary,
        "page_drop": series.rule.page_drop,
        "page_evidence_hours": hours,
        "alarm_hours": alert.alarm_hours,
        "false_alarms": series.promise,
        "started_about": alert.start.at.isoformat(timespec="milliseconds"),
        "before": wording.rate_numbers(wording.rate_of(series.before_start)),
        "since": wording.rate_numbers(since),
        "worst_trace_ids": list(series.examples.worst_since(alert.start.at)),
    }
    if series.rule.measure != "quality":
        evidence["measure"], evidence["at_most"] = series.rule.measure, series.rule.at_most
    return explain.alert_event(series, kind="escalated", at=at, summary=summary + _now(series), evidence=evidence)


def reminder_due(series: Series, now: datetime) -> datetime | None:
    """The instant at which a reminder of the open alert was due; None without an open alert, or before it is due."""
    alert, after = series.alert, series.rule.reminder
    if alert is None or after is None or alert.acknowledged:
        return None
    last = alert.told_at or alert.at
    times = (now - last) // after
    # Of several that were missed while the loop was down only the latest is sent. At the deadline's instant, not the
    # tick's, so that every process makes the same event.
    return last + times * after if times >= 1 else None


def silence_over(series: Series, silences: Sequence[Action], now: datetime) -> datetime | None:
    """When the silence ended in which the open alert fired, and of which nothing was told since; None for none."""
    alert = series.alert
    if alert is None or alert.acknowledged:
        return None
    ours = [one for one in silences if one.matches(series.key, event_id=alert.event_id)]
    until = alert.at
    while over := [one for one in ours if one.start <= until and (one.end is None or until < one.end)]:
        if over[0].end is None:
            return None
        until = over[0].end
    return until if (alert.told_at or alert.at) < until <= now else None


def reminder(series: Series, *, at: datetime) -> AlertEvent:
    """The reminder of an open alert."""
    alert = _open(series)
    alert.told_at = at
    summary = f"{wording.subject(series)}: still open after {wording.span(at - alert.at)}, and not acknowledged"
    evidence: dict[str, object] = {
        "rule": series.rule.name,
        "fired_event_id": alert.event_id,
        "fired_at": alert.at.isoformat(timespec="milliseconds"),
        "boundary": alert.boundary,
        "since": wording.rate_numbers(wording.rate_of(series.since_start)),
    }
    return explain.alert_event(series, kind="reminder", at=at, summary=summary + _now(series), evidence=evidence)


def _now(series: Series) -> str:
    since = wording.rate_of(series.since_start)
    if since is None or since.estimate is None:
        return ""
    return f"; about {wording.percent(since.estimate)} since it began ({counted(since.judged, 'judged trace')})"


def _open(series: Series) -> OpenAlert:
    if series.alert is None:
        raise ValueError(f"{series.key!r} has no open alert")
    return series.alert
