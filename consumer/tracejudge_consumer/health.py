"""Whether this process lives and is ready, as values: who asks over HTTP gets the same answers.

Live means that the intake loop turns: a supervisor restarts what is not. Ready means that work is being done:
partitions are assigned and the store answers. A judge that is gone makes neither false (its traces wait in the store),
but it is said.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from dataclasses import dataclass

from tracejudge.clock import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthReport:
    """One look at the process. `reasons` says in words what keeps it from being live or ready, or is worth knowing."""

    live: bool
    ready: bool
    reasons: tuple[str, ...]
    last_turn_s_ago: float | None  # None: the loop has not turned yet
    partitions: int
    store_answers: bool
    judges_gone: tuple[str, ...]


class Health:
    """Collects the signs of life. Thread-safe."""

    def __init__(self, clock: Clock, *, max_turn_s: float = 60.0) -> None:
        """`max_turn_s`: how long one turn of the intake loop may take before the process counts as stuck."""
        self._clock = clock
        self._max_turn_s = max_turn_s
        self._started = clock.monotonic()
        self._turned: float | None = None
        self._partitions = 0
        self._store_error: str | None = None
        self._judges_gone: frozenset[str] = frozenset()
        self._ended = False
        self._lock = threading.Lock()

    def turned(self, *, partitions: int) -> None:
        """The intake loop came round."""
        with self._lock:
            self._turned = self._clock.monotonic()
            self._partitions = partitions

    def store_answered(self, error: str | None = None) -> None:
        """The last call to the store came back, or failed with `error`."""
        with self._lock:
            self._store_error = error

    def judges_gone(self, names: Collection[str]) -> None:
        """These judges answer nobody at present."""
        with self._lock:
            self._judges_gone = frozenset(names)

    def ended(self) -> None:
        """The pipeline has stopped."""
        with self._lock:
            self._ended = True

    def report(self) -> HealthReport:
        with self._lock:
            now = self._clock.monotonic()
            ago = None if self._turned is None else now - self._turned
            reasons: list[str] = []
            stuck = (now - self._started if ago is None else ago) > self._max_turn_s
            if self._ended:
                reasons.append("the pipeline has stopped")
            elif stuck:
                reasons.append(f"the intake loop has not turned for {self._max_turn_s:g} s")
            if not self._partitions:
                reasons.append("no partition is assigned")
            if self._store_error is not None:
                reasons.append(f"the store does not answer: {self._store_error}")
            live = not stuck and not self._ended
            ready = live and ago is not None and self._partitions > 0 and self._store_error is None
            reasons += [f"judge {name!r} is gone" for name in sorted(self._judges_gone)]
            return HealthReport(
                live=live,
                ready=ready,
                reasons=tuple(reasons),
                last_turn_s_ago=ago,
                partitions=self._partitions,
                store_answers=self._store_error is None,
                judges_gone=tuple(sorted(self._judges_gone)),
            )
