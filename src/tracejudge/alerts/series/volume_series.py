"""The judged volume of one series: hours counted, compared with their hour of the week, told when far off.

An hour of event time is over when the watermark is an hour past its end: while a consumer catches up, rows of several
partitions come far out of order, and an hour must not look empty because its rows are still to come. An hour without a
row counts once a later one comes; before that there is nothing to go by, and silence is told as no_data. After more
than a day without a row no hour in between is counted: that is an outage, not volume.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Any, Final, NamedTuple

from tracejudge.alerts.detecting.recovery import RESOLVE_HOURS, RecoveryDetector
from tracejudge.alerts.detecting.sums import Place, Sums
from tracejudge.alerts.event import SeriesKey
from tracejudge.alerts.rules.rule import Rule, VolumeRule
from tracejudge.alerts.series.open_alert import OpenAlert
from tracejudge.alerts.series.state import Series, Turn
from tracejudge.alerts.series.volume import DAY_H, VolumeDetector, VolumeProfile, log_factor
from tracejudge.scores import Score

LAG_H: Final = 48
"""An hour is learned when it is so old: a change is found before it can pass into what is usual."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
_HOUR: Final = timedelta(hours=1)
_MOST_WAITING: Final = 28 * DAY_H  # an alert may stay open for longer; its first hours are of no use then


class Seen(NamedTuple):
    """Hours since a change began: how many, their traces, and the traces expected."""

    hours: int
    traces: int
    expected: float


