"""One series under one rule: how each row changes its state, and when it fires, escalates and resolves."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import Enum
from typing import Final

from tracejudge.alerts.detecting.baseline import hour_of
from tracejudge.alerts.detecting.bets import Bets
from tracejudge.alerts.detecting.detector import DropDetector
from tracejudge.alerts.detecting.recovery import RecoveryDetector, fallen_rate
from tracejudge.alerts.detecting.sums import Place
from tracejudge.alerts.event import Severity
from tracejudge.alerts.rules.measures import WEIGHTED, good
from tracejudge.alerts.series.memory import SeriesMemory
from tracejudge.alerts.series.open_alert import OpenAlert
from tracejudge.alerts.series.unjudged import could_explain
from tracejudge.scores import Bucket, Score

PENDING_SHARE: Final = 0.1
"""A series is pending while its evidence is above this share of the alarm level."""

MIN_ROWS_OF_A_DROP: Final = 5
"""Nothing fires with fewer verdicts than this since the estimated start: after a long silence three failures could
otherwise reach the alarm level. It only removes alarms, so the promise holds; a fall from 95 % to 0 takes 6 anyway."""

LONGEST_STEP_H: Final = 24.0
"""Most hours counted between two rows: longer silence is no evidence. Counting less time than passed only makes the
promise more conservative."""

TOO_LATE: Final = timedelta(hours=48)
"""A row further than this behind the watermark is not folded, only counted."""

SMALLEST_PROBABILITY: Final = 1e-7
"""A row sampled with a smaller probability, or with one outside (0, 1], is not folded, only counted: the square of its
weight would swallow those of ordinary rows in a double, or be infinite, and silence the series for good."""


class Turn(Enum):
    """A change of a series by a row."""

    FIRED = "fired"
    RESOLVED = "resolved"
    ESCALATED = "escalated"


class Series(SeriesMemory):
    """Folds the rows of one series. Which rows belong to it, and what an event says, is decided elsewhere."""

    def fold(self, score: Score, *, alarm_hours: float, latency_ms: float | None = None) -> Turn | None:
        """Folds a row; FIRED when it brings the evidence to `alarm_hours`, RESOLVED when the open alert is over,
        ESCALATED when it becomes a page; otherwise None.

        While the traces that the judge failed on could explain the whole fall, the alert is a ticket; it escalates once
        they cannot.

        After FIRED the alert's `event_id` is still empty; after RESOLVED the alert stays in `alert` until `close`.
        """
        event_time, judged_at = score.event_time, score.judged_at
        at = min(event_time, judged_at)  # a producer's clock that is ahead must not start a drop in the future
        before = self.watermark
        reached = self.watermark = before.seen(event_time, arrived_at=judged_at)
        hours = 0.0 if reached is before else min(reached.advance_s(before) / 3600.0, LONGEST_STEP_H)
        if reached.at is None and self.last_judged_at is not None:
            # Every trace so far is from the future (`complete_until`): time passes as they arrive.
            hours = min(max(0.0, (judged_at - self.last_judged_at).total_seconds() / 3600.0), LONGEST_STEP_H)
        if self.last_judged_at is None or judged_at > self.last_judged_at:
            self.last_judged_at = judged_at
            self.first_judged_at = self.first_judged_at or judged_at
        self.heuristic = "heuristic" in score.flags
        detector = self.alert.recovery if self.alert is not None else self.detector
        measure = self.rule.measure
        passed = good(
            measure,
            score,
            at_most=self.rule.at_most,
            latency_ms=latency_ms,
            backfill_s=self.backfill_s,
            judged_since=self.first_judged_at,
        )
        if passed is None:
            if measure == "quality":
                self._note_failure()
            self._pass_time(detector, hours)
            return None
        if reached.at is not None and reached.at - event_time > TOO_LATE:
            self.too_late += 1
            return None
        if not SMALLEST_PROBABILITY <= score.inclusion_probability <= 1.0:  # nan, too
            self.unusable += 1
            self._pass_time(detector, hours)
            return None
        weight = score.weight if measure in WEIGHTED else 1.0
        earlier = self.repeats.before(score.content_hash, at, weight) if measure == "quality" else None
        if earlier is not None:
            self._fold_repeat(passed=passed, weight=weight, before=earlier, hour_at=hour_of(at), hours=hours)
            return None
        self._observe(detector, passed=passed, weight=weight, place=Place(at, self.sums, judged_at), hours=hours)
        if not passed:
            verdict = score.score if measure == "quality" else None
            self.examples.add(at=at, score=verdict, trace_id=score.trace_id)
        if self.alert is not None:
            if self._recovered(self.alert):
                return Turn.RESOLVED
            return self._maybe_escalate(self.alert, alarm_hours)
        return self._maybe_fire(judged_at, alarm_hours)

    def _observe(
        self, detector: DropDetector | RecoveryDetector, *, passed: bool, weight: float, place: Place, hours: float
    ) -> None:
        """Shows a row, `hours` after the last one, to detectors and baseline, and adds it to the sums."""
        at, scaled = place.at, self.scale.next(weight)
        hour_at = hour_of(at)
        bets = self._learn_until(hour_at)
        learning = self.alert.aside if self.alert is not None else self.baseline
        # Computed only where it is used: most series have no daily season.
        differ = self.baseline is not None and self.baseline.spread > 0.0
        hour = learning.hour_so_far(at) if learning is not None and differ else None
        if isinstance(detector, RecoveryDetector):
            detector.observe(passed=passed, weight=scaled.weight, deff=scaled.deff, hours=hours, place=place)
        elif self.baseline is None or bets is not None:
            # Before a baseline is known there is no bet, and no time passes for the detector.
            detector.observe(
                passed=passed, weight=scaled.weight, deff=scaled.deff, hours=hours, place=place, bets=bets, hour=hour
            )
        if self.page is not None:
            wanted = self._page_bets(at)
            if wanted is not None:
                self.page.observe(
                    wanted, passed=passed, weight=scaled.weight, deff=scaled.deff, hours=hours, place=place, hour=hour
                )
        if learning is not None:
            learning.see(hour_at, passed=passed, weight=weight)
        self.sums = self.sums.plus(passed=passed, weight=weight, trimmed=scaled.trimmed)

    def _pass_time(self, detector: DropDetector | RecoveryDetector, hours: float) -> None:
        detector.pass_time(hours)
        if self.page is not None:
            self.page.pass_time(hours)

    def _page_bets(self, at: datetime) -> Bets | None:
        """The bets for a row served at `at`, also while an alert is open and the baseline does not learn."""
        return self.detector.bets if self.baseline is None else self.baseline.bets(at)

    def _size(self, alarm_hours: float) -> Severity:
        """What the size of the fall is worth by now."""
        if self.rule.severity == "ticket":
            return "ticket"
        return "page" if self.page is None or self.page.hours >= alarm_hours else "ticket"

    def _maybe_escalate(self, alert: OpenAlert, alarm_hours: float) -> Turn | None:
        if alert.severity == "page" or self._size(alarm_hours) == "ticket" or self._could_be_failures(alert):
            return None
        alert.severity = "page"
        return Turn.ESCALATED

    def _fold_repeat(self, *, passed: bool, weight: float, before: float, hour_at: int, hours: float) -> None:
        """Folds a row whose content was observed within the last hour: time passes and the rates change, but it is no
        further evidence."""
        bets = self._learn_until(hour_at)
        if self.alert is not None:
            self.alert.recovery.pass_time(hours)
        elif self.baseline is None or bets is not None:
            self.detector.pass_time(hours)
        if self.page is not None:
            self.page.pass_time(hours)
        learning = self.alert.aside if self.alert is not None else self.baseline
        if learning is not None:
            learning.see(hour_at, passed=passed, weight=weight)
        self.sums = self.sums.plus_repeat(passed=passed, weight=weight, before=before)

    def _learn_until(self, hour_at: int) -> Bets | None:
        """Lets the baseline learn up to the watermark (without one: up to `hour_at`), and returns the bets for a row
        served in the hour `hour_at`; None without a baseline, while an alert is open, and while no drop can be told."""
        if self.baseline is None or self.alert is not None:
            return None
        reached = self.watermark.at
        self.baseline.move_to(hour_at if reached is None else hour_of(reached))
        return self.baseline.bets_of_hour(hour_at)

    def _note_failure(self) -> None:
        self.unjudged.add(self.sums.n)
        if self.alert is not None:
            self.alert.unjudged += 1

    def _could_be_failures(self, alert: OpenAlert) -> bool:
        earlier = alert.start.before
        judged, rate = self.sums.n - earlier.n, _rate(self.sums.since(earlier))
        return could_explain(failed=alert.unjudged, judged=judged, rate=rate, boundary=alert.boundary)

    def _maybe_fire(self, judged_at: datetime, alarm_hours: float) -> Turn | None:
        evidence = self.detector.evidence_hours
        if evidence < alarm_hours or self.sums.n_eff < self.rule.min_effective_samples:
            return None
        start = self.detector.start
        if start is None or self.sums.n - start.before.n < MIN_ROWS_OF_A_DROP:
            return None
        since = self.sums.since(start.before)
        boundary = self.detector.bets.boundary
        fallen_to = fallen_rate(_rate(since), n_eff=self.sums.n_eff_since(start.before))
        self.alert = OpenAlert(
            event_id="",
            at=judged_at,
            start=start,
            component=self.detector.leading,
            boundary=boundary,
            evidence_hours=evidence,
            alarm_hours=alarm_hours,
            recovery=RecoveryDetector(boundary=boundary, fallen_to=fallen_to),
            aside=self.baseline.split_since(start.at) if self.baseline is not None else None,
            severity=self._size(alarm_hours),
            unjudged=self.unjudged.since(start.before.n),
        )
        if self.alert.severity == "page" and self._could_be_failures(self.alert):
            self.alert.severity, self.alert.lowered = "ticket", True
        return Turn.FIRED

    def _recovered(self, alert: OpenAlert) -> bool:
        start = alert.recovery.start
        if start is None or not alert.recovery.recovered:
            return False
        return self.sums.n_eff_since(start.before) >= self.rule.min_effective_samples

    def scale_evidence(self, factor: float) -> None:
        """Multiplies the evidence by `factor` <= 1, when the series' share of the promise has grown by 1/factor."""
        self.detector.scale(factor)
        if self.page is not None:
            self.page.scale(factor)

    def close(self) -> None:
        """Ends the open alert: the evidence starts at zero, and the rows so far belong to the past incident."""
        self.alert = None
        self.detector.reset()
        if self.page is not None:
            self.page.reset()
        self.origin = self.sums

    def accept(self) -> None:
        """Takes the level since the fall as the new normal: a learned baseline starts anew from the rows since then.

        Closes the alert. A rule with a minimum has no baseline: only its evidence starts again.
        """
        if self.alert is not None and self.alert.aside is not None:
            self.baseline = self.alert.aside
            self.baseline.learn_all()
        self.close()

    def dismiss(self) -> None:
        """Takes the open alert as false: the rows since the fall are normal too, and the baseline learns them."""
        if self.alert is not None and self.alert.aside is not None and self.baseline is not None:
            self.baseline.absorb(self.alert.aside)
        self.close()


def _rate(rows: Bucket) -> float:
    return rows.sum_wx / rows.sum_w if rows.sum_w > 0 else 0.0
