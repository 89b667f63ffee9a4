"""How far event time is believed complete."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from tracejudge.quick import made_quickly

MAX_AHEAD: Final = timedelta(minutes=10)
"""A trace further in the future of its own arrival than this has a wrong clock and moves nothing."""


@made_quickly
@dataclass(frozen=True, slots=True)
class Watermark:
    """The latest believable event time seen so far; None before the first."""

    at: datetime | None = None

    def seen(self, event_time: datetime, *, arrived_at: datetime) -> Watermark:
        """The watermark after a trace of `event_time` arrived at `arrived_at`. Never goes back.

        A trace more than ten minutes ahead of its arrival leaves it where it is: one broken clock would otherwise
        close windows that are still filling. Both instants are aware.
        """
        if event_time - arrived_at > MAX_AHEAD or (self.at is not None and event_time <= self.at):
            return self
        return Watermark(event_time)

    def advance_s(self, earlier: Watermark) -> float:
        """Seconds of event time between `earlier` and this one; 0 where either has seen nothing."""
        if self.at is None or earlier.at is None:
            return 0.0
        return max(0.0, (self.at - earlier.at).total_seconds())

    def closed(self, end: datetime, *, lateness_s: float = 0.0) -> bool:
        """True when a window ending at `end` is believed complete, waiting `lateness_s` for the late."""
        return self.at is not None and self.at >= end + timedelta(seconds=lateness_s)
