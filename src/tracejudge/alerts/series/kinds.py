"""The kinds of series: which one a rule makes, and which module words its events."""

from __future__ import annotations

from datetime import datetime

from tracejudge.alerts.event import AlertEvent, SeriesKey
from tracejudge.alerts.rules.rule import Rule, ThresholdRule, VolumeRule
from tracejudge.alerts.series import explain, growth, volume_words, window_words
from tracejudge.alerts.series.health import InvalidShare
from tracejudge.alerts.series.state import Series
from tracejudge.alerts.series.volume_series import VolumeSeries
from tracejudge.alerts.series.window_series import WindowSeries


def kind_of(rule: Rule) -> type[Series]:
    """The class of a rule's series."""
    if isinstance(rule, ThresholdRule):
        return WindowSeries
    return VolumeSeries if isinstance(rule, VolumeRule) else Series


def new_series(*, key: SeriesKey, rule: Rule) -> Series:
    """A series that has seen no row."""
    return kind_of(rule)(key=key, rule=rule)


def firing(series: Series, *, share: float, health: InvalidShare) -> AlertEvent:
    """The event of a series that has just fired."""
    if isinstance(series, WindowSeries):
        return window_words.firing(series)
    if isinstance(series, VolumeSeries):
        return volume_words.firing(series, share=share)
    return explain.firing(series, share=share, health=health)


def resolved(series: Series, *, at: datetime) -> AlertEvent:
    """The event of a series that has recovered."""
    if isinstance(series, WindowSeries):
        return window_words.resolved(series, at=at)
    if isinstance(series, VolumeSeries):
        return volume_words.resolved(series, at=at)
    return explain.resolved(series, at=at)


def escalated(series: Series, *, at: datetime) -> AlertEvent:
    """The event of an open alert that has become a page."""
    if isinstance(series, WindowSeries):
        return window_words.escalated(series, at=at)
    return growth.escalated(series, at=at)
