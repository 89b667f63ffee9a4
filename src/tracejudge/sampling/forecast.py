"""What the next epoch has to expect, and what it may spend, from counts of what was stored.

The forecast is that traffic goes on as it last was: as many an hour, in the same mixture, as in the last minutes that
brought a hundred traces. What it gets wrong is made good within the same hour (or day), since each epoch divides what
is left of the budget by the traffic that is left.

Traffic that cannot be seen is not taken for none. When no newer trace has been stored than at the last decision (a
consumer that is dead, or a quiet hour), the rates stay as they are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from tracejudge.sampling.epoch import EPOCH_S, EpochBook, GovernedRates
from tracejudge.sampling.governor import AIM, MARGIN, Governor
from tracejudge.sampling.solve import Cell, chances, smoothed, solve

ENOUGH_TRACES: Final = 100
LONGEST_LOOK: Final = timedelta(hours=1)
SHORTEST_LOOK: Final = timedelta(minutes=2)

LEAST_SHARE: Final = 0.05
"""Of the mean pace of a budget, that is kept up when it is spent; a hard cap has 15 % left above the aim."""

STALE: Final = timedelta(minutes=15)
"""Without a trace for so long nothing new is decided."""

_MINUTE: Final = timedelta(seconds=EPOCH_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """The observed traffic of a governor, by minute of event time.

    `frontier` is the latest event time stored. `applicable` is the share of chosen traces that the judge had something
    to say about. `spent_today` counts the judged traces of the running UTC day before `minutes` begin. `by_hour` holds
    all arrivals of the last day's whole hours, for budgets of a day. `cost_usd` is that of one judged trace, `rate` and
    `design_effect` those of the last week's estimate; None where nothing is known.
    """

    minutes: Mapping[datetime, Mapping[Cell, float]]
    frontier: datetime
    applicable: float = 1.0
    spent_today: float = 0.0
    by_hour: Mapping[datetime, float] = field(default_factory=dict)
    cost_usd: float | None = None
    rate: float | None = None
    design_effect: float = 1.0


def aim(governor: Governor, observed: Observed) -> float | None:
    """How many traces are to be judged in the governor's period; None while that cannot be known."""
    if governor.max_per_h is not None:
        return AIM * governor.max_per_h
    if governor.max_usd_per_day is not None:
        return AIM * governor.max_usd_per_day / observed.cost_usd if observed.cost_usd else None
    half = (governor.within_points or 0.0) / 100.0
    # Nothing known of the rate: the worst case. Never the best: .99 by luck must not end the sampling.
    rate = 0.5 if observed.rate is None else min(max(observed.rate, 0.5), 0.98)
    return MARGIN * 1.96**2 * rate * (1.0 - rate) / half**2 * max(1.0, observed.design_effect)


def decide(
    governor: Governor,
    observed: Observed,
    *,
    starts_at: datetime,
    epochs: EpochBook,
    floors_per_h: Mapping[str, float],
) -> GovernedRates | None:
    """The rates from `starts_at` on; None to leave them as they are."""
    wanted = aim(governor, observed)
    if wanted is None or starts_at - observed.frontier > STALE:
        return None
    per_h = expected_per_h(observed)
    if sum(per_h.values()) <= 0.0:
        return None
    length = timedelta(hours=1 if governor.period == "hour" else 24)
    begin = period_start(governor, starts_at)
    spent = _spent(governor, observed, begin, starts_at, per_h, epochs)
    if governor.period == "day" and period_start(governor, observed.frontier) == begin:
        spent += observed.spent_today
    left_h = _hours_left(observed, starts_at, begin + length)
    applicable = min(1.0, max(0.01, observed.applicable))
    budget = max(0.0, wanted - spent) / applicable / max(left_h, EPOCH_S / 3600.0)
    # Spent, a twentieth of the usual goes on: the hour is not blind, and the next one need not start from nothing.
    budget = max(budget, LEAST_SHARE * wanted / applicable / (length / timedelta(hours=1)))
    now = epochs.at(starts_at)
    rates = solve(per_h, budget, floors_per_h, volume_per_h=_volumes(observed, floors_per_h))
    return smoothed(rates, None if now is None else now.rates.get(governor.name))


