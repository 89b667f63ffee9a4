"""What a series has come to, as an event: numbers, and one line for a person. Never texts of traces."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from tracejudge.alerts.actions import Action
from tracejudge.alerts.detecting.recovery import RESOLVE_HOURS
from tracejudge.alerts.event import AlertEvent, EventKind, SeriesKey, Severity
from tracejudge.alerts.rules.rule import MaxDropRule, MinimumRule, effective_severity
from tracejudge.alerts.rules.slices import OTHER
from tracejudge.alerts.series.health import HEALTHY_UP_TO, UNHEALTHY_ABOVE, InvalidShare, JudgeHealth
from tracejudge.alerts.series.state import Series
from tracejudge.alerts.series.wording import (
    clock,
    interval,
    iso,
    judge_of,
    percent,
    percent_points,
    plain,
    rate_numbers,
    rate_of,
    span,
    subject,
    where,
)
from tracejudge.counted import counted
from tracejudge.windows import PassRate

_ALERT_KINDS: Final = ("firing", "resolved", "escalated", "reminder")


def event_id(key: SeriesKey, *, kind: EventKind, at: datetime, ordinal: int) -> str:
    """The same change of the same series has the same id in every process."""
    named = [key.rule, key.environment, key.app, key.judge_name, key.judge_id, key.group, kind, iso(at), ordinal]
    text = json.dumps(named, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def firing(series: Series, *, share: float, health: InvalidShare) -> AlertEvent:
    """The event of a series that has just fired; `share` is the part of the alarm budget that is its own."""
    alert, rule = series.alert, series.rule
    if alert is None:
        raise ValueError(f"{series.key!r} has no open alert; call this right after it fired")
    since, before = rate_of(series.since_start), rate_of(series.before_start)
    days = alert.alarm_hours * share / 24.0
    summary = f"{subject(series)} {_fell(series, alert.boundary, before)}"
    if since is not None and since.estimate is not None:
        summary += (
            f": about {percent(since.estimate)} since about {clock(alert.start.at, beside=alert.at)} "
            f"({counted(since.judged, 'judged trace')}{interval(since)})"
        )
    summary += f"; expected less than one such false alarm in {counted(days, 'day', form='g')}"
    evidence: dict[str, object] = {
        "rule": rule.name,
        "type": rule.type,
        "boundary": alert.boundary,
        "baseline": series.baseline.m if series.baseline is not None else None,
        "evidence_hours": alert.evidence_hours,
        "alarm_hours": alert.alarm_hours,
        "evidence_share": alert.evidence_hours / alert.alarm_hours,
        "false_alarms": series.promise,
        "budget_share": share,
        "hypothetical_rate": alert.hypothetical_rate,
        "started_about": iso(alert.start.at),
        "judged_since": None if alert.start.judged_at is None else iso(alert.start.judged_at),
        "before": rate_numbers(before),
        "since": rate_numbers(since),
        "worst_trace_ids": list(series.examples.worst_since(alert.start.at)),
    }
    if series.page is not None:
        evidence["page_drop"] = rule.page_drop
        evidence["page_evidence_hours"] = series.page.hours
    if rule.measure == "quality":
        summary += _coverage(evidence, since=since, health=health)
        if alert.lowered:
            summary += lowered_by_failures(evidence)
    else:
        evidence["measure"], evidence["at_most"] = rule.measure, rule.at_most
    return alert_event(series, kind="firing", at=alert.at, summary=summary, evidence=evidence)


def _fell(series: Series, boundary: float, before: PassRate | None) -> str:
    """From what: each level under its name, as the evidence tells of others."""
    rule, baseline = series.rule, series.baseline
    if isinstance(rule, MinimumRule):
        return f"fell below {percent(boundary)}"
    learned = percent(baseline.m) if baseline is not None and baseline.known else None
    if isinstance(rule, MaxDropRule):
        level = "" if learned is None else f" of {learned}"
        return f"fell more than {percent_points(rule.max_drop)} below its reference{level}"
    if learned is not None:
        return f"fell from its learned baseline of {learned}"
    return (
        "fell"
        if before is None or before.estimate is None
        else f"fell from {percent(before.estimate)} (since the previous incident)"
    )


def resolved(series: Series, *, at: datetime) -> AlertEvent:
    """The event of a series whose rate has come back."""
    alert = series.alert
    if alert is None or alert.recovery.start is None:
        raise ValueError(f"{series.key!r} has not recovered; call this before the alert is closed")
    good = rate_of(series.sums.since(alert.recovery.start.before))
    # Resolving needs evidence that the rate has left the level of the fall half-way, which may still be below.
    limit = "the minimum" if isinstance(series.rule, MinimumRule) else "the firing boundary"
    below = good is not None and good.estimate is not None and good.estimate < alert.boundary
    summary = f"{subject(series)} " + (f"is better but still below {limit}" if below else "recovered")
    if good is not None and good.estimate is not None:
        summary += (
            f": about {percent(good.estimate)} since about {clock(alert.recovery.start.at, beside=at)} "
            f"({counted(good.judged, 'judged trace')}{interval(good)}); {limit} is {percent(alert.boundary)}"
        )
    evidence: dict[str, object] = {
        "rule": series.rule.name,
        "boundary": alert.boundary,
        "fired_event_id": alert.event_id,
        "fired_at": iso(alert.at),
        "recovered_about": iso(alert.recovery.start.at),
        "above": alert.recovery.target,
        "evidence_hours": alert.recovery.hours,
        "resolve_hours": RESOLVE_HOURS,
        "since_recovery": rate_numbers(good),
    }
    return alert_event(series, kind="resolved", at=at, summary=summary, evidence=evidence)


def closed_by_rule_change(series: Series, *, removed: bool) -> AlertEvent:
    """Closes an alert of a rule that is no more: nothing is claimed about the rate."""
    alert = series.alert
    if alert is None:
        raise ValueError(f"{series.key!r} has no open alert")
    what = "removed" if removed else "changed"
    return alert_event(
        series,
        kind="resolved",
        at=series.last_judged_at or alert.at,
        summary=f"{subject(series)}: alert closed because rule {plain(series.rule.name)} was {what}",
        evidence={"rule": series.rule.name, "fired_event_id": alert.event_id, "closed_because": f"rule_{what}"},
    )


def closed_by_action(series: Series, action: Action) -> AlertEvent:
    """Closes an alert because a person said so: nothing is claimed about the rate."""
    alert = series.alert
    if alert is None:
        raise ValueError(f"{series.key!r} has no open alert")
    what = "accepted as the new normal" if action.verb == "accept" else "dismissed as a false alarm"
    by = f" by {plain(action.by)}" if action.by else ""
    return alert_event(
        series,
        kind="resolved",
        at=action.at,
        summary=f"{subject(series)}: alert {what}{by}",
        evidence={
            "rule": series.rule.name,
            "fired_event_id": alert.event_id,
            "closed_because": "accepted" if action.verb == "accept" else "dismissed",
            "action_id": action.action_id,
        },
    )


def silence(series: Series, *, at: datetime, limit: timedelta) -> AlertEvent:
    """No row of the judge has come for too long."""
    last = series.last_judged_at
    judge = judge_of(series.key, heuristic=series.heuristic)
    summary = f"no judged traces of {where(series.key)} by {judge} for {span(limit)}"
    if series.alert is not None:
        summary += "; its alert stays open, as missing data is no recovery"
    evidence: dict[str, object] = {
        "rule": series.rule.name,
        "last_judged_at": iso(last) if last is not None else None,
        "limit_s": limit.total_seconds(),
    }
    return alert_event(series, kind="no_data", at=at, summary=summary, evidence=evidence)


def data_back(series: Series, *, at: datetime) -> AlertEvent:
    """Rows come again after a silence."""
    judge = judge_of(series.key, heuristic=series.heuristic)
    summary = f"judged traces of {where(series.key)} by {judge} are arriving again"
    return alert_event(series, kind="data_back", at=at, summary=summary, evidence={"rule": series.rule.name})


def more_values(series: Series, *, at: datetime) -> AlertEvent:
    """A rule groups by something with more values than it watches one by one."""
    rule, names = series.rule, ", ".join(series.rule.group_by)
    place = plain(series.key.app)
    summary = (
        f"rule {plain(rule.name)} watches {rule.max_series} values of {plain(names)} in {place} but has seen more: "
        f"all others form one series, {OTHER}; raise max_series, or group by something with fewer values"
    )
    evidence = {"rule": rule.name, "group_by": list(rule.group_by), "max_series": rule.max_series}
    return alert_event(series, kind="more_values", at=at, summary=summary, evidence=evidence)


def judge_health(key: SeriesKey, health: JudgeHealth, *, at: datetime) -> AlertEvent:
    """A judge fails too often to be relied on, or no longer does."""
    recent, ordinal = health.share, health.events
    health.events += 1
    share = recent.value or 0.0
    if recent.unhealthy:
        what = "could not judge"
        end = f"above {percent(UNHEALTHY_ABOVE)}; pass rates of these traces are incomplete"
    else:
        what = "has recovered: it failed on"
        end = f"no more than {percent(HEALTHY_UP_TO)}"
    who = f"{judge_of(key, heuristic=health.heuristic)} {what} {percent(share)}"
    kind: EventKind = "evaluator_unhealthy" if recent.unhealthy else "evaluator_healthy"
    return AlertEvent(
        event_id=event_id(key, kind=kind, at=at, ordinal=ordinal),
        series=key,
        kind=kind,
        severity="ticket",
        heuristic=health.heuristic,
        at=at,
        summary=f"{who} of {counted(recent.rows, 'recent trace')} of {where(key)}, {end}",
        evidence={"invalid": recent.invalid, "rows": recent.rows, "invalid_share": share, "limit": UNHEALTHY_ABOVE},
    )


def alert_event(
    series: Series, *, kind: EventKind, at: datetime, summary: str, evidence: Mapping[str, object]
) -> AlertEvent:
    """An event of a series, of the severity that its alert has, numbered among those of the series."""
    allowed = effective_severity(series.rule, heuristic=series.heuristic)
    severity: Severity = "ticket"
    if kind in _ALERT_KINDS and allowed == "page" and series.alert is not None:
        severity = series.alert.severity
    if kind in _ALERT_KINDS and allowed != series.rule.severity:
        evidence = {
            **evidence,
            "severity_lowered": "ticket instead of page, as the judge is a heuristic; "
            "set heuristic_may_page = true in the rule to be paged",
        }
        if kind == "firing":
            summary += "; ticket only, as the judge is a heuristic"
    if kind in _ALERT_KINDS and series.watermark.at is not None:
        evidence = {**evidence, "served_until": iso(series.watermark.at)}
    ordinal = series.events
    series.events += 1
    event = AlertEvent(
        event_id=event_id(series.key, kind=kind, at=at, ordinal=ordinal),
        series=series.key,
        kind=kind,
        severity=severity,
        heuristic=series.heuristic,
        at=at,
        summary=summary,
        evidence=evidence,
    )
    if kind == "firing" and series.alert is not None:
        series.alert.event_id = event.event_id
    return event


def _coverage(evidence: dict[str, object], *, since: PassRate | None, health: InvalidShare) -> str:
    """Errors are rarely missing at random: with many of them the rate is only known within [p(1-e), p(1-e) + e]."""
    share = health.value
    if share is None or share <= UNHEALTHY_ABOVE or since is None or since.estimate is None:
        return ""
    low = since.estimate * (1.0 - share)
    evidence["coverage_low"] = {"invalid_share": share, "low": low, "high": low + share}
    return f"; coverage is low: {percent(share)} of recent traces could not be judged"


def lowered_by_failures(evidence: dict[str, object]) -> str:
    """What an alert says that is no page because of the judge's failures, which the words before this must name."""
    evidence["severity_lowered"] = (
        "the judge failed on so many traces that the rate may not have fallen at all: a ticket instead of a page until "
        "enough are judged; see why it fails"
    )
    return "; a ticket only, as these could explain the whole fall"
