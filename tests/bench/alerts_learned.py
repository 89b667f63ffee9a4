"""The shipped drift rule behind the interface of a benchmark for detectors of drops: its baseline is learned.

As `alerts_detector.py`, with `learn(passed, weight, at_s)` for the rows before the stream. Where no rows are given the
baseline is known from `baseline_n` of them. `run` is the fast path over arrays.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from itertools import pairwise
from typing import Any

import numpy as np

from tests.bench.alerts_detector import (
    _KEY,
    UNIT,
    UNWEIGHTED_CHUNK,
    WEIGHTED_CHUNK,
    carried,
    rows_of_the_drop,
    scaled_weights,
)
from tracejudge.alerts import DriftRule
from tracejudge.alerts.detecting.baseline import Baseline, hour_of
from tracejudge.alerts.detecting.bets import ODDS
from tracejudge.alerts.detecting.hour_effect import CLIP, LOWEST, smallest_told
from tracejudge.alerts.detecting.weights import TRIM
from tracejudge.alerts.series.state import LONGEST_STEP_H, MIN_ROWS_OF_A_DROP, Series, Turn
from tracejudge.scores import Outcome
from tracejudge.testing import make_score

_HOURS = 1 << 24  # more hours than have passed since 1970


class Learned:
    """A drift rule with the promise of one false alarm per `arl0 / per_hour` hours."""

    timestamps = True

    def __init__(
        self, baseline_rate: float, arl0: float, per_hour: float = 60.0, baseline_n: int = 10_000, min_drop: float = 0.0
    ) -> None:
        self.alarm_hours = float(arl0) / per_hour
        rule = DriftRule(name="bench", type="drift", judge="judge", min_drop=min_drop)
        self.series = Series(key=_KEY, rule=rule)
        self._row = make_score()
        n, m = float(baseline_n), float(baseline_rate)
        self._baseline.seed(rows=n, rate=m, weight=UNIT)

    @property
    def _baseline(self) -> Baseline:
        baseline = self.series.baseline
        assert baseline is not None
        return baseline

    @property
    def knows_hours(self) -> bool:
        """Whether the baseline has found that hours differ by more than chance."""
        return self._baseline.spread > 0.0

    def learn(self, passed: Any, weight: Any, at_s: Any) -> None:
        """The rows before the stream, all of them good."""
        self.series.baseline = Baseline(drop=self._baseline.drop)
        self._see(passed, weight, at_s)
        self._baseline.learn_all()
        _, self.series.scale = scaled_weights(self.series.scale, weight)

    def update(self, passed: bool, weight: float, at_s: float) -> bool:
        at = datetime.fromtimestamp(at_s, timezone.utc)
        row = replace(
            self._row,
            outcome=Outcome.PASSED if passed else Outcome.FAILED,
            score=1.0 if passed else 0.0,
            event_time=at,
            judged_at=at,
            inclusion_probability=1.0 / (UNIT * weight),
        )
        return self.series.fold(row, alarm_hours=self.alarm_hours) is Turn.FIRED

    def _see(self, passed: Any, weight: Any, at_s: Any) -> None:
        """`Baseline.see` of every row, in sums an hour."""
        for _, hour, *sums in _hourly(np.zeros(passed.size, dtype=np.int64), passed, weight, at_s):
            self._baseline.see_sums(hour, *sums)

    def run(self, passed: Any, weight: Any, at_s: Any) -> int | None:
        """Index of the first alarm in these arrays, of an object that has seen no stream yet."""
        x = passed.astype(float)
        watermark = np.maximum.accumulate(at_s)
        gaps = np.minimum(np.diff(watermark, prepend=watermark[:1]) / 3600.0, LONGEST_STEP_H)
        hour = (watermark // 3600).astype(np.int64)
        day = (at_s // 3600).astype(np.int64) % 24
        scaled, self.series.scale = scaled_weights(self.series.scale, weight)
        counted = np.minimum(scaled[:, 0], TRIM)
        n_eff = np.cumsum(counted) ** 2 / np.cumsum(counted**2)
        evidence = np.zeros(len(ODDS))
        factors = np.ones((len(ODDS), x.size))
        size = WEIGHTED_CHUNK if np.any(weight != 1.0) else UNWEIGHTED_CHUNK
        cuts = np.flatnonzero(np.diff(hour, prepend=-1, append=-1)).tolist()
        seen = _hourly(np.cumsum(np.diff(hour, prepend=hour[:1]) > 0), passed, weight, at_s)
        told, before = 0, None
        for turn, (begin, end) in enumerate(pairwise(cuts)):
            self._baseline.move_to(hour_of(datetime.fromtimestamp(watermark[begin], timezone.utc)))
            met = sorted(set(day[begin:end].tolist()))
            known = [one for one in map(self._baseline.bets_of_hour, met) if one is not None]
            if known:
                place = np.searchsorted(met, day[begin:end]) if len(met) > 1 else np.zeros(1, dtype=np.int64)
                b = np.array([one.boundary for one in known])[place]
                drops = np.array([one.drops for one in known])[place].T
                scale = scaled[begin:end, 0] / scaled[begin:end, 1]
                whole = 1.0 + np.minimum(drops / (b * (1.0 - b)) * scale, CLIP / (1.0 - b)) * (b - x[begin:end])
                if known[0].phi > 1.0:
                    whole **= 1.0 / known[0].phi
                if known[0].spread:
                    before = _hour_so_far(passed, weight, at_s) if before is None else before
                    share, rate = _of_the_hour(before[:, begin:end], known[0].spread)
                    here = np.minimum(b, np.maximum(LOWEST, b + share * (rate - b)))
                    unit = drops * (1.0 - 0.5 * share) / (here * (1.0 - here))
                    within = 1.0 + np.minimum(unit * scale, CLIP / (1.0 - here)) * (here - x[begin:end])
                    least = np.array([smallest_told(one.boundary, one.spread) for one in known])[place]
                    whole = np.where(drops >= least, within, whole)
                factors[:, begin:end] = whole
                prior = np.array(known[0].prior)
                for first in range(begin, end, size):
                    last = min(first + size, end)
                    path = carried(evidence, factors[:, first:last], gaps[first:last])
                    evidence = path[:, -1]
                    for k in np.flatnonzero(prior @ path >= self.alarm_hours).tolist():
                        t = first + int(k)
                        leading = int(np.argmax(prior * path[:, k]))
                        if n_eff[t] >= 20 and rows_of_the_drop(factors[leading, : t + 1]) >= MIN_ROWS_OF_A_DROP:
                            return t
            while told < len(seen) and seen[told][0] == turn:
                self._baseline.see_sums(*seen[told][1:])
                told += 1
        return None


def _hourly(turn: Any, passed: Any, weight: Any, at_s: Any) -> list[tuple[int, int, float, float, float, float]]:
    """For each turn and hour of event time: both, and the sums of w, w x, w^2 and w^2 x of its rows."""
    x, w = passed.astype(float), UNIT * weight
    hours = (at_s // 3600).astype(np.int64)
    found, place = np.unique(turn * _HOURS + hours, return_inverse=True)
    columns = [np.bincount(place, v).tolist() for v in (w, w * x, w**2, w**2 * x)]
    return list(zip((found // _HOURS).tolist(), (found % _HOURS).tolist(), *columns, strict=True))


def _hour_so_far(passed: Any, weight: Any, at_s: Any) -> Any:
    """Sums of w, w x and w^2 over the rows of the same hour of event time that came before each row."""
    w = UNIT * weight
    hours = (at_s // 3600).astype(np.int64)
    order = np.argsort(hours, kind="stable")
    first = np.flatnonzero(np.diff(hours[order], prepend=-1))
    group = np.cumsum(np.diff(hours[order], prepend=hours[order][:1]) > 0)
    found = np.zeros((3, w.size))
    for row, values in zip(found, (w, w * passed, w**2), strict=True):
        total = np.concatenate(([0.0], np.cumsum(values[order])[:-1]))
        row[order] = total - total[first][group]
    return found


def _of_the_hour(before: Any, spread: float) -> tuple[Any, Any]:
    """How far each row's hour is known by its own rows (`known_share`), and their rate."""
    w, wx, w2 = before
    some = w > 0.0
    told = np.where(some, spread * w * w / np.where(some, w2, 1.0), 0.0)
    return told / (1.0 + told), np.where(some, wx / np.where(some, w, 1.0), 0.0)
