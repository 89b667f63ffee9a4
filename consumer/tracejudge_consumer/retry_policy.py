"""How long is waited between two attempts at what may be away."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How long to wait between attempts: doubling from `first_s` up to `longest_s`, each between half and all of it."""

    first_s: float = 0.2
    longest_s: float = 15.0

    def delay_s(self, attempt: int, draw: float) -> float:
        """The wait after the `attempt`-th failure (from 1); `draw` in [0, 1) spreads consumers apart."""
        longest = min(self.longest_s, self.first_s * 2.0 ** min(attempt - 1, 60))
        return longest * (0.5 + 0.5 * draw)
