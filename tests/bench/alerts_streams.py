"""Seeded streams of verdicts for the bench of alerts: what production looks like when nothing is wrong, and when it is.

A stream is three arrays in order of delivery: passed, weight (mean about 1), event time in seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tracejudge.alerts.order import STEP_S

MIDNIGHT: Final = 1_767_225_600.0
"""Event time of hour 0 of every stream: 2026-01-01 00:00 UTC."""

MONTH_H: Final = 720
_REFERENCE_H: Final = 336

# One trace in ten looks suspicious and passes less often by this much; a policy samples those more.
_SUSPICIOUS, _GAP = 0.1, 0.15
_ORDINARY_PROBABILITY: Final = 0.1

_AT_ONCE: Final = 100.0
"""How many times faster than real time a consumer catches up."""

Floats = NDArray[np.float64]
Generator = np.random.Generator


@dataclass(frozen=True, slots=True)
class Stream:
    """Rows in order of delivery."""

    passed: NDArray[np.bool_]
    weight: Floats
    at_s: Floats

    def __len__(self) -> int:
        return int(self.passed.size)

    def part(self, rows: Any) -> Stream:
        """The rows that a slice, mask or list of places chooses."""
        return Stream(self.passed[rows], self.weight[rows], self.at_s[rows])

    def then(self, other: Stream) -> Stream:
        """These rows, then the other's."""
        return Stream(
            np.concatenate((self.passed, other.passed)),
            np.concatenate((self.weight, other.weight)),
            np.concatenate((self.at_s, other.at_s)),
        )


def steady(rng: Generator, *, per_hour: int, rate: float | Floats, rows: int, begin_s: float = MIDNIGHT) -> Stream:
    """Unweighted rows at even distances, passed with `rate` (one for all, or one for each)."""
    at_s = begin_s + np.arange(rows) * 3600.0 / per_hour
    return Stream(rng.random(rows) < rate, np.ones(rows), at_s)


def fall(
    rng: Generator, *, per_hour: int, rate: float, drop: float, quiet_h: float = 75.0, hours: float = 168.0
) -> tuple[Stream, int]:
    """A quiet time that ends at a random phase of the hour, then the lower rate; and the number of quiet rows."""
    quiet = max(1, int(quiet_h * per_hour) - int(rng.integers(per_hour)))
    rates = np.full(quiet + int(hours * per_hour), rate)
    rates[quiet:] -= drop
    return steady(rng, per_hour=per_hour, rate=rates, rows=rates.size), quiet


def lively(
    rng: Generator, *, per_hour: int, hours: float, policy_h: float, fall_h: float | None = None, drop: float = 0.0
) -> tuple[Stream, Stream]:
    """Two weeks of reference and `hours` of watch as production gives them, around a pass rate of .95.

    A wave of .02 over the day, an hourly standard deviation of .01, suspicious traces sampled ten times as often as
    others until `policy_h` and four times as often after, Poisson arrivals delivered about 20 s out of order. From
    `fall_h` on the rate is lower by `drop`.
    """
    rate = 0.95
    hour = np.sort(rng.random(int((_REFERENCE_H + hours) * per_hour))) * (_REFERENCE_H + hours) - _REFERENCE_H
    clock = np.arange(-_REFERENCE_H, int(np.ceil(hours)))
    mean = rate - 0.02 * np.sin(2.0 * np.pi * (clock + 0.5) / 24.0)
    strength = mean * (1.0 - mean) / 0.01**2 - 1.0
    hourly = np.minimum(rng.beta(mean * strength, (1.0 - mean) * strength), 1.0 - _SUSPICIOUS * _GAP)
    each = hourly[np.floor(hour).astype(int) + _REFERENCE_H]
    if fall_h is not None:
        each = each - drop * (hour >= fall_h)
    passed, weight = _sampled(rng, each, np.where(hour < policy_h, 1.0, 0.4))
    at_s = MIDNIGHT + 3600.0 * hour
    order = np.argsort(at_s + rng.exponential(20.0, at_s.size))
    stream = Stream(passed[order], weight[order], at_s[order])
    watch = int(np.searchsorted(at_s, MIDNIGHT))
    return stream.part(slice(None, watch)), stream.part(slice(watch, None))


def weighted(rng: Generator, *, per_hour: int, rate: float) -> Stream:
    """Thirty days in which suspicious traces are sampled more, with another policy from day 10 on."""
    rows = MONTH_H * per_hour
    hour = np.arange(rows) / per_hour
    passed, weight = _sampled(rng, np.full(rows, rate), np.where(hour < 240.0, 1.0, 0.4))
    return Stream(passed, weight, MIDNIGHT + 3600.0 * hour)


def outage(rng: Generator, *, per_hour: int) -> tuple[Stream, float]:
    """A day with a fall of .10 between hours 13 and 17, and its event time; every row is 20 s late or so."""
    rows = 24 * per_hour
    hour = np.sort(rng.random(rows)) * 24.0
    begin = 13.0 + 4.0 * rng.random()
    passed = rng.random(rows) < np.where(hour < begin, 0.95, 0.85)
    at_s = MIDNIGHT + 3600.0 * hour
    order = np.argsort(at_s + rng.exponential(20.0, rows))
    stream = Stream(passed[order], np.ones(rows), at_s[order])
    return stream, MIDNIGHT + 3600.0 * begin


def by_partition(
    rng: Generator, stream: Stream, *, partitions: int, poll: int, from_s: float, until_s: float
) -> Stream:
    """The rows of an outage that ended, as they are folded: a consumer takes `poll` rows of each partition in turn and
    judges `_AT_ONCE` times faster than they came; the alert loop puts those of a step in order again (alerts/order.py).
    """
    behind = np.flatnonzero((stream.at_s >= from_s) & (stream.at_s < until_s))
    partition = rng.integers(partitions, size=behind.size)
    turn = np.zeros(behind.size, dtype=np.int64)
    for one in range(partitions):
        rows = partition == one
        turn[rows] = np.arange(int(rows.sum())) // poll
    delivered = behind[np.lexsort((behind, partition, turn))]
    rows_a_step = max(1, round(behind.size / (until_s - from_s) * _AT_ONCE * STEP_S))
    caught_up = delivered[np.lexsort((stream.at_s[delivered], np.arange(behind.size) // rows_a_step))]
    places = np.arange(len(stream))
    places[behind] = caught_up
    return stream.part(places)


def _sampled(rng: Generator, rate: Floats, probability: Floats) -> tuple[NDArray[np.bool_], Floats]:
    """Verdicts and weights of the judged traces, where suspicious ones are judged with `probability`, others with .1.

    Of the judged traces a share of .2 p / P is suspicious, with P = .1 p + .9 x .1: the weighted pass rate is `rate`.
    """
    overall = _SUSPICIOUS * probability + (1.0 - _SUSPICIOUS) * _ORDINARY_PROBABILITY
    suspicious = rng.random(rate.size) < _SUSPICIOUS * probability / overall
    rates = np.where(suspicious, rate - (1.0 - _SUSPICIOUS) * _GAP, rate + _SUSPICIOUS * _GAP)
    weight = np.where(suspicious, overall / probability, overall / _ORDINARY_PROBABILITY)
    return rng.random(rate.size) < np.minimum(rates, 1.0), weight
