"""A rule played over its own healthy hours again and again: how often it would fire where nothing had happened.

The rows before the fall, without marked incidents, are cut into blocks of whole days where there are at least seven,
else of four hours that keep their time of day (block bootstrap, Künsch 1989; seasons stay, and so does what depends
within a block). The rule's own detector first folds them as they were, so that a learned baseline is there, then days
drawn from them with replacement. Each alarm is false by construction; it is dismissed and the play goes on. The count
has Garwood's interval. What history never showed (a bad week, a launch) is not in it either.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Final

from tracejudge.alerts.event import SeriesKey
from tracejudge.alerts.rules.rule import Rule
from tracejudge.alerts.series.kinds import new_series
from tracejudge.alerts.series.state import Series, Turn
from tracejudge.alerts.watched_time import watched_time
from tracejudge.evidence.track_record import poisson_high, poisson_low
from tracejudge.scores import JudgeId, Outcome, Score
from tracejudge.store import Verdict

MOST_PLAYED: Final = 3_000_000
"""Rows folded at most: about a minute. Of a series with more a day, fewer days are played."""

WHOLE_DAYS: Final = 7
"""Days of history from which on a block is a day; with fewer it is four hours."""

_DAY: Final = timedelta(days=1)
_JUDGED_AFTER: Final = timedelta(seconds=20)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resampled:
    """The false alarms found by resampling.

    `promise_days` is the mean time between false alarms that this one series may have: its share of the promise made
    for all rules together, or 30 days for a rule that promises nothing. `per_promise` counts alarms in such a time.
    """

    promised: bool
    history_days: float
    days: float
    alarms: int
    promise_days: float
    per_promise: float
    low: float
    high: float


def resample(
    rule: Rule,
    key: SeriesKey,
    verdicts: Sequence[Verdict],
    *,
    alarm_hours: float,
    days: int,
    most: int = MOST_PLAYED,
    at_least: float = 1.0,
    seed: int = 0,
    told: Callable[[int], None] = lambda _: None,
) -> Resampled | None:
    """Plays `days` days of `verdicts`, which are in order of event time, or as many as `most` rows make.

    None with less than a day of history, and where `most` rows make fewer than `at_least` days.
    `alarm_hours` is the evidence at which the series fires. `told` hears of each day that was played.
    """
    history = watched_time((one.event_time, one.event_time) for one in verdicts)
    if history < _DAY:
        return None
    blocks, block = _blocks(verdicts)
    history_days = history / _DAY
    a_day = len(verdicts) / history_days
    days = min(days, int((most - len(verdicts)) / max(1.0, a_day)))
    if days < at_least:
        return None
    dice = random.Random(seed)  # noqa: S311 - a fixed choice, no secret
    series = new_series(key=key, rule=rule)
    _play(series, key, verdicts, by=timedelta(0), alarm_hours=alarm_hours)
    first = verdicts[-1].event_time.astimezone(timezone.utc).replace(hour=0, minute=0, second=0, microsecond=0) + _DAY
    alarms = 0
    for day in range(days):
        for slot in range(int(_DAY / block)):
            chosen = dice.choice(blocks[slot])
            at = first + day * _DAY + slot * block
            alarms += _play(series, key, chosen[1], by=at - chosen[0], alarm_hours=alarm_hours)
        told(day + 1)
    promise_days = alarm_hours / 24.0
    scale = promise_days / days
    return Resampled(
        promised=rule.budget is not None,
        history_days=history_days,
        days=days,
        alarms=alarms,
        promise_days=promise_days,
        per_promise=scale * alarms,
        low=scale * poisson_low(alarms),
        high=scale * poisson_high(alarms),
    )


_Block = tuple[datetime, Sequence[Verdict]]
"""Where a block begins, and its rows."""


def _blocks(verdicts: Sequence[Verdict]) -> tuple[dict[int, list[_Block]], timedelta]:
    """The blocks of history by their place in the day; those cut off at either end are left out where others do."""
    whole = (verdicts[-1].event_time - verdicts[0].event_time) / _DAY >= WHOLE_DAYS + 1
    block = _DAY if whole else timedelta(hours=4)
    width_s = int(block.total_seconds())
    rows: defaultdict[int, list[Verdict]] = defaultdict(list)
    for one in verdicts:
        rows[int(one.event_time.timestamp()) // width_s].append(one)
    first, last = min(rows), max(rows)
    if last - first - 1 >= int(_DAY / block):  # else a time of day would have none
        first, last = first + 1, last - 1
    blocks: defaultdict[int, list[_Block]] = defaultdict(list)
    for number in range(first, last + 1):  # an empty one is history, too: nobody asked
        begins = datetime.fromtimestamp(number * width_s, timezone.utc)
        blocks[number % int(_DAY / block)].append((begins, rows.get(number, [])))
    return blocks, block


def _play(series: Series, key: SeriesKey, verdicts: Iterable[Verdict], *, by: timedelta, alarm_hours: float) -> int:
    alarms = 0
    for number, one in enumerate(verdicts):
        at = one.event_time + by
        score = Score(
            environment=key.environment,
            app=key.app,
            version="",
            category="",
            trace_id=str(number),
            event_time=at,
            judge_name=key.judge_name,
            judge_id=JudgeId(key.judge_id),
            outcome=Outcome.PASSED if one.passed else Outcome.FAILED,
            score=float(one.passed),
            inclusion_probability=one.inclusion_probability,
            content_hash=one.content_hash,
            judged_at=at + _JUDGED_AFTER,
        )
        if series.fold(score, alarm_hours=alarm_hours) is Turn.FIRED:
            alarms += 1
            series.dismiss()
    return alarms
