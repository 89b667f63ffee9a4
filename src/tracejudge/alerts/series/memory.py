"""The state of one series under one rule, and its form as JSON values."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar

from tracejudge.alerts.detecting.baseline import Baseline
from tracejudge.alerts.detecting.bets import PRIOR, Bets
from tracejudge.alerts.detecting.detector import DropDetector
from tracejudge.alerts.detecting.examples import Examples
from tracejudge.alerts.detecting.page_worthy import page_evidence_of
from tracejudge.alerts.detecting.repeats import Repeats
from tracejudge.alerts.detecting.sums import Sums
from tracejudge.alerts.detecting.weights import WeightScale
from tracejudge.alerts.durations import parse_duration
from tracejudge.alerts.event import SeriesKey
from tracejudge.alerts.rules.promise import USUAL
from tracejudge.alerts.rules.rule import DriftRule, MaxDropRule, Rule
from tracejudge.alerts.series.open_alert import OpenAlert
from tracejudge.alerts.series.unjudged import Unjudged
from tracejudge.scores import Bucket
from tracejudge.windows import Watermark

_S = TypeVar("_S", bound="SeriesMemory")

WARM_AT: Final = 0.10
"""A series with a learned baseline is warming up until it would tell a drop so small, as a share."""


class SeriesMemory:
    """The state of a series. How rows change it is decided in `state.py`."""

    def __init__(self, *, key: SeriesKey, rule: Rule) -> None:
        self.key = key
        self.rule = rule
        self.promise = rule.false_alarms or USUAL  # of all series of its (environment, app) together; set by Watched
        self.backfill_s = rule.backfill_s
        self.baseline = _baseline_of(rule)
        # Until a baseline is known the prior is zero, so nothing can fire, and the boundary is not used.
        known = rule.fixed_boundary
        fixed = Bets(known) if known is not None else Bets(0.5, prior=(0.0,) * len(PRIOR))
        self.detector = DropDetector(fixed)
        self.scale = WeightScale()
        self.watermark = Watermark()
        self.first_judged_at: datetime | None = None
        self.last_judged_at: datetime | None = None
        self.repeats = Repeats()
        self.sums = Sums()
        self.origin = Sums()  # the sums when the last incident ended
        self.examples = Examples()
        self.too_late = 0
        self.unusable = 0
        self.unjudged = Unjudged()
        self.heuristic = False
        self.events = 0  # number of events so far; part of the next event's id
        self.silent = False  # the no_data event of its family was raised on this series
        self.alert: OpenAlert | None = None
        self.page = page_evidence_of(rule)
        self.begun: Mapping[str, Any] | None = None  # where its baseline came from, until an event has said so

    @property
    def complete_until(self) -> datetime | None:
        """The event time believed complete: the watermark, or the arrival of the last trace where every one so far is
        from the future (local time sent as UTC), since such a series would otherwise never be decided."""
        return self.watermark.at or self.last_judged_at

    @property
    def evidence_hours(self) -> float:
        """The evidence for a drop, in hours, to compare with the alarm level; constant while an alert is open."""
        return self.detector.evidence_hours

    @property
    def boundary(self) -> float | None:
        """The rate below which a drop is reported, as of the last row; None while none is known."""
        if self.baseline is not None and not any(self.detector.bets.prior):
            return None
        return self.detector.bets.boundary

    @property
    def since_start(self) -> Bucket:
        """The rows since the drop of the open alert began; without one, since the suspected drop."""
        start = self.alert.start if self.alert is not None else self.detector.start
        return self.sums.since(start.before) if start is not None else Bucket()

    @property
    def before_start(self) -> Bucket:
        """The rows between the last incident and the drop; all rows since the incident when no drop is suspected."""
        start = self.alert.start if self.alert is not None else self.detector.start
        end = start.before if start is not None else self.sums
        return end.since(self.origin) if end.n >= self.origin.n else Bucket()

    @property
    def warming_up(self) -> bool:
        """Too few effective samples to say anything, or a baseline too young to tell a drop of 10 points."""
        if self.baseline is not None:
            smallest = self.baseline.smallest_drop
            if smallest is None or smallest > WARM_AT:
                return True
        return self.sums.n_eff < self.rule.min_effective_samples

    def to_state(self) -> dict[str, Any]:
        """JSON values; `from_state` continues exactly."""
        return {
            "detector": self.detector.to_state(),
            "scale": self.scale.to_state(),
            "repeats": self.repeats.to_state(),
            "watermark": _text(self.watermark.at),
            "first_judged_at": _text(self.first_judged_at),
            "last_judged_at": _text(self.last_judged_at),
            "sums": tuple(self.sums),
            "origin": tuple(self.origin),
            "failures": self.examples.to_state(),
            "too_late": self.too_late,
            "unusable": self.unusable,
            "unjudged": self.unjudged.to_state(),
            "heuristic": self.heuristic,
            "events": self.events,
            "silent": self.silent,
            "begun": self.begun,
            "baseline": self.baseline.to_state() if self.baseline is not None else None,
            "page": self.page.to_state() if self.page is not None else None,
            "alert": self.alert.to_state() if self.alert is not None else None,
        }

    @classmethod
    def from_state(cls: type[_S], state: Mapping[str, Any], *, key: SeriesKey, rule: Rule) -> _S:
        series = cls(key=key, rule=rule)
        series.detector = DropDetector.from_state(state["detector"])
        series.scale = WeightScale.from_state(state["scale"])
        series.repeats = Repeats.from_state(state.get("repeats", {}))  # older snapshots have none
        series.watermark = Watermark(_instant(state["watermark"]))
        series.last_judged_at = _instant(state["last_judged_at"])
        # Older snapshots do not have it: they took the series as judged since ever.
        series.first_judged_at = _instant(state.get("first_judged_at", "1970-01-01T00:00:00+00:00"))
        series.sums = Sums.from_state(state["sums"])
        series.origin = Sums.from_state(state["origin"])
        series.examples = Examples.from_state(state["failures"])
        series.too_late = state["too_late"]
        series.unusable = state.get("unusable", 0)  # older snapshots have none
        series.unjudged = Unjudged((place, count) for place, count in state.get("unjudged", ()))
        series.heuristic = state["heuristic"]
        series.events = state["events"]
        series.silent = state["silent"]
        series.begun = state.get("begun")  # older snapshots have none
        if state.get("baseline") is not None:
            series.baseline = Baseline.from_state(state["baseline"])
        if series.page is not None:
            series.page.take_up(state.get("page"))
        if state["alert"] is not None:
            # Older snapshots know no boundary and no severity but the rule's.
            known = {"boundary": series.detector.bets.boundary, "severity": rule.severity}
            series.alert = OpenAlert.from_state({**known, **state["alert"]})
        return series


def _baseline_of(rule: Rule) -> Baseline | None:
    if isinstance(rule, MaxDropRule):
        return Baseline(drop=rule.max_drop, reference_h=parse_duration(rule.reference) / timedelta(hours=1))
    if isinstance(rule, DriftRule):
        # Half of the smallest drop that matters belongs to the null hypothesis; all of it would hide that very drop.
        return Baseline(drop=rule.min_drop / 2.0)
    return None


def _text(at: datetime | None) -> str | None:
    return at.isoformat() if at is not None else None


def _instant(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text is not None else None
