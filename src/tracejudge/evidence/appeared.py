"""A release, prompt, model or index that was not there before the fall, and holds nearly all of what came after it.

It has no slice beside it to be held against, so `standing_out.py` may be silent about it; yet it is what an operator
looks for first. Nothing here says that it is the cause: when it came, how much it holds, and the rates around it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from tracejudge.evidence.slicing import bucket_of
from tracejudge.store import JudgedRow
from tracejudge.windows import PassRate, pass_rate

RELEASED: Final = ("version", "prompt_version", "model", "index_version")
"""What people change on purpose, at one moment."""

_HOLDS: Final = 0.9  # of what came after it: a rollout leaves a few of the old one behind
_MOST: Final = 0.5  # of all since the start, which may be early as well
_FEWEST: Final = 5  # rows on either side
_SHORTEST_LEAD: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Appeared:
    """One value that is new. `traces` of the `of_traces` from `since_at` on have it, which is its first trace or the
    estimated start, whichever is later; `since` is its rate there, `before` that of all before both."""

    attribute: str
    value: str
    at: datetime
    since_at: datetime
    traces: int
    of_traces: int
    before: PassRate | None
    since: PassRate | None


def appeared(
    before: Sequence[JudgedRow], since: Sequence[JudgedRow], *, started: datetime, until: datetime
) -> tuple[Appeared, ...]:
    """What appeared, at most one value of each attribute; both periods in order of event time.

    The start of a fall is an estimate, often late by some of the time that it took to notice: a value may have come
    before it by as much as has passed since, and by an hour at least.
    """
    lead = max(until - started, _SHORTEST_LEAD)
    found = (_of(name, before, since, started=started, lead=lead) for name in RELEASED)
    return tuple(one for one in found if one is not None)


def _of(
    name: str, before: Sequence[JudgedRow], since: Sequence[JudgedRow], *, started: datetime, lead: timedelta
) -> Appeared | None:
    counted = Counter(value for row in since if (value := row.fields.get(name)))
    if not counted:
        return None
    value, traces = counted.most_common(1)[0]
    at = next(row.event_time for row in (*before, *since) if row.fields.get(name) == value)
    old = [row for row in before if row.event_time < at]
    after = [row for row in (*before, *since) if row.event_time >= at]
    named = sum(name in row.fields for row in old)
    if at < started - lead or traces < _FEWEST or named < max(_FEWEST, len(old) / 2):
        return None  # of long ago, too few, or traces only began to say this at all
    if traces < _MOST * len(since) or sum(row.fields.get(name) == value for row in after) < _HOLDS * len(after):
        return None
    later = [row for row in since if row.event_time >= at]
    return Appeared(
        attribute=name,
        value=value,
        at=at,
        since_at=max(at, started),
        traces=traces,
        of_traces=len(later),
        before=pass_rate({"": bucket_of(old)}),
        since=pass_rate({"": bucket_of(row for row in later if row.fields.get(name) == value)}),
    )
