"""Streams of score rows for tests of alerts: one row a step, in the order in which the alert loop reads them."""

from __future__ import annotations

import random
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from tracejudge.scores import Outcome, Score
from tracejudge.testing import make_score
from tracejudge.testing.builders import START


def row(number: int, *, passed: bool | None = True, minute: float | None = None, **fields: Any) -> Score:
    """The row of trace `number`, served `minute` minutes (default `number`) after START and judged 20 s later.

    `passed` None makes it invalid.
    """
    at = START + timedelta(minutes=number if minute is None else minute)
    values: dict[str, Any] = {"event_time": at, "judged_at": at + timedelta(seconds=20)}
    if passed is None:
        values |= {"outcome": Outcome.INVALID, "score": None, "reason": "judge_error"}
    return make_score(number, **{"passed": bool(passed), **values, **fields})


def verdicts(rates: Iterable[float], *, seed: int, first: int = 0, **fields: Any) -> list[Score]:
    """One row a minute; row k passes with probability `rates[k]`."""
    rng = random.Random(seed)
    return [row(first + k, passed=rng.random() < rate, **fields) for k, rate in enumerate(rates)]


def minute(number: float) -> datetime:
    """`number` minutes after START."""
    return START + timedelta(minutes=number)
