"""Pass rates per window and slice, read from stored scores: the one way in which every command gets them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from tracejudge.alerts.series.health import MIN_ROWS, UNHEALTHY_ABOVE
from tracejudge.comparing.paired import Estimate
from tracejudge.comparing.unpaired import difference
from tracejudge.scores import Bucket, JudgeId
from tracejudge.store import RateQuery, Store, TraceFilter
from tracejudge.windows import PassRate, Window, pass_rate, tiles

MOST_TRACES_READ: Final = 200_000
"""In a window, up to which views read every row unless told otherwise: about a second's work."""

BY_MINUTE_IN_WORDS: Final = (
    "These figures come from per-minute sums, not from every row: an answer that occurs many times counts each time "
    "(otherwise once an hour), and known stratum sizes are not used. Where answers repeat, the intervals are narrower "
    "than they should be."
)
"""The note beside figures that were not read from every row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLine:
    """One judge's pass rate in one window and slice; `rate` is None when nothing was judged there."""

    window: Window
    judge_name: str
    judge_id: JudgeId
    group: Mapping[str, str]
    heuristic: bool
    rate: PassRate | None
    trend: Estimate | None = None
    """How much higher the rate is than in the window before, with its interval; None when either has no rate."""
    stratified: bool = False
    """True when the rate is put together from strata of known size, and not by weights alone."""
    over_budget: int = 0
    """Traces that a hard cap kept from the judge. They are no random choice: where there are any, coverage is low, and
    the rate claims nothing about them."""

    @property
    def judge_failed(self) -> bool:
        """Whether the judge failed on so many traces that its alerts say "coverage is low": they too are seldom a
        random choice."""
        verdicts = 0 if self.rate is None else self.rate.judged + self.rate.invalid
        return self.rate is not None and verdicts >= MIN_ROWS and self.rate.invalid > UNHEALTHY_ABOVE * verdicts


def read_rates(store: Store, query: RateQuery, *, exact: bool = False) -> list[RateLine]:
    """Pass rates with 95 % intervals: a line for each (JudgeId, slice) and window, in order of judge, slice and time.

    A window without scores of a judge that has some elsewhere in the query has a line with `rate` None: no data is not
    zero. Scores of different JudgeIds never share a line.

    `exact` reads every row of scores and ledger in the window, instead of sums by the minute: equal content within an
    hour is one observation, and the rate is stratified where the size of every stratum is known (what the judge did
    not judge was left out by the hash alone, and one JudgeId judged all of the window).
    """
    series: dict[tuple[str, JudgeId, tuple[tuple[str, str], ...]], bool] = {}
    counts: dict[tuple[str, JudgeId, tuple[tuple[str, str], ...], datetime], dict[str, Bucket]] = {}
    for row in store.scores.buckets(query, one_per_content=exact):
        key = (row.judge_name, row.judge_id, tuple(sorted(row.group.items())))
        series[key] = row.heuristic or series.get(key, False)
        strata = counts.setdefault((*key, row.start), {})
        strata[row.stratum] = strata.get(row.stratum, Bucket()) + row.bucket
    cut: Counter[tuple[str, tuple[tuple[str, str], ...], datetime]] = Counter()
    for one in store.ledger.cut_off(query):
        cut[one.judge_name, tuple(sorted(one.group.items())), one.start] += one.traces
    sizes = _known_sizes(store, query) if exact else {}
    judge_ids: Counter[tuple[str, tuple[tuple[str, str], ...], datetime]] = Counter(
        (name, group, start) for name, _, group, start in counts
    )
    whole = Window(query.start, query.end)
    windows = [whole] if query.step_s is None else list(tiles(whole.start, whole.end, step_s=query.step_s))
    lines = []
    for (judge_name, judge_id, group), heuristic in sorted(series.items()):
        before: PassRate | None = None
        for window in windows:
            strata = counts.get((judge_name, judge_id, group, window.start), {})
            place = (judge_name, group, window.start)
            known = sizes.get(place) if judge_ids[place] == 1 else None
            rate = pass_rate(strata, traces_by_stratum=known)
            lines.append(
                RateLine(
                    window=window,
                    judge_name=judge_name,
                    judge_id=judge_id,
                    group=dict(group),
                    heuristic=heuristic,
                    rate=rate,
                    stratified=known is not None and len(known) > 1 and known.keys() == strata.keys(),
                    trend=difference(rate, before),
                    over_budget=cut[judge_name, _known_of_unjudged(group), window.start],
                )
            )
            before = rate
    return lines


def small_enough(store: Store, query: RateQuery) -> bool:
    """Whether the query's window and slice hold few enough traces to read every row for a person who waits."""
    return store.traces.count(traces_of(query)) <= MOST_TRACES_READ


def traces_of(query: RateQuery) -> TraceFilter:
    """The traces that the query's window and slice hold."""
    return TraceFilter(
        start=query.start,
        end=query.end,
        environment=query.environment,
        app=query.app,
        version=query.version,
        category=query.category,
        also=tuple(query.also.items()),
    )


def unseen_fields(store: Store, query: RateQuery) -> list[str]:
    """A sentence for each condition of the query that no trace in its time and slice meets: maybe a typing error."""
    return [
        f"no trace in this time range has {name} = {value!r}"
        for name, value in query.also.items()
        if not store.traces.count(traces_of(replace(query, also={name: value})))
    ]


def _known_sizes(
    store: Store, query: RateQuery
) -> dict[tuple[str, tuple[tuple[str, str], ...], datetime], dict[str, float]]:
    """The sizes of strata by judge, slice and window, where all of them are known."""
    found: dict[tuple[str, tuple[tuple[str, str], ...], datetime], dict[str, float]] = {}
    unknown = set()
    for one in store.scores.strata_sizes(query) or ():
        place = (one.judge_name, tuple(sorted(one.group.items())), one.start)
        found.setdefault(place, {})[one.stratum] = float(one.traces)
        if one.others:
            unknown.add(place)
    return {place: sizes for place, sizes in found.items() if place not in unknown}


def _known_of_unjudged(group: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """A slice without what the ledger does not know."""
    return tuple(item for item in group if item[0] != "model_reported")
