"""The detection delay of a fall of the pass rate, computed before it happens.

The mixture detector needs about

    n = (log(1 + A V K) - 1.4) / K      traces,  K = KL(p || b) / (phi deff)

to see the rate at p, with KL the divergence of Bernoulli(p) from Bernoulli(b) in nats, b the boundary, V judged traces
an hour, A the alarm level in hours, phi the overdispersion and deff the design effect of the weights. The first part is
Lorden's first-order delay; 1.4 was fitted once to simulations of the shipped detector over boundaries of .90 to .98,
falls of 3 to 10 points and volumes of 60 and 1000 an hour, where it is within 10 %.
"""

from __future__ import annotations

from datetime import datetime, timezone
from math import ceil, exp, inf, log, log1p
from typing import Final

from tracejudge.alerts.detecting.bets import Bets
from tracejudge.alerts.detecting.detector import DropDetector
from tracejudge.alerts.detecting.sums import Place, Sums

_OFFSET: Final = 1.4
_NOWHERE: Final = Place(datetime(1970, 1, 1, tzinfo=timezone.utc), Sums())
_FEWEST: Final = 5.0  # verdicts since the start of a drop, below which nothing fires


def expected_traces(
    rate: float, boundary: float, *, per_hour: float, alarm_hours: float, phi: float = 1.0, deff: float = 1.0
) -> float:
    """The mean number of judged traces from a fall to `rate` until it is detected; infinite at or above the
    boundary."""
    if rate >= boundary or per_hour <= 0.0:
        return inf
    information = _divergence(rate, boundary) / (phi * deff)
    # log1p of a product that may be small: a tiny fall at a low volume carries no evidence to speak of.
    evidence = log1p(alarm_hours * per_hour * information)
    return max(_FEWEST, (evidence - min(_OFFSET, evidence / 2.0)) / information)


def breakdown_traces(boundary: float, *, per_hour: float, alarm_hours: float, deff: float = 1.0) -> float:
    """The number of judged traces until a rate of 0 is detected, after a day at the boundary; infinite when none is
    judged.

    The detector itself is asked: at a rate of 0 its bets, which stop short of 0, lose more than the formula knows.
    """
    if per_hour <= 0.0:
        return inf
    detector, hours, owed = DropDetector(Bets(boundary)), 1.0 / per_hour, 0.0
    for _ in range(min(2_000, ceil(24.0 * per_hour))):
        owed += 1.0 - boundary  # failures evenly spread, as many as the boundary has
        failed, owed = owed >= 1.0, owed % 1.0
        detector.observe(passed=not failed, weight=1.0, deff=deff, hours=hours, place=_NOWHERE)
    traces = 0
    while detector.evidence_hours < alarm_hours and traces < 10_000:
        detector.observe(passed=False, weight=1.0, deff=deff, hours=hours, place=_NOWHERE)
        traces += 1
    return max(_FEWEST, float(traces))


def smallest_drop(
    boundary: float,
    *,
    level: float,
    within_h: float,
    per_hour: float,
    alarm_hours: float,
    phi: float = 1.0,
    deff: float = 1.0,
) -> float | None:
    """The smallest fall from `level` (a share) that is detected within so many hours on average; None if no fall is."""

    def hours(rate: float) -> float:
        traces = expected_traces(rate, boundary, per_hour=per_hour, alarm_hours=alarm_hours, phi=phi, deff=deff)
        return traces / per_hour if per_hour > 0.0 else inf

    low, high = exp(-20.0), boundary
    if hours(low) > within_h:
        return None
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if hours(middle) <= within_h else (low, middle)
    return max(0.0, level - low)


def _divergence(p: float, b: float) -> float:
    q = 1.0 - p
    passed = p * log(p / b) if p > 0.0 else 0.0
    failed = q * log(q / (1.0 - b)) if q > 0.0 else 0.0
    return passed + failed
