"""Scores that are stored and not folded yet: they rest for `settle_s`, and until their step is whole."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from tracejudge.alerts.order import step_of
from tracejudge.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Resting:
    """Number of resting live scores, and the instant from which on a tick folds all of them."""

    scores: int
    all_count_at: datetime


def resting(store: Store, *, folded: datetime, settle: timedelta, step_s: int) -> Resting | None:
    """The scores judged after `folded`, the instant up to which the last tick read; None where there are none."""
    count, last = store.scores.judged_after(folded)
    if last is None:
        return None
    begin = step_of(last, step_s=step_s)
    whole = begin if begin == last else begin + timedelta(seconds=step_s)
    return Resting(scores=count, all_count_at=whole + settle)
