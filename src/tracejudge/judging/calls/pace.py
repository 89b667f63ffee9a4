"""When the next call may begin, where an endpoint allows so many requests or tokens a minute.

The generic cell rate algorithm (ITU-T I.371): a call of `n` units moves the theoretical arrival time on by n / rate; it
waits until that time is no further ahead than the burst that is allowed.
"""

from __future__ import annotations

from typing import Final

BURST_S: Final = 3.0
"""What a still endpoint takes at once: this many seconds' worth."""


class Pace:
    """One rate, in units a minute. Not for several threads at once; the limiter holds the lock."""

    def __init__(self, per_min: float) -> None:
        self._s_per_unit = 60.0 / per_min
        self._arrival = float("-inf")

    def wait_s(self, now: float) -> float:
        """Seconds until something may be taken. `now`: seconds that never go back."""
        return max(0.0, self._arrival - now - BURST_S)

    def take(self, units: float, now: float) -> None:
        """Takes `units` now."""
        self._arrival = max(self._arrival, now) + units * self._s_per_unit

    def correct(self, units: float) -> None:
        """Adds what was taken too little (or, negative, too much)."""
        self._arrival += units * self._s_per_unit
