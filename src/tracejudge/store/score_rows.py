"""What makes a score's row: which row of a key wins, which numbers may be stored, conditions on the columns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from tracejudge.scores import InvalidReason, Outcome, Score
from tracejudge.store.queries import ScoreFilter
from tracejudge.store.rates import trace_field
from tracejudge.store.rows import Cursor
from tracejudge.store.table import Where
from tracejudge.store.values import RowRefused, bound_instant, microseconds

_SETTLED_BIT: Final = 51
_LOW: Final = (1 << _SETTLED_BIT) - 1  # microseconds until the year 2041: see version_of
MAX_REVISION: Final = (1 << 12) - 1
_KEY: Final = "environment, app, event_time, trace_id"


def version_of(revision: int, settled: bool, judged_us: int) -> int:
    """revision << 52 | settled << 51 | (2**51 - 1 - judged_at in microseconds), cut at 0.

    ClickHouse keeps the row with the highest one. 51 bits of microseconds last until 2041-05; later instants count as
    equally late, and then the last row inserted wins among equals.
    """
    return revision << 52 | settled << _SETTLED_BIT | max(0, _LOW - judged_us)


def versions_of(revisions: Sequence[int], settled: Sequence[bool], judged_us: Sequence[int]) -> list[int]:
    """`version_of` each."""
    if all(settled) and not any(revisions) and max(judged_us, default=0) <= _LOW:  # the usual batch
        first = version_of(0, True, 0)
        return [first - us for us in judged_us]
    return list(map(version_of, revisions, settled, judged_us))


def row_version(score: Score) -> int:
    """The row version of a score (see `version_of`)."""
    return version_of(score.revision, score.outcome.settled, microseconds("judged_at", score.judged_at))


def sound(score: Score) -> Score:
    """The score as it may be stored: a number for a settled one, none for an invalid one."""
    try:
        outcome = Outcome(score.outcome)
    except ValueError as error:
        raise RowRefused("ill_typed", f"outcome: {score.outcome!r} is not passed, failed or invalid") from error
    number = score.score
    if not outcome.settled:
        return replace(score, outcome=outcome, score=None)
    if number is not None and (isinstance(number, bool) or not isinstance(number, int | float)):
        raise RowRefused("ill_typed", f"score: {str(number)[:80]!r} is not a number")
    if number is None or not math.isfinite(number) or not 0.0 <= number <= 1.0:
        return replace(score, outcome=Outcome.INVALID, score=None, reason=InvalidReason.OUT_OF_RANGE.value)
    return replace(score, outcome=outcome) if outcome is not score.outcome else score


def behind(cursor: Cursor | None, end: Cursor, *, inclusive: bool) -> Where:
    """Rows after `cursor`, up to and with the place `end`, or (not inclusive) up to all of the instant of `end`."""
    where = Where().add("judged_at <= {end_at:DateTime64(6, 'UTC')}", end_at=bound_instant("until", end.judged_at))
    if inclusive:
        where.add("(judged_at, trace_id) <= ({end_at:DateTime64(6, 'UTC')}, {end_id:String})", end_id=end.trace_id)
    if cursor is not None:
        where.add(
            "(judged_at, trace_id) > ({after:DateTime64(6, 'UTC')}, {after_id:String})",
            after=bound_instant("cursor", cursor.judged_at),
            after_id=cursor.trace_id,
        ).add("judged_at >= {after:DateTime64(6, 'UTC')}")
    return where


def score_conditions(where: ScoreFilter) -> Where:
    """The filter as SQL on the columns of `scores`."""
    conditions = Where()
    if where.start is not None:
        conditions.add("event_time >= {start:DateTime64(6, 'UTC')}", start=bound_instant("start", where.start))
    if where.end is not None:
        conditions.add("event_time < {end:DateTime64(6, 'UTC')}", end=bound_instant("end", where.end))
    conditions.equal("environment", where.environment).equal("app", where.app)
    of_trace = list(conditions.parts())
    for column in ("version", "category", "run_id", "outcome"):
        conditions.equal(column, getattr(where, column))
    if where.also:
        for number, (name, value) in enumerate(where.also):
            conditions.parameters[f"also_{number}"] = value
            of_trace.append(f"{trace_field(name, conditions)} = {{also_{number}:String}}")
        conditions.add(f"({_KEY}) IN (SELECT {_KEY} FROM traces FINAL WHERE {' AND '.join(of_trace)})")
    return judge_condition(conditions, where.judge)


def judge_condition(conditions: Where, judge: str | None) -> Where:
    """Adds a judge name or a JudgeId (which holds an @)."""
    return conditions.equal("judge_id" if judge is not None and "@" in judge else "judge_name", judge)
