"""A release, prompt, model or index that was not there before the fall.

One that holds nearly all of what came after it has no slice beside it to be held against, and a canary on a part of the
traffic has too few traces, when an alert fires, to stand out among all the slices that are looked at. So
`standing_out.py` may be silent about either; yet it is what an operator looks for first. Nothing here says that it is
the cause: when it came, how much it holds, and the rates around it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from tracejudge.evidence.slicing import bucket_of
from tracejudge.store import JudgedRow
from tracejudge.windows import PassRate, enough, pass_rate

RELEASED: Final = ("version", "prompt_version", "model", "index_version")
"""What people change on purpose, at one moment."""

_HOLDS: Final = 0.9  # of what came after it: a rollout leaves a few of the old one behind
_MOST: Final = 0.5  # of all since the start, which may be early as well
_CANARY: Final = 0.2  # of all since the start: enough to have moved the whole
_FEWEST: Final = 5  # rows on either side
_ENOUGH: Final = 20.0  # effective traces of it before the fall, to say that it was healthy then
_SHORTEST_LEAD: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Appeared:
    """One value that is new. `traces` of the `of_traces` from `since_at` on have it, which is its first trace or the
    estimated start, whichever is later; `since` is its rate there, `before` that of all before both. `beside` is, of a
    canary, the rate of the others there."""

    attribute: str
    value: str
    at: datetime
    since_at: datetime
    traces: int
    of_traces: int
    before: PassRate | None
    since: PassRate | None
    beside: PassRate | None = None
    well_until: PassRate | None = None
    """Its rate from its first trace to the estimated start, where that is nearer to what was before than to what came:
    it was there and healthy, so that the fall began with something else."""


def appeared(
    before: Sequence[JudgedRow], since: Sequence[JudgedRow], *, started: datetime, until: datetime
) -> tuple[Appeared, ...]:
    """What appeared, at most one value of each attribute; both periods in order of event time. A value beside which
    others go on is one only where it passes less often than they do and than what was before.

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
    for value, traces in counted.most_common():
        if traces < max(_FEWEST, _CANARY * len(since)):
            return None
        one = _value(name, value, before, since, started=started, lead=lead)
        if one is not None:
            return one
    return None


def _value(
    name: str,
    value: str,
    before: Sequence[JudgedRow],
    since: Sequence[JudgedRow],
    *,
    started: datetime,
    lead: timedelta,
) -> Appeared | None:
    at = next(row.event_time for row in (*before, *since) if row.fields.get(name) == value)
    old = [row for row in before if row.event_time < at]
    named = sum(name in row.fields for row in old)
    if at < started - lead or named < max(_FEWEST, len(old) / 2):
        return None  # of long ago, or traces only began to say this at all
    after = [row for row in (*before, *since) if row.event_time >= at]
    later = [row for row in since if row.event_time >= at]
    own = [row for row in later if row.fields.get(name) == value]
    found = Appeared(
        attribute=name,
        value=value,
        at=at,
        since_at=max(at, started),
        traces=len(own),
        of_traces=len(later),
        before=pass_rate({"": bucket_of(old)}),
        since=pass_rate({"": bucket_of(own)}),
    )
    earlier = pass_rate({"": bucket_of(row for row in before if row.fields.get(name) == value)})
    if _went_well(earlier, found):
        found = replace(found, well_until=earlier)
    holds = sum(row.fields.get(name) == value for row in after)
    if len(own) >= _MOST * len(since) and holds >= _HOLDS * len(after):
        return found
    beside = pass_rate({"": bucket_of(row for row in later if row.fields.get(name) != value)})
    worse = _below(found.since, found.before) and _below(found.since, beside)
    return replace(found, beside=beside) if worse else None


def _went_well(earlier: PassRate | None, found: Appeared) -> bool:
    if not enough(earlier, _ENOUGH) or not _below(found.since, found.before):
        return False
    rates = [rate.estimate for rate in (earlier, found.before, found.since) if rate is not None]
    own, before, since = (rate if rate is not None else 0.0 for rate in rates)
    return own > (before + since) / 2.0


def _below(one: PassRate | None, other: PassRate | None) -> bool:
    if one is None or other is None or one.estimate is None or other.estimate is None:
        return False
    return one.estimate < other.estimate
