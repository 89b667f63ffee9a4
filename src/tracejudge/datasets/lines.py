"""What a line of a file of traces can be: a trace with labels, another record, or something that could not be read."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime, timedelta

from tracejudge.scores import Label
from tracejudge_sdk.trace import Feedback, Trace, TracePart


@dataclass(frozen=True, slots=True, kw_only=True)
class EventTimes:
    """Event times for lines that carry none: `first` for line 1, then one `step` a line, blank lines included."""

    first: datetime
    step: timedelta

    def of_line(self, number: int) -> datetime:
        """The event time of line `number`, counted from 1. Raises OverflowError beyond the calendar."""
        return self.first + (number - 1) * self.step


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line that holds a trace, with what people said about it. `number` counts from 1, blank lines included."""

    number: int
    trace: Trace
    labels: tuple[Label, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordLine:
    """A line that holds a record of another kind: a part of a trace or a feedback."""

    number: int
    record: TracePart | Feedback


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenLine:
    """A line that could not be read: its bytes, a stable reason and the detail in words.

    Reasons are those of RecordError, and `line_too_long` (then `raw` is its start) and `damaged_gzip` (the file ends
    here; `raw` is empty).
    """

    number: int
    raw: bytes
    reason: str
    detail: str


def event_times(first: datetime, step_s: float) -> EventTimes:
    """Event times from `first`, aware, one every `step_s` >= 0 seconds. Raises ValueError for anything else."""
    if first.tzinfo is None or first.utcoffset() is None:
        raise ValueError(f"first: {first.isoformat()} has no time zone: write it as 2026-01-31T12:00:00Z")
    if not (math.isfinite(step_s) and 0.0 <= step_s <= 86_400.0 * 366):
        raise ValueError(f"step_s: {step_s!r} is not from 0 to a year of seconds")
    return EventTimes(first=first, step=timedelta(seconds=step_s))
