"""Runs of the shipped drift rule over seeded streams: its false alarms, and its delay after a fall."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tests.bench.alerts_learned import Learned
from tests.bench.alerts_streams import MONTH_H, Stream

_KNOWN = 10_000_000
"""Rows a baseline is taken from that counts as known."""
_MOST_ALARMS = 20  # of one stream; what follows is extrapolated


class Detector(Protocol):
    """The first alarm of a fresh detector in a stream."""

    def run(self, passed: np.ndarray, weight: np.ndarray, at_s: np.ndarray) -> int | None: ...


Fresh = Callable[[Stream | None], Detector]
"""A detector that has seen nothing of the stream but what it is given: rows after a dismissed alarm are its past."""


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean over runs and its standard error."""

    value: float
    error: float

    def __str__(self) -> str:
        return f"{self.value:.3g} +- {self.error:.2g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Delays:
    """Rows from the fall to the alarm, of the runs without an earlier alarm; one that missed counts as its length."""

    mean: Mean
    p95: float
    missed: float  # share of the runs


def known(rate: float, *, per_hour: int, scale: float = 1.0, min_drop: float = 0.0) -> Fresh:
    """Detectors whose baseline is known, with `scale` times the alarm level that one false alarm in 30 days takes."""

    def fresh(_: Stream | None) -> Detector:
        return Learned(rate, scale * MONTH_H * per_hour, float(per_hour), _KNOWN, min_drop)

    return fresh


def taught(reference: Stream, *, per_hour: int) -> Fresh:
    """Detectors that learn from the reference, and from all that was delivered up to a dismissed alarm."""

    def fresh(delivered: Stream | None) -> Detector:
        detector = Learned(0.5, MONTH_H * per_hour, float(per_hour))
        past = reference if delivered is None else reference.then(delivered)
        detector.learn(past.passed, past.weight, past.at_s)
        return detector

    return fresh


def first_alarm(detector: Detector, stream: Stream) -> int | None:
    """Place of the first alarm."""
    return detector.run(stream.passed, stream.weight, stream.at_s)


def false_alarms(runs: Iterable[tuple[Fresh, Stream]]) -> Mean:
    """Alarms a stream; after each the user dismisses it, and the detector goes on with what it has seen as its past."""
    return mean([_alarms(fresh, stream) for fresh, stream in runs])


def delays(runs: Iterable[tuple[Fresh, Stream, int]]) -> Delays:
    """Delays of falls that begin at the given row."""
    found: list[int] = []
    missed = 0
    for fresh, stream, begin in runs:
        alarm = first_alarm(fresh(None), stream)
        if alarm is None:
            missed += 1
            found.append(len(stream) - begin)
        elif alarm >= begin:
            found.append(alarm + 1 - begin)
    if not found:
        return Delays(mean=Mean(math.nan, math.nan), p95=math.nan, missed=math.nan)
    return Delays(mean=mean(found), p95=float(np.quantile(found, 0.95)), missed=missed / len(found))


def mean(values: Iterable[float]) -> Mean:
    """NaN where there are none; so is the error of a single one, and no goal is reached on that."""
    all_of_them = np.asarray(list(values), dtype=float)
    if all_of_them.size == 0:
        return Mean(math.nan, math.nan)
    error = float(all_of_them.std(ddof=1)) / math.sqrt(all_of_them.size) if all_of_them.size > 1 else math.nan
    return Mean(float(all_of_them.mean()), error)


def calibrated(fresh: Callable[[float], Fresh], streams: list[Stream], *, first: float = 1.0) -> float:
    """The scale of the alarm level at which the streams give one false alarm each on average, within 5 %.

    Alarms are about as rare as the level is high, so the rate found tells the next scale; where that leaves what is
    known to be too low or too high, the middle is taken. The upper end, which keeps the promise, where no scale meets
    it exactly. `first` is the scale that is tried first.
    """
    low, high, tried = math.log(0.02), math.log(5.0), math.log(first)
    for _ in range(10):
        rate = false_alarms((fresh(math.exp(tried)), stream) for stream in streams).value
        if rate > 1.0:
            low = tried
        else:
            high = tried
            if rate > 0.95:
                break
        told = tried + math.log(max(rate, 0.01) / 0.975)
        tried = told if low < told < high else 0.5 * (low + high)
    return math.exp(high)


def _alarms(fresh: Fresh, stream: Stream) -> float:
    alarms, begin = 0, 0
    while begin < len(stream) and alarms < _MOST_ALARMS:
        found = first_alarm(fresh(stream.part(slice(begin)) if begin else None), stream.part(slice(begin, None)))
        if found is None:
            return float(alarms)
        alarms, begin = alarms + 1, begin + found + 1
    return alarms / begin * len(stream)
