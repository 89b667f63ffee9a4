"""Rates, times, judges and places in words and numbers, the same in every event. Never texts of traces."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Final

from tracejudge.alerts.event import SeriesKey
from tracejudge.alerts.rules.measures import in_words
from tracejudge.alerts.series.state import Series
from tracejudge.counted import counted
from tracejudge.scores import Bucket
from tracejudge.windows import PassRate, pass_rate

LONGEST_NAME: Final = 40
"""Characters of an app, an environment or a slice's value in a sentence; the event has them whole."""


def rate_numbers(rate: PassRate | None) -> Mapping[str, object] | None:
    """A pass rate as JSON values; None when nothing was settled."""
    if rate is None or rate.estimate is None:
        return None
    return {
        "rate": rate.estimate,
        "low": rate.low,
        "high": rate.high,
        "n_eff": rate.n_eff,
        "judged": rate.judged,
        "passed": rate.passed,
        "failed": rate.failed,
        "unweighted_rate": rate.plain,
    }


def percent(share: float) -> str:
    """A share for a person: 80 %, 95.5 %.

    >>> percent(0.8), percent(0.955)
    ('80 %', '95.5 %')
    """
    return f"{round(100 * share, 1):g} %"


def percent_points(share: float) -> str:
    """A difference of shares for a person: 3 points, 1 point."""
    points = round(100 * share, 1)
    return f"{points:g} point" + ("" if points == 1 else "s")


def of_what_fires(share: float) -> str:
    """Evidence for a person: in percent of what fires. What is far above it is no better known by more digits.

    >>> of_what_fires(0.0123), of_what_fires(1.28), of_what_fires(1e9)
    ('1.2 %', '128 %', 'over 1000 %')
    """
    return f"{100 * share:.2g} %" if share < 0.995 else f"{100 * share:.0f} %" if share < 10 else "over 1000 %"


def rate_of(bucket: Bucket) -> PassRate | None:
    """The pass rate of these rows; None when there are none."""
    return pass_rate({"": bucket}) if bucket.n else None


def interval(rate: PassRate) -> str:
    """The bounds of a rate, after a number."""
    if rate.low is None or rate.high is None:
        return ""
    return f", {round(100 * rate.low)}-{round(100 * rate.high)} %"


def subject(series: Series) -> str:
    """Whose rate it is, in words: judge, application, slice."""
    rule, judge = series.rule, judge_of(series.key, heuristic=series.heuristic)
    if rule.type == "volume":
        return f"volume of {judge} of {where(series.key)}"
    return f"{in_words(rule.measure, at_most=rule.at_most, judge=judge)} of {where(series.key)}"


def judge_of(key: SeriesKey, *, heuristic: bool) -> str:
    """The judge's name; every line that has it says it when there is no model behind the verdicts."""
    return plain(key.judge_name) + (" (heuristic)" if heuristic else "")


def where(key: SeriesKey) -> str:
    """Application, environment where it is not production, and slice."""
    place = short(plain(key.app))
    if key.environment != "production":
        place += f" ({short(plain(key.environment))})"
    if key.group:
        place += " [" + ", ".join(f"{field} {short(plain(value)) or '(none)'}" for field, value in key.group) + "]"
    return place


def short(name: str) -> str:
    """A long name without its middle: channels cut long lines, and what happened stands behind the names.

    >>> short("an-app"), short("pipeline-" + "x" * 90 + "-of-billing-v2")
    ('an-app', 'pipeline-xxxxxxxxxxxxxxx...of-billing-v2')
    """
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 16]}...{name[-13:]}"


def plain(text: str) -> str:
    """A name from a producer: one that holds control characters must not steer a terminal or forge a line."""
    return "".join(char if char.isprintable() else "?" for char in text)


def clock(at: datetime, *, beside: datetime) -> str:
    """The time of day, with the day where it is not that of `beside`."""
    at, beside = at.astimezone(timezone.utc), beside.astimezone(timezone.utc)
    return f"{at:%H:%M} UTC" if at.date() == beside.date() else f"{at:%Y-%m-%d %H:%M} UTC"


def span(limit: timedelta) -> str:
    """A time for a person: 24 hours, 90 minutes."""
    minutes = round(limit.total_seconds() / 60)
    if minutes % 60 == 0:
        return counted(minutes // 60, "hour")
    return counted(minutes, "minute")


def iso(at: datetime) -> str:
    """An instant as evidence holds it."""
    return at.astimezone(timezone.utc).isoformat(timespec="milliseconds")
