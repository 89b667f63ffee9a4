"""Whether the alert loop of this process lives and does its work.

- `/live` is false when no sign of life came for `max_silent_s`: a round gives one at each of its steps, so that a long
  catch-up does not count as stuck.
- `/ready` is false when it is not live, or when the last round did not come to its end (the store is away).
- A heartbeat is sent only for a round that this process led and finished: standing by is no watching. None is sent
  while every channel is dead: there is nobody else who could be told.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from tracejudge.clock import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopReport:
    """One look at the alert loop."""

    live: bool
    ready: bool
    reasons: tuple[str, ...]
    leading: bool
    last_round_s_ago: float | None  # None: no round has come to its end yet


class LoopHealth:
    """Collects the signs of life of an alert loop. Thread-safe."""

    def __init__(self, clock: Clock, *, max_silent_s: float = 300.0) -> None:
        self._clock = clock
        self._max_silent_s = max_silent_s
        self._sign = self._started = clock.monotonic()
        self._round: float | None = None
        self._error: str | None = None
        self._leading = self._mute = False
        self._led_rounds = 0
        self._beaten = 0
        self._ended = False
        self._lock = threading.Lock()

    def sign(self, _step: str = "") -> None:
        """A step was passed."""
        with self._lock:
            self._sign = self._clock.monotonic()

    def started_s_ago(self) -> float:
        """How long ago this was made."""
        return self._clock.monotonic() - self._started

    def round_done(self, *, leading: bool, mute: bool = False) -> None:
        """A round came to its end; `mute`: with alerts that reach nobody, as every channel is dead."""
        with self._lock:
            self._sign = self._round = self._clock.monotonic()
            self._error = None
            self._leading, self._mute = leading, mute
            self._led_rounds += leading

    def round_failed(self, error: str) -> None:
        """A round was broken off, and the next one repeats it."""
        with self._lock:
            self._sign = self._clock.monotonic()
            self._error = error

    def ended(self) -> None:
        """The loop has stopped."""
        with self._lock:
            self._ended = True

    def withheld(self) -> str | None:
        """Why a heartbeat must not be sent now. Each round that was led is good for one."""
        with self._lock:
            if self._error is not None:
                return f"the last round was broken off: {self._error}"
            if self._mute:
                return "every channel is dead, so alerts wait and reach nobody; `tracejudge alerts channels` says why"
            if self._led_rounds == self._beaten:
                return "no round was led and finished since the last heartbeat"
            self._beaten = self._led_rounds
            return None

    def report(self) -> LoopReport:
        with self._lock:
            now = self._clock.monotonic()
            reasons: list[str] = []
            silent = now - self._sign > self._max_silent_s
            if self._ended:
                reasons.append("the alert loop has stopped")
            elif silent:
                reasons.append(f"the alert loop has given no sign of life for {self._max_silent_s:g} s")
            if self._error is not None:
                reasons.append(f"its last round was broken off: {self._error}")
            elif self._round is None:
                reasons.append("its first round is not over")
            live = not silent and not self._ended
            return LoopReport(
                live=live,
                ready=live and self._error is None and self._round is not None,
                reasons=tuple(reasons),
                leading=self._leading,
                last_round_s_ago=None if self._round is None else now - self._round,
            )
