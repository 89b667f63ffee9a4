"""In which order rows are folded: by the time they were judged in steps of half a minute, and within one by event time.

Rows are read in the order in which they were judged. A consumer that catches up takes one partition after another, and
slow judges overtake each other: rows from before a fall then come in among those after it and hide it. Within half a
minute of judging time, which at a hundred times real time is almost an hour of traffic, they are put in order again.
The order looks at no verdict, so bets stay fixed before the row is seen; and it does not depend on how rows are paged,
so the same rows give the same events.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta, timezone
from typing import Final

from tracejudge.scores import Score

STEP_S: Final = 30
"""Seconds; how much later an alarm may come for it."""


def step_of(judged_at: datetime, *, step_s: int = STEP_S) -> datetime:
    """The beginning of the step that the instant lies in; without a length every instant is a step of its own."""
    if step_s == 0:
        return judged_at
    seconds = int(judged_at.timestamp())
    return datetime.fromtimestamp(seconds - seconds % step_s, timezone.utc)


def in_order(rows: Iterable[Score], *, step_s: int = STEP_S) -> Iterator[Score]:
    """Rows that come in the order of (judged_at, trace_id), as they are to be folded; memory is that of one step."""
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
