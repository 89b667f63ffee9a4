"""Failed traces of a series that are remembered as examples of a fall: a bounded number, the latest ones."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

KEPT: Final = 32
"""The rows of a fall that is told soon are among them; of a long one the evidence page finds the worst in the store."""


class Failure(NamedTuple):
    """A failed trace. `score` is that of a verdict; of what is counted without one, 0."""

    at: datetime
    score: float
    trace_id: str


class Examples:
    """The last failures of a series."""

    __slots__ = ("_failures",)

    def __init__(self, failures: Iterable[Failure] = ()) -> None:
        self._failures: deque[Failure] = deque(failures, maxlen=KEPT)

    def add(self, *, at: datetime, score: float | None, trace_id: str) -> None:
        """Remembers a failure, and forgets the oldest when there are too many."""
        self._failures.append(Failure(at, 0.0 if score is None else score, trace_id))

    def worst_since(self, at: datetime, *, limit: int = 5) -> tuple[str, ...]:
        """Trace ids of remembered failures since `at`, lowest score first, then latest."""
        found = [failure for failure in self._failures if failure.at >= at]
        found.sort(key=lambda failure: (failure.score, -failure.at.timestamp(), failure.trace_id))
        return tuple(failure.trace_id for failure in found[:limit])

    def to_state(self) -> list[list[Any]]:
        """JSON values; `from_state` continues exactly."""
        return [[failure.at.isoformat(), failure.score, failure.trace_id] for failure in self._failures]

    @classmethod
    def from_state(cls, state: Sequence[Sequence[Any]]) -> Examples:
        return cls(Failure(datetime.fromisoformat(at), score, trace_id) for at, score, trace_id in state)
