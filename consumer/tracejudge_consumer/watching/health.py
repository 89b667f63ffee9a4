"""Whether this process is live, ready and making progress; the HTTP status server and the heartbeat both ask here.

The consumer:

- `/live` is false when a restart may help: its loop has not turned for `max_turn_s`, it has stopped, or reading has
  stalled (records wait, nothing is paused, and none was handed out for `PipelineLimits.stall_after_s`).
- `/ready` is false when it is not live, has no partition (others of its group hold them all), or the store or the queue
  does not answer.
- A heartbeat is withheld when it is not ready, or when records are in flight and none was finished for
  `max_unfinished_s`: whatever the reason, no verdicts come.

A judge that is gone or down makes none of them false by itself (its traces wait), but it is said.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tracejudge.clock import Clock

if TYPE_CHECKING:
    from tracejudge.judging.calls.circuit import Availability


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthReport:
    """The state of the process at one moment. `reasons` says in words what keeps it from being live or ready, or is
    worth knowing."""

    live: bool
    ready: bool
    reasons: tuple[str, ...]
    last_turn_s_ago: float | None  # None: the loop has not turned yet
    unfinished_s: float  # since a record was last finished, while some are in flight
    partitions: int
    store_answers: bool
    queue_answers: bool
    judges_gone: tuple[str, ...]


class Health:
    """Collects what a consumer's threads report about their progress. Thread-safe."""

    def __init__(self, clock: Clock, *, max_turn_s: float = 60.0, max_unfinished_s: float = 900.0) -> None:
        """`max_turn_s`: how long one turn of the intake loop may take before the process counts as stuck;
        `max_unfinished_s`: how long records may be in flight without one being finished before heartbeats stop."""
        self._clock = clock
        self._max_turn_s = max_turn_s
        self._max_unfinished_s = max_unfinished_s
        self._started = clock.monotonic()
        self._turned: float | None = None
        self._partitions = 0
        self._store_error: str | None = None
        self._queue_answers = True
        self._stall: str | None = None
        self._unfinished_s = 0.0
        self._judges_gone: frozenset[str] = frozenset()
        self._availability: Callable[[], Mapping[str, Availability]] = dict
        self._ended = False
        self._lock = threading.Lock()

    def turned(self, *, partitions: int) -> None:
        """Notes a turn of the intake loop."""
        with self._lock:
            self._turned = self._clock.monotonic()
            self._partitions = partitions

    def store_answered(self, error: str | None = None) -> None:
        """Notes that the last call to the store was answered, or failed with `error`."""
        with self._lock:
            self._store_error = error

    def reading(self, *, queue_answers: bool, stall: str | None, unfinished_s: float) -> None:
        """Takes what `flow.reading.ReadingWatch` found; `stall` says in words that reading has stalled."""
        with self._lock:
            self._queue_answers = queue_answers
            self._stall = stall
            self._unfinished_s = unfinished_s

    def judges_gone(self, names: Collection[str]) -> None:
        """Sets which judges are gone at present."""
        with self._lock:
            self._judges_gone = frozenset(names)

    def watch_circuits(self, availability: Callable[[], Mapping[str, Availability]]) -> None:
        """Includes every judge that is down in each report."""
        self._availability = availability

    def ended(self) -> None:
        """Notes that the pipeline has stopped."""
        with self._lock:
            self._ended = True

    def withheld(self) -> str | None:
        """Why no heartbeat may be sent now; None when the consumer makes progress."""
        report = self.report()
        if not report.ready:
            return "; ".join(report.reasons) or "not ready"
        if report.unfinished_s > self._max_unfinished_s:
            return f"records are in flight and none was finished for {report.unfinished_s:.0f} s"
        return None

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
            if self._stall is not None:
                reasons.append(self._stall)
            if not self._partitions:
                reasons.append("no partition is assigned")
            if self._store_error is not None:
                reasons.append(f"the store does not answer: {self._store_error}")
            if not self._queue_answers:
                reasons.append("the queue does not answer")
            live = not stuck and not self._ended and self._stall is None
            ready = (
                live and ago is not None and self._partitions > 0 and self._store_error is None and self._queue_answers
            )
            reasons += [f"judge {name!r} is gone" for name in sorted(self._judges_gone)]
            reasons += [
                f"judge {name!r} is down ({judge.kind}), its traces wait for it"
                for name, judge in sorted(self._availability().items())
                if judge.state == "down"
            ]
            return HealthReport(
                live=live,
                ready=ready,
                reasons=tuple(reasons),
                last_turn_s_ago=ago,
                unfinished_s=self._unfinished_s,
                partitions=self._partitions,
                store_answers=self._store_error is None,
                queue_answers=self._queue_answers,
                judges_gone=tuple(sorted(self._judges_gone)),
            )
