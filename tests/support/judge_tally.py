"""What a judge server has seen so far: counts and the last requests, readable from any thread."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tests.support.judge_reply import JudgeRequest


@dataclass(frozen=True)
class JudgeStats:
    """The counts at one moment."""

    calls: int
    """Chat completions received, refused ones included."""
    calls_by_prompt: Mapping[str, int]
    """By `prompt_hash`; only calls that reached the script count."""
    in_flight: int
    in_flight_max: int
    statuses: Mapping[int, int]
    """Answers by HTTP status."""
    dropped: int
    """Connections closed by a scripted drop."""
    abandoned: int
    """Calls whose client went away first."""

    def as_dict(self) -> dict[str, Any]:
        """What `/stats` answers; JSON turns the statuses into strings."""
        return asdict(self)


@dataclass(frozen=True)
class JudgeLoad:
    """How busy the server has been since it began, for whoever measures over a stretch of time."""

    at_s: float
    """When, by the server's monotonic clock."""
    calls: int
    in_flight: int
    busy_s: float
    """Seconds that calls were in flight, all added up: over a second of 50 busy slots it grows by 50."""


class Tally:
    """The running counts behind JudgeStats."""

    def __init__(self, *, keep_requests: int) -> None:
        self._changed = threading.Condition()
        self._requests: deque[JudgeRequest] = deque(maxlen=keep_requests)
        self._by_prompt: Counter[str] = Counter()
        self._statuses: Counter[int] = Counter()
        self._calls = self._in_flight = self._in_flight_max = self._dropped = self._abandoned = 0
        self._busy_s, self._busy_at = 0.0, time.monotonic()

    def enter(self) -> int:
        """A call came in; returns how many are in flight with it."""
        with self._changed:
            self._add_busy()
            self._calls += 1
            self._in_flight += 1
            self._in_flight_max = max(self._in_flight_max, self._in_flight)
            self._changed.notify_all()
            return self._in_flight

    def leave(self) -> None:
        with self._changed:
            self._add_busy()
            self._in_flight -= 1
            self._changed.notify_all()

    def attempt(self, prompt: str) -> int:
        """The number of this attempt, counted from 1."""
        with self._changed:
            self._by_prompt[prompt] += 1
            return self._by_prompt[prompt]

    def record(self, request: JudgeRequest) -> None:
        with self._changed:
            self._requests.append(request)
            self._changed.notify_all()

    def answered(self, status: int) -> None:
        with self._changed:
            self._statuses[status] += 1
            self._changed.notify_all()

    def dropped(self) -> None:
        with self._changed:
            self._dropped += 1
            self._changed.notify_all()

    def abandoned(self) -> None:
        with self._changed:
            self._abandoned += 1
            self._changed.notify_all()

    def requests(self) -> list[JudgeRequest]:
        """The last requests, oldest first."""
        with self._changed:
            return list(self._requests)

    def stats(self) -> JudgeStats:
        with self._changed:
            return self._stats()

    def load(self) -> JudgeLoad:
        with self._changed:
            self._add_busy()
            return JudgeLoad(at_s=self._busy_at, calls=self._calls, in_flight=self._in_flight, busy_s=self._busy_s)

    def _add_busy(self) -> None:
        now = time.monotonic()
        self._busy_s += self._in_flight * (now - self._busy_at)
        self._busy_at = now

    def wait_for(self, reached: Callable[[JudgeStats], bool], timeout_s: float) -> JudgeStats:
        """Blocks until the counts satisfy `reached`; raises TimeoutError with the counts."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while not reached(stats := self._stats()):
                left = deadline - time.monotonic()
                if left <= 0 or not self._changed.wait(left):
                    raise TimeoutError(f"not reached within {timeout_s:g} s: {stats}")
            return stats

    def reset(self) -> None:
        """Forget everything but what is in flight."""
        with self._changed:
            self._requests.clear()
            self._by_prompt.clear()
            self._statuses.clear()
            self._calls = self._dropped = self._abandoned = 0
            self._in_flight_max = self._in_flight

    def _stats(self) -> JudgeStats:
        return JudgeStats(
            calls=self._calls,
            calls_by_prompt=dict(self._by_prompt),
            in_flight=self._in_flight,
            in_flight_max=self._in_flight_max,
            statuses=dict(self._statuses),
            dropped=self._dropped,
            abandoned=self._abandoned,
        )