def period_start(governor: Governor, at: datetime) -> datetime:
    """The whole UTC hour or day that an instant falls into."""
    hour = at.replace(minute=0, second=0, microsecond=0)
    return hour if governor.period == "hour" else hour.replace(hour=0)


def expected_per_h(observed: Observed) -> dict[Cell, float]:
    """Traces an hour by cell, as the last minutes had them."""
    found: defaultdict[Cell, float] = defaultdict(float)
    end, total = observed.frontier, 0.0
    first = end
    for minute in sorted((one for one in observed.minutes if one <= end), reverse=True):
        if end - minute > LONGEST_LOOK or (total >= ENOUGH_TRACES and end - first >= SHORTEST_LOOK):
            break
        first = minute
        for cell, count in observed.minutes[minute].items():
            found[cell] += count
            total += count
    hours = max(end - first, SHORTEST_LOOK if total >= ENOUGH_TRACES else timedelta(minutes=10)) / timedelta(hours=1)
    return {cell: count / hours for cell, count in found.items()}


def _volumes(observed: Observed, strata: Iterable[str]) -> dict[str, float]:
    """Traces an hour of each stratum, over the longest look: a rare one is not counted in minutes.

    One more than came, since the chance is a floor divided by this: the mean of 1 / (n + 1) is that of 1 / its mean.
    """
    minutes = [minute for minute in observed.minutes if observed.frontier - LONGEST_LOOK <= minute]
    hours = max(observed.frontier - min(minutes, default=observed.frontier), _MINUTE) / timedelta(hours=1)
    found = dict.fromkeys(strata, 1.0)
    for minute in minutes:
        for cell, count in observed.minutes[minute].items():
            if cell.stratum in found and cell.own > 0.0:
                found[cell.stratum] += count
    return {name: count / hours for name, count in found.items()}


def _spent(
    governor: Governor,
    observed: Observed,
    begin: datetime,
    until: datetime,
    per_h: Mapping[Cell, float],
    epochs: EpochBook,
) -> float:
    """Judged traces of the period to be expected up to `until`: from what came, and for what is not stored yet."""
    spent = 0.0

    def rates(at: datetime) -> GovernedRates:
        epoch = epochs.at(at)
        return GovernedRates() if epoch is None else epoch.rates.get(governor.name, GovernedRates())

    for minute, cells in observed.minutes.items():
        if begin <= minute < until:
            spent += chances(cells, rates(minute))
    at = max(begin, observed.frontier)
    while at < until:
        following = min(until, at.replace(second=0, microsecond=0) + _MINUTE)
        spent += chances(per_h, rates(at)) * ((following - at) / timedelta(hours=1))
        at = following
    return spent * min(1.0, max(0.01, observed.applicable))


def _hours_left(observed: Observed, starts_at: datetime, end: datetime) -> float:
    """Until the end of the period, in hours of traffic as it is now: yesterday says how the day goes on."""
    plain = (end - starts_at) / timedelta(hours=1)
    day = timedelta(days=1)
    hour = starts_at.replace(minute=0, second=0, microsecond=0)
    here = observed.by_hour.get(hour - day, 0.0)
    if plain <= 1.0 or here <= 0.0:
        return plain
    left = here * ((hour + timedelta(hours=1) - starts_at) / timedelta(hours=1))
    at = hour + timedelta(hours=1)
    while at < end:
        left += observed.by_hour.get(at - day, 0.0)
        at += timedelta(hours=1)
    # Yesterday is a hint: it moves the forecast by no more than a factor of three.
    return min(3.0 * plain, max(plain / 3.0, left / here))
