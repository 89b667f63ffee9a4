"""Half-open slices of event time, in UTC: every instant falls into exactly one tile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Final

PANE_S: Final = 60
"""The smallest stored slice of time, in seconds."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True, slots=True, order=True)
class Window:
    """The instants from `start`, included, to `end`, excluded. Both aware; kept in UTC.

    Raises ValueError when either has no time zone or `end` is not after `start`.
    """

    start: datetime
    end: datetime

    def __post_init__(self) -> None:
        object.__setattr__(self, "start", _utc("start", self.start))
        object.__setattr__(self, "end", _utc("end", self.end))
        if self.end <= self.start:
            raise ValueError(f"end: {self.end.isoformat()} is not after start {self.start.isoformat()}")

    def __contains__(self, at: datetime) -> bool:
        return self.start <= at < self.end


def floor_to(at: datetime, *, step_s: float) -> datetime:
    """The last instant at or before `at` that is a whole number of steps from 1970-01-01 00:00 UTC."""
    step = _step(step_s)
    return _EPOCH + (_utc("at", at) - _EPOCH) // step * step


def tiles(start: datetime, end: datetime, *, step_s: float) -> Iterator[Window]:
    """[start, end) cut into windows of `step_s` seconds, in order, without gap or overlap; the last may be shorter.

    Nothing when `end` is not after `start`. Tiles begin at `start`: floor it first where they should be aligned.
    """
    step = _step(step_s)
    at, end = _utc("start", start), _utc("end", end)
    while at < end:
        following = min(at + step, end)
        yield Window(at, following)
        at = following


def _step(step_s: float) -> timedelta:
    # A microsecond is the resolution of datetime: a smaller step would never advance.
    if not step_s >= 1e-6:
        raise ValueError(f"step_s: {step_s!r} is below the smallest step, 0.000001 seconds")
    return timedelta(seconds=step_s)


def _utc(name: str, at: datetime) -> datetime:
    if at.tzinfo is None or at.utcoffset() is None:
        raise ValueError(f"{name}: {at.isoformat()} has no time zone, for example 2026-01-31T12:00:00Z")
    return at.astimezone(timezone.utc)
