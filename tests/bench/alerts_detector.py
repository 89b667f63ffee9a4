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
from scipy.signal import lfilter

from tracejudge.alerts import MinimumRule, SeriesKey
from tracejudge.alerts.detecting.bets import ODDS, PRIOR, hypothetical_rates
from tracejudge.alerts.detecting.weights import MEMORY, TRIM, WeightScale
from tracejudge.alerts.series.state import LONGEST_STEP_H, MIN_ROWS_OF_A_DROP, Series, Turn
from tracejudge.scores import Outcome
from tracejudge.testing import make_score

WEIGHTED_CHUNK = 150
"""Rows whose product a float can hold: no factor is below .02."""
UNWEIGHTED_CHUNK = 250
"""The same for unweighted rows, whose factors lie between .4 and 12."""
_CLIP = 0.98
UNIT = 100.0
"""The benchmark's weights have mean 1 and may lie below it, as no inverse probability can: only their ratios matter."""
_KEY = SeriesKey(rule="bench", environment="production", app="bench", judge_name="judge", judge_id="judge@0")


def scaled_weights(scale: WeightScale, weight: Any) -> tuple[Any, WeightScale]:
    """`scale.next` of every row, as an array of (weight, design effect), and the scale after them.

    Once it remembers `MEMORY` rows, and while none is trimmed, what it remembers is a linear filter of the weights; of
    a constant weight it is that weight.
    """
    rows = UNIT * np.asarray(weight, dtype=float)
    begun = max(0, min(rows.size, MEMORY - scale.to_state()["rows"]))
    first = np.array([scale.next(w) for w in rows[:begun].tolist()]).reshape(-1, 2)
    rest, state = rows[begun:], scale.to_state()
    if not rest.size:
        return first, scale
    if np.all(rest == state["mean"]) and state["mean_square"] == state["mean"] ** 2:
        return np.concatenate((first, np.ones((rest.size, 2)))), scale
    mean, square = (_remembered(state[name], rest**power) for power, name in ((1, "mean"), (2, "mean_square")))
    if np.any(rest > TRIM * mean[:-1]):
        return np.concatenate((first, np.array([scale.next(w) for w in rest.tolist()]))), scale
    deff = np.maximum(1.0, square[:-1] / mean[:-1] ** 2)
    after = {"rows": MEMORY, "mean": float(mean[-1]), "mean_square": float(square[-1])}
    return np.concatenate((first, np.column_stack((rest / mean[:-1], deff)))), WeightScale.from_state(after)


def _remembered(mean: float, values: Any) -> Any:
    """The forgetting mean before the first of these values, and after each."""
    fade = 1.0 - 1.0 / MEMORY
    return np.concatenate(([mean], lfilter([1.0 - fade], [1.0, -fade], values, zi=[fade * mean])[0]))


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
        scaled, _ = scaled_weights(WeightScale(), weight)
        watermark = np.maximum.accumulate(at_s)
        hours = np.minimum(np.diff(watermark, prepend=watermark[:1]) / 3600.0, LONGEST_STEP_H)
        bets = np.minimum(unit[:, None] * (scaled[:, 0] / scaled[:, 1]), _CLIP / (1.0 - b))
        factors = 1.0 + bets * (b - passed)
        counted = np.minimum(scaled[:, 0], TRIM)
        n_eff = np.cumsum(counted) ** 2 / np.cumsum(counted**2)
        evidence = np.zeros(len(ODDS))
        for begin in range(0, passed.size, WEIGHTED_CHUNK):
            part = slice(begin, begin + WEIGHTED_CHUNK)
            path = carried(evidence, factors[:, part], hours[part])
            evidence = path[:, -1]
            for k in np.flatnonzero(prior @ path >= self.alarm_hours).tolist():
                t = begin + int(k)
                leading = int(np.argmax(prior * path[:, k]))
                if n_eff[t] >= 20 and rows_of_the_drop(factors[leading, : t + 1]) >= MIN_ROWS_OF_A_DROP:
                    return t
        return None


def carried(evidence: Any, factors: Any, hours: Any) -> Any:
    """R after each row, for every component: R <- (R + g) L, from `evidence` on."""
    product = np.cumprod(factors, axis=1)
    return product * (evidence[:, None] + np.cumsum(hours * factors / product, axis=1))


def rows_of_the_drop(factors: Any) -> int:
    """Rows since the CUSUM of the logarithms of these factors last left zero; 0 while it is at zero."""
    path = np.concatenate([[0.0], np.cumsum(np.log(factors))])
    lowest = path.size - 1 - int(np.argmin(path[::-1]))
    return int(path.size - 1 - lowest)
