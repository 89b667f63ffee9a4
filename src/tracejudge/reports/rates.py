"""Pass rates per window and slice, read from stored scores: the one way in which every command gets them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from tracejudge.scores import Bucket, JudgeId
from tracejudge.store import RateQuery, Store
from tracejudge.windows import PassRate, Window, pass_rate, tiles


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLine:
    """One judge's pass rate in one window and slice; `rate` is None when nothing was judged there."""

    window: Window
    judge_name: str
    judge_id: JudgeId
    group: Mapping[str, str]
    heuristic: bool
    rate: PassRate | None
    over_budget: int = 0
    """Traces that a hard cap kept from the judge. They are no random choice: where there are any, coverage is low, and
    the rate claims nothing about them."""


def read_rates(store: Store, query: RateQuery, *, confidence: float = 0.95) -> list[RateLine]:
    """One line for every (judge, slice) and every window of the query, in order of judge, slice and time.

    Windows in which a judge that has scores elsewhere in the query judged nothing are there with `rate` None: no data
    is not zero. Scores of different JudgeIds never share a line.
    """
    series: dict[tuple[str, JudgeId, tuple[tuple[str, str], ...]], bool] = {}
    counts: dict[tuple[str, JudgeId, tuple[tuple[str, str], ...], datetime], dict[str, Bucket]] = {}
    for row in store.scores.buckets(query):
        key = (row.judge_name, row.judge_id, tuple(sorted(row.group.items())))
        series[key] = row.heuristic
        strata = counts.setdefault((*key, row.start), {})
        strata[row.stratum] = strata.get(row.stratum, Bucket()) + row.bucket
    cut: Counter[tuple[str, tuple[tuple[str, str], ...], datetime]] = Counter()
    for one in store.ledger.cut_off(query):
        cut[one.judge_name, tuple(sorted(one.group.items())), one.start] += one.traces
    whole = Window(query.start, query.end)
    windows = [whole] if query.step_s is None else list(tiles(whole.start, whole.end, step_s=query.step_s))
    lines = []
    for (judge_name, judge_id, group), heuristic in sorted(series.items()):
        for window in windows:
            strata = counts.get((judge_name, judge_id, group, window.start), {})
            lines.append(
                RateLine(
                    window=window,
                    judge_name=judge_name,
                    judge_id=judge_id,
                    group=dict(group),
                    heuristic=heuristic,
                    rate=pass_rate(strata, confidence=confidence),
                    over_budget=cut[judge_name, _known_of_unjudged(group), window.start],
                )
            )
    return lines


def _known_of_unjudged(group: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """A slice without what only a judged trace has."""
    return tuple(item for item in group if item[0] != "model_reported")
