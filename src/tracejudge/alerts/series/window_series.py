"""A classic threshold: the weighted rate of each window against a number. For those who want it; it promises nothing.

Windows stand side by side, aligned to 1970 (UTC). One is decided once, when the series' watermark is past its end by a
sixth of its length, at most ten minutes: rows that come later are counted as too late. A window of too few effective
samples decides nothing. The alert ends with the first window that is not below. So the rate is looked at as often as
there are windows, and how often it fires by chance can be said (`chance.py`). A window that might
not be below if all traces the judge failed on were good is worth a ticket, never a page.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Any, Final

from tracejudge.alerts.detecting.recovery import RecoveryDetector
from tracejudge.alerts.detecting.sums import Place, Sums
from tracejudge.alerts.event import SeriesKey, Severity
from tracejudge.alerts.rules.measures import WEIGHTED, good
from tracejudge.alerts.rules.rule import Rule, ThresholdRule
from tracejudge.alerts.series.open_alert import OpenAlert
from tracejudge.alerts.series.state import SMALLEST_PROBABILITY, Series, Turn
from tracejudge.alerts.series.unjudged import could_explain
from tracejudge.scores import Bucket, Score

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
_LONGEST_WAIT: Final = timedelta(minutes=10)


class WindowSeries(Series):
    """Folds the rows of one series into windows. Raises ValueError for a rule of another type."""

    def __init__(self, *, key: SeriesKey, rule: Rule) -> None:
        if not isinstance(rule, ThresholdRule):
            raise ValueError(f"rule: {rule.name!r} is of type {rule.type}; a window needs a threshold")
        super().__init__(key=key, rule=rule)
        self.threshold = rule
        self._open: dict[int, Sums] = {}
        self._failed: dict[int, int] = {}  # traces of open windows that the judge failed on
        self._closed: int | None = None  # the number of the last window that was decided
        self.last = Sums()  # of the last window that had enough samples
        self.usual = Sums()  # of all such windows that were not below

    def fold(self, score: Score, *, alarm_hours: float, latency_ms: float | None = None) -> Turn | None:
        rule = self.threshold
        at = min(score.event_time, score.judged_at)
        self.watermark = self.watermark.seen(score.event_time, arrived_at=score.judged_at)
        if self.last_judged_at is None or score.judged_at > self.last_judged_at:
            self.last_judged_at = score.judged_at
            self.first_judged_at = self.first_judged_at or score.judged_at
        self.heuristic = "heuristic" in score.flags
        passed = good(
            rule.measure,
            score,
            at_most=rule.at_most,
            latency_ms=latency_ms,
            backfill_s=self.backfill_s,
            judged_since=self.first_judged_at,
        )
        if passed is not None:
            self._count(score, at, passed=passed)
        elif rule.measure == "quality":
            number = self._number_of(at)
            self._failed[number] = self._failed.get(number, 0) + 1
        return self._decide(score.judged_at)

    def _number_of(self, at: datetime) -> int:
        return (at - _EPOCH) // self.threshold.window_span

    def _count(self, score: Score, at: datetime, *, passed: bool) -> None:
        number = self._number_of(at)
        if self._closed is not None and number <= self._closed:
            self.too_late += 1
            return
        if not SMALLEST_PROBABILITY <= score.inclusion_probability <= 1.0:
            self.unusable += 1
            return
        weight = score.weight if self.rule.measure in WEIGHTED else 1.0
        self._open[number] = self._open.get(number, Sums()).plus(passed=passed, weight=weight)
        self.sums = self.sums.plus(passed=passed, weight=weight)
        if not passed:
            self.examples.add(at=at, score=score.score, trace_id=score.trace_id)

    def _decide(self, judged_at: datetime) -> Turn | None:
        """Decides the oldest window that is complete; one with each row, so that each has its own event."""
        rule, mark = self.threshold, self.complete_until
        if not self._open or mark is None:
            return None
        number = min(self._open)
        begin = _EPOCH + number * rule.window_span
        if mark < begin + rule.window_span + min(rule.window_span / 6, _LONGEST_WAIT):
            return None
        self._closed, found = number, self._open.pop(number)
        failed = self._failed.get(number, 0)
        self._failed = {later: count for later, count in self._failed.items() if later > number}
        if found.n_eff < rule.min_effective_samples:
            return None
        self.last, rate = found, found.wx / found.w
        if rate >= rule.below:
            self.usual = self.usual.with_all(found)
            return Turn.RESOLVED if self.alert is not None else None
        size: Severity = "page" if rule.severity == "page" and rule.below - rate >= rule.page_drop else "ticket"
        lowered = size == "page" and could_explain(failed=failed, judged=found.n, rate=rate, boundary=rule.below)
        size = "ticket" if lowered else size
        if self.alert is not None:
            grown = size == "page" and self.alert.severity == "ticket"
            self.alert.severity = "page" if grown else self.alert.severity
            return Turn.ESCALATED if grown else None
        self.alert = OpenAlert(
            event_id="",
            at=judged_at,
            start=Place(begin, self.sums),
            component=0,
            boundary=rule.below,
            evidence_hours=0.0,
            alarm_hours=0.0,
            recovery=RecoveryDetector(boundary=rule.below, fallen_to=rate),  # never asked: the next window decides
            severity=size,
            unjudged=failed,
            lowered=lowered,
        )
        return Turn.FIRED

    @property
    def since_start(self) -> Bucket:
        """The rows of the window that was decided last."""
        return self.last.since(Sums())

    @property
    def before_start(self) -> Bucket:
        """The rows of all windows that were not below."""
        return self.usual.since(Sums())

    def to_state(self) -> dict[str, Any]:
        """JSON values; `from_state` continues exactly."""
        windows = {
            "open": [[number, *sums] for number, sums in sorted(self._open.items())],
            "failed": sorted(self._failed.items()),
            "closed": self._closed,
            "last": list(self.last),
            "usual": list(self.usual),
        }
        return {**super().to_state(), "windows": windows}

    @classmethod
    def from_state(cls, state: Mapping[str, Any], *, key: SeriesKey, rule: Rule) -> WindowSeries:
        series = super().from_state(state, key=key, rule=rule)
        if not isinstance(series, WindowSeries):
            raise ValueError(f"rule: {rule.name!r} has a state of another type")
        kept = state["windows"]
        series._open = {number: Sums.from_state(sums) for number, *sums in kept["open"]}
        series._failed = dict(kept.get("failed", ()))
        series._closed = kept["closed"]
        series.last, series.usual = Sums.from_state(kept["last"]), Sums.from_state(kept["usual"])
        return series
