"""What is judged and does not count yet: scores rest before the alert loop folds them, until their step is whole."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from tracejudge.alerts.order import step_of
from tracejudge.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Resting:
    """So many live scores, of which the last counts in a round from `all_count_at` on."""

    scores: int
    all_count_at: datetime


def resting(store: Store, *, folded: datetime, settle: timedelta, step_s: int) -> Resting | None:
    """The scores judged after `folded`, up to which the last round read; None where there are none."""
    count, last = store.scores.judged_after(folded)
    if last is None:
        return None
    begin = step_of(last, step_s=step_s)
    whole = begin if begin == last else begin + timedelta(seconds=step_s)
    return Resting(scores=count, all_count_at=whole + settle)
