"""What the store is asked: which traces, scores, rates and dead letters, as frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from tracejudge.scores import LIVE_RUN
from tracejudge.store.rows import DeadLetterState


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterFilter:
    """Which dead letters: read in [since, until), and whatever else is not None. `letter_ids` empty: any."""

    since: datetime | None = None
    until: datetime | None = None
    source: str | None = None
    reason: str | None = None
    state: DeadLetterState | None = "open"
    letter_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """A random choice that is the same every time: those whose hash with `seed` is at most `at_most` (64 bits)."""

    seed: int
    at_most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceFilter:
    """Which traces: event time in [start, end), and whatever else is not None. Defaults choose all."""

    start: datetime | None = None
    end: datetime | None = None
    environment: str | None = None
    app: str | None = None
    version: str | None = None
    category: str | None = None
    user_id: str | None = None
    session_id: str | None = None
    status: Literal["ok", "error", "incomplete"] | None = None
    trace_ids: tuple[str, ...] = ()  # empty: any
    contains: str | None = None  # in query or response, case-insensitive
    also: tuple[tuple[str, str], ...] = ()  # further fields (TRACE_FIELDS, "tags.NAME") and what they must be
    draw: Draw | None = None

    def __post_init__(self) -> None:
        if unknown := [name for name, _ in self.also if not is_trace_field(name)]:
            known = ", ".join(TRACE_FIELDS)
            raise ValueError(f"also: {', '.join(map(repr, unknown))} not among {known} and tags.NAME")


GROUP_FIELDS = ("environment", "app", "version", "category", "model_reported", "run_id")
"""Fields by which `scores.buckets` may slice."""

TRACE_FIELDS = ("model", "prompt_version", "index_version", "language", "status")
"""Further fields, which stand in the trace alone, as every `tags.NAME` does: slicing by one reads the traces too."""


def is_trace_field(name: str) -> bool:
    """True for what only the trace knows."""
    return name in TRACE_FIELDS or (name.startswith("tags.") and len(name) > len("tags."))


@dataclass(frozen=True, slots=True, kw_only=True)
class RateQuery:
    """A query for rates: which live scores to count, and how to slice them. Event time in [start, end); None means any.

    `step_s` None gives one pane for the whole window. `judge` is a name (read by the JudgeId that was live at each
    trace's event time, where adoptions are stored) or a JudgeId (`name@hash`: that one only). Raises ValueError for
    naive instants and unknown slices.
    """

    start: datetime
    end: datetime
    step_s: int | None = None
    environment: str | None = "production"
    app: str | None = None
    judge: str | None = None
    version: str | None = None
    category: str | None = None
    run_id: str = LIVE_RUN
    group_by: tuple[str, ...] = ()  # of GROUP_FIELDS, TRACE_FIELDS, or "tags.NAME"
    also: Mapping[str, str] = field(default_factory=dict)  # further fields of the trace and what they must be

    def __post_init__(self) -> None:
        for name in ("start", "end"):
            value: datetime = getattr(self, name)
            if value.tzinfo is None:
                raise ValueError(f"{name}: {value!r} has no time zone: pass an aware datetime")
        if self.step_s is not None and self.step_s <= 0:
            raise ValueError(f"step_s: {self.step_s!r} is not positive")
        if unknown := [name for name in self.group_by if name not in GROUP_FIELDS and not is_trace_field(name)]:
            known = ", ".join((*GROUP_FIELDS, *TRACE_FIELDS))
            raise ValueError(f"group_by: {', '.join(map(repr, unknown))} not among {known} and tags.NAME")
        if unknown := [name for name in self.also if not is_trace_field(name)]:
            known = ", ".join(TRACE_FIELDS)
            raise ValueError(f"also: {', '.join(map(repr, unknown))} not among {known} and tags.NAME")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreFilter:
    """Which scores: event time in [start, end), and whatever else is not None."""

    start: datetime | None = None
    end: datetime | None = None
    environment: str | None = None
    app: str | None = None
    version: str | None = None
    category: str | None = None
    judge: str | None = None  # a judge name or a JudgeId
    run_id: str | None = LIVE_RUN
    outcome: Literal["passed", "failed", "invalid"] | None = None
    also: tuple[tuple[str, str], ...] = ()  # further fields of the trace, as in TraceFilter

    @classmethod
    def within(cls, where: TraceFilter) -> ScoreFilter:
        """The live scores in the time range and slice of `where`; its conditions on other fields of traces are not
        applied."""
        return cls(
            start=where.start,
            end=where.end,
            environment=where.environment,
            app=where.app,
            version=where.version,
            category=where.category,
        )
