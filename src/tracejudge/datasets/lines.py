"""Traces from a file of one JSON object a line, plain or gzip: what could be read, and what could not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from tracejudge.scores import Label
from tracejudge_sdk.trace import Feedback, Trace, TracePart


@dataclass(frozen=True, slots=True, kw_only=True)
class EventTimes:
    """Event times for lines that carry none: `first` for line 1, then one `step` a line."""

    first: datetime
    step: timedelta

    def of_line(self, number: int) -> datetime:
        """The event time of line `number`, counted from 1."""
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
    """A line that could not be read: its bytes, a stable reason (as of RecordError) and the detail in words."""

    number: int
    raw: bytes
    reason: str
    detail: str


def event_times(first: datetime, step_s: float) -> EventTimes:
    """Event times from `first`, aware, one every `step_s` seconds."""
    return EventTimes(first=first, step=timedelta(seconds=step_s))


def read_lines(
    path: Path | str, *, app: str | None = None, event_time: EventTimes | None = None
) -> Iterator[Line | RecordLine | BrokenLine]:
    """What the lines of the file hold, in order, in constant memory."""
    raise NotImplementedError
