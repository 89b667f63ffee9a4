"""Time as a value that can be handed in, so that tests move it by hand."""

from __future__ import annotations

import time
from datetime import datetime, timezone
from typing import Protocol


class Clock(Protocol):
    """The source of the present time."""

    def now(self) -> datetime:
        """The present instant, aware, UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds from an arbitrary start that never go back."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> datetime:
        return datetime.now(timezone.utc)

    def monotonic(self) -> float:
        return time.monotonic()
