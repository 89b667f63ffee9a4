"""How often a rule has really been wrong so far: what people said of its alerts, over the time it has watched.

An alert was false when it was dismissed. It was real when it was accepted, or when a marked incident covers it. Of the
others nobody has said anything: they are counted beside, and the number of false alarms lies between the dismissed ones
and these together. The interval is exact for a Poisson count (Garwood 1936). The promise is made for all quality rules
of an application together, so that is what the count is held against.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from math import exp
from typing import Final

from tracejudge.alerts.actions import Action
from tracejudge.alerts.backtest import OPEN_INCIDENT
from tracejudge.alerts.event import AlertEvent

_A_MONTH: Final = 30.0
ENOUGH_PROMISES: Final = 1.0
"""Of promised times between two false alarms: with less of them watched, a count says next to nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackRecord:
    """Alerts of an application's rules that share the promise on quality, over `days` watched; not the one told about.

    `promised` is False for a rule that promises nothing (a classic threshold): then it is about that rule's alerts
    alone, and the time is 30 days.
    `per_promise` is the measured number of false alarms in the time the promise speaks of (`promise_days`), `low` and
    `high` its 95 % interval; `high` counts alerts that nobody judged as false. None when the time watched is shorter
    than the promised one.
    """

    promised: bool
    promise_days: float
    days: float
    alerts: int
    dismissed: int
    real: int
    of_rule: int  # alerts of this rule alone
    dismissed_of_rule: int
    per_promise: float | None
    low: float | None
    high: float | None

    @property
    def unjudged(self) -> int:
        """Alerts of which nobody has said whether they were real."""
        return self.alerts - self.dismissed - self.real


def track_record(
    event: AlertEvent,
    events: Iterable[AlertEvent],
    actions: Sequence[Action],
    *,
    watched: timedelta,
    promise_days: float | None,
) -> TrackRecord:
    """What became of earlier alerts, up to `event`; `promise_days` None: nothing is promised.

    `watched` is how long the judge's verdicts had been coming by then (`watched_time`): gaps of more than 30 days
    without any are none of it, so that a few rows with a wrong clock do not make decades.
    """
    promised, promise_days = promise_days is not None, promise_days or _A_MONTH
    place = (event.series.environment, event.series.app)
    told_now = {event.event_id, event.evidence.get("fired_event_id")}
    fired = [
        one
        for one in events
        if one.kind == "firing"
        and one.event_id not in told_now
        and one.at <= event.at
        and (one.series.environment, one.series.app) == place
        and (_shares_the_promise(one) if promised else one.series.rule == event.series.rule)
    ]
    closed = {
        str(one.evidence.get("fired_event_id")): str(one.evidence.get("closed_because", ""))
        for one in events
        if one.kind == "resolved"
    }
    marks = [action for action in actions if action.verb == "mark"]
    dismissed = {one.event_id for one in fired if closed.get(one.event_id) == "dismissed"}
    real = {
        one.event_id
        for one in fired
        if one.event_id not in dismissed
        and (closed.get(one.event_id) == "accepted" or any(_covers(mark, one) for mark in marks))
    }
    days = watched / timedelta(days=1)
    unjudged = len(fired) - len(dismissed) - len(real)
    measured = low = high = None
    if days >= ENOUGH_PROMISES * promise_days:
        scale = promise_days / days
        measured = scale * len(dismissed)
        low, high = scale * poisson_low(len(dismissed)), scale * poisson_high(len(dismissed) + unjudged)
    return TrackRecord(
        promised=promised,
        promise_days=promise_days,
        days=days,
        alerts=len(fired),
        dismissed=len(dismissed),
        real=len(real),
        of_rule=sum(one.series.rule == event.series.rule for one in fired),
        dismissed_of_rule=sum(one.series.rule == event.series.rule and one.event_id in dismissed for one in fired),
        per_promise=measured,
        low=low,
        high=high,
    )


def poisson_low(count: int, *, confidence: float = 0.95) -> float:
    """The lower end of the exact interval of a Poisson mean (Garwood 1936).

    >>> round(poisson_low(3), 3), round(poisson_high(3), 3), round(poisson_high(0), 3)
    (0.619, 8.767, 3.689)
    """
    tail = (1.0 - confidence) / 2.0
    return 0.0 if count == 0 else _solve(lambda mean: 1.0 - _at_most(count - 1, mean) < tail, count)


def poisson_high(count: int, *, confidence: float = 0.95) -> float:
    """The upper end of the exact interval of a Poisson mean."""
    tail = (1.0 - confidence) / 2.0
    return _solve(lambda mean: _at_most(count, mean) > tail, count)


def _solve(below, count: int) -> float:  # type: ignore[no-untyped-def]
    low, high = 0.0, 4.0 * count + 20.0
    for _ in range(80):
        middle = (low + high) / 2.0
        low, high = (middle, high) if below(middle) else (low, middle)
    return high


def _at_most(count: int, mean: float) -> float:
    """P(X <= count) for a Poisson mean."""
    term = total = exp(-mean)
    for k in range(1, count + 1):
        term *= mean / k
        total += term
    return total


def _shares_the_promise(event: AlertEvent) -> bool:
    """Whether the alert is of a rule on quality that promises something: health has own promise, and a classic
    threshold has none."""
    told = event.evidence
    return told.get("measure", "quality") == "quality" and told.get("type") not in ("threshold", "volume")


def _covers(mark: Action, event: AlertEvent) -> bool:
    end = mark.end if mark.end is not None else mark.start + OPEN_INCIDENT
    return mark.matches(event.series) and mark.start <= event.served_at < end
