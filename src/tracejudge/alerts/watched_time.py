"""For how long verdicts were watched: the time that false alarms are counted over."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

LONGEST_GAP: Final = timedelta(days=30)
"""Without a row; a longer one is no time in which a rule could have been wrong."""


def watched_time(stretches: Iterable[tuple[datetime, datetime]]) -> timedelta:
    """The event time from the first row to the last, without the gaps of more than 30 days that no row lies in.

    `stretches` are the first and the last event time of some rows each, in any order; within one there is no such gap.
    So a few rows with a clock of 1970 add what they span themselves, and not the decades up to the others.

    >>> at = [datetime(2026, 1, 1), datetime(2026, 1, 20), datetime(2026, 3, 1), datetime(2026, 3, 2)]
    >>> watched_time((one, one) for one in at).days
    20
    """
    total = timedelta()
    end: datetime | None = None
    for first, last in sorted(stretches):
        if end is None or first - end > LONGEST_GAP:
            total += last - first
        else:
            total += max(timedelta(), last - end)
        end = last if end is None else max(end, last)
    return total
