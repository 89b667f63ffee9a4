"""A clock that stands still until it is moved."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone


class ManualClock:
    """Starts at `start` (default 2026-01-01 00:00 UTC) and moves only by `advance`."""

    def __init__(self, start: datetime | None = None) -> None:
        self._start = start or datetime(2026, 1, 1, tzinfo=timezone.utc)
        if self._start.tzinfo is None:
            raise ValueError("start: needs a time zone")
        self._elapsed_s = 0.0

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._elapsed_s)

    def monotonic(self) -> float:
        return self._elapsed_s

    def advance(self, seconds: float) -> None:
        """Moves the present forward by `seconds` >= 0."""
        if seconds < 0:
            raise ValueError(f"seconds: {seconds!r} is negative; a clock does not go back")
        self._elapsed_s += seconds
