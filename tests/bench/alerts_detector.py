"""The shipped series behind the interface of a benchmark for detectors of drops.

A benchmark of pass-rate detectors calls `Detector(baseline_rate, arl0, per_hour=V)` and then `update(passed, weight,
at_s)` for each judged trace, in order of delivery, until it returns True. `Shipped` answers with the production code:
every row is a `Score`, folded by the `Series` of a `MinimumRule` whose minimum is the baseline.

`run` gives the same answer for whole arrays, with numpy; a benchmark must prove it equal to `update` before use.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import numpy as np

from tracejudge.alerts import MinimumRule, SeriesKey
from tracejudge.alerts.bets import ODDS, PRIOR, hypothetical_rates
from tracejudge.alerts.state import LONGEST_STEP_H, MIN_ROWS_OF_A_DROP, Series, Turn
from tracejudge.alerts.weights import MEMORY, TRIM, WeightScale
from tracejudge.scores import Outcome
from tracejudge.testing import make_score

_CHUNK = 150  # rows: 150 times the largest log factor stays far below what a float can hold
_CLIP = 0.98
UNIT = 100.0
"""The benchmark's weights have mean 1 and may lie below it, as no inverse probability can: only their ratios matter."""
_KEY = SeriesKey(rule="bench", environment="production", app="bench", judge_name="judge", judge_id="judge@0")


def scaled_weights(scale: WeightScale, weight: Any) -> Any:
    """`scale.next` of every row, as an array of (weight, design effect): of a constant weight at once."""
    if weight.size and np.all(weight == 1.0):
        state = scale.to_state()
        if not state["rows"] or (state["mean"], state["mean_square"]) == (UNIT, UNIT * UNIT):
            for _ in range(min(weight.size, MEMORY)):  # no row after these changes what it remembers
                scale.next(UNIT)
            return np.ones((weight.size, 2))
    return np.array([scale.next(UNIT * w) for w in weight.tolist()]).reshape(-1, 2)


class Shipped:
    """A minimum rule at the baseline, with the promise of one false alarm per `arl0 / per_hour` hours."""

    timestamps = True

    def __init__(self, baseline_rate: float, arl0: float, per_hour: float = 60.0) -> None:
        self.boundary = min(max(float(baseline_rate), 0.01), 0.999)
        self.alarm_hours = float(arl0) / per_hour
        self.series = Series(key=_KEY, rule=MinimumRule(name="bench", judge="judge", minimum=self.boundary))
        self._row = make_score()

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

    def run(self, passed: Any, weight: Any, at_s: Any) -> int | None:
        """Index of the first alarm in these arrays, of an object that has seen nothing yet."""
        b = self.boundary
        unit = np.array([(b - rate) / (b * (1.0 - b)) for rate in hypothetical_rates(b)])
        prior = np.array(PRIOR)
        scaled = scaled_weights(WeightScale(), weight)
        watermark = np.maximum.accumulate(at_s)
        hours = np.minimum(np.diff(watermark, prepend=watermark[:1]) / 3600.0, LONGEST_STEP_H)
        bets = np.minimum(unit[:, None] * (scaled[:, 0] / scaled[:, 1]), _CLIP / (1.0 - b))
        logs = np.log1p(bets * (b - passed))
        counted = np.minimum(scaled[:, 0], TRIM)
        n_eff = np.cumsum(counted) ** 2 / np.cumsum(counted**2)
        evidence = np.zeros(len(ODDS))
        for begin in range(0, passed.size, _CHUNK):
            part = logs[:, begin : begin + _CHUNK]
            total = np.cumsum(part, axis=1)
            path = np.exp(total) * (
                evidence[:, None] + np.cumsum(np.exp(part - total) * hours[begin : begin + _CHUNK], axis=1)
            )
            evidence = path[:, -1]
            for k in np.flatnonzero(prior @ path >= self.alarm_hours).tolist():
                t = begin + int(k)
                leading = int(np.argmax(prior * path[:, k]))
                if n_eff[t] >= 20 and self._rows_of_the_drop(logs[leading, : t + 1]) >= MIN_ROWS_OF_A_DROP:
                    return t
        return None

    @staticmethod
    def _rows_of_the_drop(logs: Any) -> int:
        """Rows since the CUSUM of these log factors last left zero; 0 while it is at zero."""
        path = np.concatenate([[0.0], np.cumsum(logs)])
        lowest = path.size - 1 - int(np.argmin(path[::-1]))
        return int(path.size - 1 - lowest)
