"""What the alert of a classic threshold says, and how often such a rule fires by chance."""

from __future__ import annotations

from datetime import datetime

from tracejudge.alerts.event import AlertEvent, EventKind
from tracejudge.alerts.rules.chance import false_alarms_per_30d
from tracejudge.alerts.series import explain, wording
from tracejudge.alerts.series.window_series import WindowSeries
from tracejudge.counted import counted


def expected_false_alarms(series: WindowSeries) -> float | None:
    """The expected number in 30 days, at the rate of the windows that were not below and the volume of the last one.

    None while no window had enough samples and was not below.
    """
    if not series.usual.n:
        return None
    rule, usual = series.threshold, series.usual
    rate = usual.wx / usual.w
    return false_alarms_per_30d(rate=rate, below=rule.below, n=series.last.n_eff, window=rule.window_span)


def firing(series: WindowSeries) -> AlertEvent:
    """The event of a window that was below."""
    return _event(series, "firing", ends=False)


def escalated(series: WindowSeries, *, at: datetime) -> AlertEvent:
    """The event of a window further below, so that it is worth a page."""
    return _event(series, "escalated", ends=False, at=at)


def resolved(series: WindowSeries, *, at: datetime) -> AlertEvent:
    """The event of the first window that is not below any more."""
    return _event(series, "resolved", ends=True, at=at)


def _event(series: WindowSeries, kind: EventKind, *, ends: bool, at: datetime | None = None) -> AlertEvent:
    alert, rule = series.alert, series.threshold
    if alert is None:
        raise ValueError(f"{series.key!r} has no open alert")
    now, usual = wording.rate_of(series.since_start), wording.rate_of(series.before_start)
    rate = "" if now is None or now.estimate is None else f"{wording.percent(now.estimate)} "
    judged = 0 if now is None else now.judged
    expected = expected_false_alarms(series)
    what = "not below" if ends else "below"
    summary = (
        f"{wording.subject(series)}: {rate}in a window of {rule.window} ({counted(judged, 'judged trace')}), {what} "
        f"{wording.percent(rule.below)}"
    )
    if expected is not None and not ends:
        summary += f"; by chance alone such a threshold fires {expected:.2g} times in 30 days"
    evidence: dict[str, object] = {
        "rule": rule.name,
        "type": rule.type,
        "boundary": rule.below,
        "window": rule.window,
        "started_about": alert.start.at.isoformat(timespec="milliseconds"),
        "since": wording.rate_numbers(now),
        "before": wording.rate_numbers(usual),
        "expected_false_alarms_per_30d": expected,
    }
    if rule.measure != "quality":
        evidence["measure"], evidence["at_most"] = rule.measure, rule.at_most
    if kind == "firing":
        if alert.lowered:
            summary += f"; the judge failed on {counted(alert.unjudged, 'more trace')} of this window"
            summary += explain.lowered_by_failures(evidence)
        evidence["worst_trace_ids"] = list(series.examples.worst_since(alert.start.at))
    else:
        evidence["fired_event_id"] = alert.event_id
        evidence["fired_at"] = alert.at.isoformat(timespec="milliseconds")
    return explain.alert_event(series, kind=kind, at=at or alert.at, summary=summary, evidence=evidence)
