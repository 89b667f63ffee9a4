"""Folds score rows into the series of all rules, and says when one of them changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tracejudge.alerts.event import AlertEvent, SeriesKey, SeriesState
from tracejudge.alerts.rule import MinimumRule
from tracejudge.scores import Score


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesStatus:
    """Where a series stands: for `tracejudge alerts`, metrics and tests."""

    key: SeriesKey
    state: SeriesState
    boundary: float
    evidence: float  # M / A: fires at 1, pending above 0.1
    n_eff: float
    heuristic: bool
    last_judged_at: datetime | None


@dataclass(frozen=True, slots=True)
class SeriesSnapshot:
    """The whole state of one series, as JSON values. `name` is unique and stable."""

    name: str
    state: Mapping[str, Any]


class Engine:
    """The detectors of all rules. Pure: rows and instants in, events out; not thread-safe."""

    def __init__(self, rules: Sequence[MinimumRule]) -> None:
        self.rules = tuple(rules)

    def fold(self, scores: Iterable[Score]) -> list[AlertEvent]:
        """Folds live rows in the order given; the same rows in any batches give the same events."""
        raise NotImplementedError

    def tick(self, now: datetime) -> list[AlertEvent]:
        """What only the passing of time decides: no data."""
        raise NotImplementedError

    def status(self) -> list[SeriesStatus]:
        """Every series, as of the last fold and tick, in the order of their keys."""
        raise NotImplementedError

    def snapshot(self, *, changed_only: bool = False) -> list[SeriesSnapshot]:
        """The state of all series, or of those that changed since the last snapshot."""
        raise NotImplementedError

    def restore(self, snapshots: Iterable[SeriesSnapshot]) -> list[AlertEvent]:
        """Continues from snapshots; returns the closing events of open alerts whose rule is gone or was changed."""
        raise NotImplementedError