class VolumeSeries(Series):
    """Counts the rows of one series. Raises ValueError for a rule of another type."""

    def __init__(self, *, key: SeriesKey, rule: Rule) -> None:
        if not isinstance(rule, VolumeRule):
            raise ValueError(f"rule: {rule.name!r} is of type {rule.type}; this counts volume")
        super().__init__(key=key, rule=rule)
        self.profile = VolumeProfile()
        self.volume = VolumeDetector(rule.min_change)
        self.alarm_at = math.inf  # hours of evidence, as of the last row
        self.recovery_hours = 0.0
        self._open: dict[int, int] = {}
        self._closed: int | None = None
        self._waiting: list[tuple[int, int, float]] = []  # hours counted and not yet learned, with what was expected

    def fold(self, score: Score, *, alarm_hours: float, latency_ms: float | None = None) -> Turn | None:
        at = min(score.event_time, score.judged_at)
        self.watermark = self.watermark.seen(score.event_time, arrived_at=score.judged_at)
        if self.last_judged_at is None or score.judged_at > self.last_judged_at:
            self.last_judged_at = score.judged_at
        self.heuristic = "heuristic" in score.flags
        self.alarm_at = alarm_hours
        hour = (at - _EPOCH) // _HOUR
        if self._closed is not None and hour <= self._closed:
            self.too_late += 1
        else:
            self._open[hour] = self._open.get(hour, 0) + 1
            self.sums = self.sums.plus(passed=True, weight=1.0)
        return self._close_hours(score.judged_at)

    def _close_hours(self, judged_at: datetime) -> Turn | None:
        """Takes the hours that are over, one after the other, up to the first that changes something."""
        mark = self.complete_until
        if mark is None or not self._open:
            return None
        end = (mark - _EPOCH) // _HOUR - 1  # the first hour that is not over
        while (hour := self._next(end)) is not None:
            count, self._closed = self._open.pop(hour, 0), hour
            turn = self._take(hour, count, judged_at)
            if turn is not None:
                return turn
        return None

    def _next(self, end: int) -> int | None:
        first = min(self._open, default=end)
        hour = first if self._closed is None or first - self._closed > DAY_H else self._closed + 1
        return hour if hour < end else None

    def _take(self, hour: int, count: int, judged_at: datetime) -> Turn | None:
        expected, phi = self.profile.expected(hour), self.profile.phi
        known = self.profile.known
        self._waiting.append((hour, count, expected))
        del self._waiting[:-_MOST_WAITING]
        if self.alert is not None:
            return self._recover(count, expected=expected, phi=phi)
        while self._waiting and self._waiting[0][0] <= hour - LAG_H:
            learned, traces, _ = self._waiting.pop(0)
            self.profile.learn(learned, traces)
        if not known:
            return None
        self.volume.observe(hour, count, expected=expected, phi=phi)
        begun = self.volume.starts[self.volume.leading]
        if self.volume.hours < self.alarm_at or begun is None:
            return None
        self.alert = OpenAlert(
            event_id="",
            at=judged_at,
            start=Place(_EPOCH + begun * _HOUR, Sums()),
            component=self.volume.leading,
            boundary=self.bound,
            evidence_hours=self.volume.hours,
            alarm_hours=self.alarm_at,
            recovery=RecoveryDetector(boundary=0.5, fallen_to=0.1),  # of rates: never asked
            severity=self.rule.severity,
        )
        self.recovery_hours = 0.0
        return Turn.FIRED

    @property
    def fewer(self) -> bool:
        """Whether the change is one to less."""
        component = self.alert.component if self.alert is not None else self.volume.leading
        return self.volume.ratios[component] < 1.0

    @property
    def bound(self) -> float:
        """The share of the expected volume beyond which the alert fired."""
        return self.volume.share_kept if self.fewer else 1.0 / self.volume.share_kept

    @property
    def since(self) -> Seen:
        """The hours since the change of the open alert began."""
        hours = [one for one in self._waiting if one[0] >= self._begun]
        return Seen(len(hours), sum(one[1] for one in hours), sum(one[2] for one in hours))

    def _recover(self, count: int, *, expected: float, phi: float) -> Turn | None:
        """The mirror: evidence that the volume is back, against half-way between the bound and where it was told."""
        bound = self.bound
        middle = (bound + self.volume.ratios[0 if self.fewer else 3]) / 2.0
        step = log_factor(count, to=expected * bound, against=expected * middle, phi=phi)
        self.recovery_hours = (self.recovery_hours + 1.0) * math.exp(step)
        return Turn.RESOLVED if self.recovery_hours >= RESOLVE_HOURS else None

    def scale_evidence(self, factor: float) -> None:
        self.volume.scale(factor)

    def close(self) -> None:
        """Ends the open alert; its hours are no measure for others, and only those before it are learned."""
        self._learn(before=self._begun)
        super().close()
        self.volume.reset()
        self.recovery_hours = 0.0

    def accept(self) -> None:
        """The new volume is how things are now: all is learned anew, from the change on."""
        self.profile = VolumeProfile()
        self._waiting = [one for one in self._waiting if one[0] >= self._begun]
        self.dismiss()

    def dismiss(self) -> None:
        """The change was none: its hours are learned beside the others."""
        self._learn(before=None)
        self.close()

    @property
    def _begun(self) -> int:
        """The first hour of the change of the open alert."""
        return (self.alert.start.at - _EPOCH) // _HOUR if self.alert is not None else 0

    def _learn(self, *, before: int | None) -> None:
        for hour, count, _ in self._waiting:
            if before is None or hour < before:
                self.profile.learn(hour, count)
        self._waiting = []

    @property
    def evidence_hours(self) -> float:
        """The evidence, in hours, for a change in either direction."""
        return self.volume.hours

    @property
    def boundary(self) -> float | None:
        """None: it is not about a rate."""
        return None

    @property
    def warming_up(self) -> bool:
        """Less than a week is known."""
        return not self.profile.known

    def to_state(self) -> dict[str, Any]:
        """JSON values; `from_state` continues exactly."""
        counted = {
            "profile": self.profile.to_state(),
            "detector": self.volume.to_state(),
            "recovery_hours": self.recovery_hours,
            "open": sorted(self._open.items()),
            "closed": self._closed,
            "waiting": self._waiting,
        }
        return {**super().to_state(), "volume": counted}

    @classmethod
    def from_state(cls, state: Mapping[str, Any], *, key: SeriesKey, rule: Rule) -> VolumeSeries:
        series = super().from_state(state, key=key, rule=rule)
        if not isinstance(series, VolumeSeries):
            raise ValueError(f"rule: {rule.name!r} has a state of another type")
        kept = state["volume"]
        series.profile = VolumeProfile.from_state(kept["profile"])
        series.volume.take_up(kept["detector"])
        series.recovery_hours = kept["recovery_hours"]
        series._open = dict(kept["open"])
        series._closed = kept["closed"]
        series._waiting = [(hour, count, expected) for hour, count, expected in kept["waiting"]]
        return series
