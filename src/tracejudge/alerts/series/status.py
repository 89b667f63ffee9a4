"""The status of a series, for people, metrics and tests."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from tracejudge.alerts.event import SeriesKey, SeriesState
from tracejudge.alerts.series.health import JudgeHealth
from tracejudge.alerts.series.state import PENDING_SHARE, Series
from tracejudge.alerts.series.window_series import WindowSeries
from tracejudge.alerts.series.window_words import expected_false_alarms


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesStatus:
    """One series as of its last row, and of the last tick of the clock."""

    key: SeriesKey
    state: SeriesState
    boundary: float | None  # None while a baseline is being learned
    baseline: float | None  # the learned rate; None for a rule with a minimum, and before anything is learned
    phi: float  # overdispersion found by a learned baseline; 1: none
    smallest_drop: float | None  # below the boundary, that a learned baseline can tell from chance by now
    evidence: float  # M / A: fires at 1, pending above 0.1; stands still while firing
    alarm_hours: float  # A: the promised mean hours between false alarms of this series
    share: float | None  # of the promise of its place that is its own; None where it takes no part
    false_alarms: str | None  # that promise
    n_eff: float
    invalid_share: float | None  # of the judge's recent rows; None when there are fewer than 20
    too_late: int  # rows more than 48 h behind the watermark: not folded
    unusable: int  # rows sampled with a probability that is none, or below 1e-7: not folded
    heuristic: bool
    last_judged_at: datetime | None
    served_until: datetime | None  # the latest answer among them, by when it was served
    alert_event_id: str | None  # of the open alert
    started_about: datetime | None = None  # of the open alert's fall, or of the one that is suspected
    about_verdicts: bool = True  # False: of how judging went, of latency or volume
    promises: bool = True  # False: a classic threshold, which fires by chance as often as it does
    chance_per_30d: float | None = None  # how often that is, where it is known


def status_of(
    series: Series, *, alarm_hours: float, share: float, health: JudgeHealth | None, now: datetime | None
) -> SeriesStatus:
    """The status of a series that fires at `alarm_hours`, for its share; `health` is its judge's, `now` the last
    tick's."""
    evidence = series.evidence_hours / alarm_hours
    baseline = series.baseline
    start = series.alert.start if series.alert is not None else series.detector.start
    return SeriesStatus(
        key=series.key,
        state=_state(series, evidence=evidence, health=health, now=now),
        boundary=series.boundary,
        baseline=baseline.m if baseline is not None and baseline.known else None,
        phi=baseline.phi if baseline is not None else 1.0,
        smallest_drop=baseline.smallest_drop if baseline is not None else None,
        evidence=evidence,
        alarm_hours=alarm_hours,
        share=share if series.rule.budget is not None else None,
        false_alarms=series.promise if series.rule.budget is not None else None,
        n_eff=series.sums.n_eff,
        invalid_share=health.share.value if health is not None else None,
        too_late=series.too_late,
        unusable=series.unusable,
        heuristic=series.heuristic,
        last_judged_at=series.last_judged_at,
        served_until=series.watermark.at,
        alert_event_id=series.alert.event_id if series.alert is not None else None,
        started_about=start.at if start is not None else None,
        about_verdicts=series.rule.measure == "quality" and series.rule.type != "volume",
        promises=series.rule.budget is not None,
        chance_per_30d=expected_false_alarms(series) if isinstance(series, WindowSeries) else None,
    )


def _state(series: Series, *, evidence: float, health: JudgeHealth | None, now: datetime | None) -> SeriesState:
    limit, last = series.rule.silence_limit, series.last_judged_at
    if series.alert is not None:
        return "firing"  # silence and a sick judge do not end an alert
    if now is not None and limit is not None and last is not None and now - last > limit:
        return "no_data"
    if health is not None and health.share.unhealthy:
        return "evaluator_unhealthy"
    if series.warming_up:
        return "warming_up"
    return "pending" if evidence > PENDING_SHARE else "ok"
