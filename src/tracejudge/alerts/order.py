"""The order in which rows are folded: in steps of half a minute of judging time, and within a step by event time.

Rows are read in the order in which they were judged. A consumer that catches up reads one partition after another, and
slow judgements are overtaken by others, so that rows from before a fall come among those after it and hide it. Within a
step, which at a hundred times real time is almost an hour of traffic, rows are sorted by event time. The order does not
look at verdicts, so bets stay fixed before the row is seen; and it does not depend on how rows are paged, so the same
rows give the same events.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta, timezone
from typing import Final

from tracejudge.scores import Score

STEP_S: Final = 30
"""Length of a step in seconds; an alarm may come this much later because of it."""


def step_of(judged_at: datetime, *, step_s: int = STEP_S) -> datetime:
    """The beginning of the step that contains the instant; the instant itself where `step_s` is 0."""
    if step_s == 0:
        return judged_at
    seconds = int(judged_at.timestamp())
    return datetime.fromtimestamp(seconds - seconds % step_s, timezone.utc)


def in_order(rows: Iterable[Score], *, step_s: int = STEP_S) -> Iterator[Score]:
    """Sorts rows that come in the order of (judged_at, trace_id) for folding; holds one step of them in memory."""
    step, end = None, None
    held: list[Score] = []
    for row in rows:
        judged_at = row.judged_at
        if step is None or end is None or not step <= judged_at < end:
            its = step_of(judged_at, step_s=step_s)
            if its != step:
                yield from sorted(held, key=_by_event_time)
                held, step, end = [], its, its + timedelta(seconds=step_s)
        held.append(row)
    yield from sorted(held, key=_by_event_time)


def _by_event_time(row: Score) -> tuple[datetime, datetime, str]:
    return (min(row.event_time, row.judged_at), row.judged_at, row.trace_id)
