"""Folds score rows into the series of all rules, and says when one of them changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime

from tracejudge.alerts.actions import Action
from tracejudge.alerts.event import AlertEvent, SeriesKey
from tracejudge.alerts.judges.drift import JudgeDrift
from tracejudge.alerts.judges.places import JudgePlaces
from tracejudge.alerts.judges.standing import DriftPolicy
from tracejudge.alerts.judges.words import judge_changed, with_model_change
from tracejudge.alerts.rules.budget import Budget
from tracejudge.alerts.rules.promise import Promises
from tracejudge.alerts.rules.rule import Rule, effective_severity
from tracejudge.alerts.rules.slices import group_of, trace_fields
from tracejudge.alerts.series import explain, growth, kinds, snapshots
from tracejudge.alerts.series.bridge import HourSums, Overlap, begin
from tracejudge.alerts.series.health import JudgeHealth, JudgePlace
from tracejudge.alerts.series.keys import family_of, judge_key, key_of
from tracejudge.alerts.series.snapshots import SeriesSnapshot
from tracejudge.alerts.series.state import Series, Turn
from tracejudge.alerts.series.status import SeriesStatus, status_of
from tracejudge.alerts.series.succession import learned_baselines
from tracejudge.alerts.series.watched import Watched
from tracejudge.alerts.series.ways import Ways
from tracejudge.anchors import AnchorRound
from tracejudge.scores import LIVE_RUN, JudgeId, Score, TraceFacts, TraceKey

FindOverlap = Callable[[SeriesKey, JudgeId, datetime], Overlap | None]
"""Given a series that begins, the JudgeId before it and an instant: what both judged until then."""


class Engine:
    """The detectors of all rules, and of the judges themselves (`judges`). Pure: rows, rounds of anchors, actions and
    instants in, events out; not thread-safe. `promises` says how often all rules together may be wrong; `overlap` tells
    what two JudgeIds judged both: it bridges baselines.

    Raises ValueError when two rules have one name.
    """

    def __init__(
        self,
        rules: Sequence[Rule],
        *,
        promises: Promises | None = None,
        drift: DriftPolicy | None = None,
        overlap: FindOverlap = lambda _series, _before, _at: None,
    ) -> None:
        self.rules = {rule.name: rule for rule in rules}
        if len(self.rules) != len(rules):
            names = [rule.name for rule in rules]
            twice = sorted({name for name in names if names.count(name) > 1})
            raise ValueError(f"name: {twice!r} name more than one rule each; give every rule its own name")
        self.unwatched = 0  # rows of groups beyond the limit
        self.judges = JudgeDrift(drift)
        self._overlap = overlap
        self._watched = Watched(rules, promises)
        self._places = JudgePlaces()
        self._watching: dict[tuple[str, str, str], tuple[Rule, ...]] = {}
        self._ways = Ways()  # since the last snapshot, and until something is taken away
        self._changed: dict[SeriesKey, None] = {}  # since the last snapshot, in order
        self._gone: dict[str, None] = {}  # names of snapshots to be marked as retired
        self._now: datetime | None = None

    def fold(self, scores: Iterable[Score], *, facts: Mapping[TraceKey, TraceFacts] | None = None) -> list[AlertEvent]:
        """Folds live rows in the order given; the same rows in any batches give the same events.

        The health of every judge is watched, with or without a rule. Rows of other runs, and re-scores (revision above
        0: their trace was folded when first judged), are passed over. The caller gives each (trace, JudgeId) once, and
        what the rules want to know of traces (`asks_traces`, `trace_fields`).
        """
        events: list[AlertEvent] = []
        for score in scores:
            if score.run_id != LIVE_RUN or score.revision > 0:
                continue
            if self.judges.holds:
                events += self.judges.overdue(score.judged_at)
            known = len(self._places)
            health = self._fold_health(score, events)
            of_trace = facts.get(score.key) if facts else None
            rules = self._rules_of(score.environment, score.app, score.judge_name)
            for rule in rules:
                self._fold_rule(rule, score, health, events, facts=of_trace)
            if len(self._places) > known and (before := self._places.before(score)) is not None:
                events.append(judge_changed(score, before, learned_baselines(score, rules, self._watched.series)))
        return events

    def fold_round(self, one: AnchorRound) -> list[AlertEvent]:
        """Folds what a judge said of its anchors; call it between the rows judged before and after it was finished."""
        opened = [
            series.alert.event_id
            for series in self._watched.series.values()
            if series.key.judge_id == one.judge_id and series.alert is not None
        ]
        overdue = self.judges.overdue(one.finished_at or one.round_at)
        return overdue + self.judges.fold(one, open_alerts=sorted(opened))

    def tick(self, now: datetime, *, folded: datetime | None = None) -> list[AlertEvent]:
        """What only time decides: no data, reminders, and the end of waiting for a judge. Call it when all rows up to
        about `now` are folded, and all rounds up to `folded` (`now` by default): before its deadline an answer counts.
        """
        self._now = now
        events: list[AlertEvent] = []
        for family, series in self._watched.latest():
            limit, last = series.rule.silence_limit, series.last_judged_at
            if limit is None or last is None or now - last <= limit or family in self._watched.silent:
                continue
            series.silent = True
            self._watched.silent[family] = series.key
            # The instant of the deadline, not of the tick: another process that notices it later says the same.
            events.append(explain.silence(series, at=last + limit, limit=limit))
            self._changed[series.key] = None
        for series in self._watched:
            deadline = growth.reminder_due(series, now)
            if deadline is not None:
                events.append(self._beside(series, growth.reminder(series, at=deadline)))
                self._changed[series.key] = None
        self._retire(now)
        return events + self.judges.tick(folded or now)

    def apply(self, action: Action) -> list[AlertEvent]:
        """Closes the open alerts that an accept or a dismissal is about, and stops the reminders of acknowledged ones.

        Call it when all rows judged before the action are folded.
        """
        events = self.judges.overdue(action.at)
        if action.verb not in ("accept", "dismiss", "acknowledge"):
            return events
        for series in self._watched:
            if series.alert is None or not action.matches(series.key, event_id=series.alert.event_id):
                continue
            self._changed[series.key] = None
            if action.verb == "acknowledge":
                series.alert.acknowledged = True
                continue
            events.append(self._beside(series, explain.closed_by_action(series, action)))
            if action.verb == "accept":
                series.accept()
            else:
                series.dismiss()
        return events + self.judges.apply(action)

    def seed(self, key: SeriesKey, hours: Iterable[HourSums], *, heuristic: bool, at: datetime | None = None) -> None:
        """Gives a series with a learned baseline what a replay found in the hours before its own first row, or what an
        overlap until `at` tells, whichever is surer.

        Such a series knows from its first row on what it would have needed weeks to learn; that its judge is a
        heuristic it says before. Nothing happens to one of a rule without a baseline, or with an open alert, or of a
        rule that is gone.
        """
        rule = self.rules.get(key.rule)
        if rule is None or rule.budget != "quality":
            return
        series = self._watched.series.get(key)
        if series is None:
            if not self._watched.has_room(key):
                return
            series = kinds.new_series(key=key, rule=rule)
            series.heuristic = heuristic
            self._watched.add(series)
        self._begin(series, at=at, hours=hours)
        self._changed[key] = None

    def _begin(self, series: Series, *, at: datetime | None, hours: Iterable[HourSums] = ()) -> None:
        """The baseline of a series that begins, or is young, from what is known of it and of the JudgeId before it."""
        if series.baseline is None or series.alert is not None or series.rule.budget != "quality":
            return
        old = self._watched.predecessor(series.key)
        fresh = series.last_judged_at is None
        overlap = self._overlap(series.key, JudgeId(old.key.judge_id), at) if old and at and fresh else None
        series.baseline, series.begun = begin(
            series.baseline, old=old.baseline if old is not None else None, overlap=overlap, hours=hours
        )

    @property
    def asks_traces(self) -> bool:
        """Whether a rule is about what only traces say: how long the app took, or fields to group by."""
        return bool(self.trace_fields) or any(rule.measure == "latency_ms" for rule in self.rules.values())

    @property
    def trace_fields(self) -> tuple[str, ...]:
        """The fields of traces that rules group by."""
        return trace_fields(self.rules.values())

    def status(self) -> list[SeriesStatus]:
        """Every series, as of the last fold and tick, in the order of their keys; those of judges last."""
        quality = [self._status(series) for series in self._watched]
        return quality + self.judges.status(now=self._now)

    def snapshot(self, *, changed_only: bool = False) -> list[SeriesSnapshot]:
        """The state of all series, or of those that changed since the last snapshot (retired ones say so)."""
        chosen = self._changed if changed_only else self._watched.series
        taken = [SeriesSnapshot(name, snapshots.RETIRED) for name in self._gone]
        taken += [snapshots.of_series(self._watched.series[key]) for key in chosen]
        taken += self._places.snapshot(changed_only=changed_only)
        self._changed.clear()
        self._gone.clear()
        self._ways.clear()
        return taken + self.judges.snapshot(changed_only=changed_only)

    def restore(self, taken: Iterable[SeriesSnapshot]) -> list[AlertEvent]:
        """Continues from snapshots; returns the closing events of open alerts whose rule is gone or was changed.

        A series whose rule asks another question now starts anew: its evidence was about another boundary. Where a rule
        is gone and others have its part, their evidence shrinks as if it had been forgotten.
        """
        self._ways.clear()
        events: list[AlertEvent] = []
        stored: dict[SeriesKey, Rule] = {}
        for snapshot in taken:
            of_judge = self.judges.restore(snapshot)
            if of_judge is not None:
                events += of_judge
                continue
            found = snapshots.read(snapshot)
            if found is None:
                continue
            if isinstance(found, snapshots.HealthFound):
                self._places.restore(found)
                continue
            stored[found.key] = found.rule
            rule = self.rules.get(found.rule.name)
            if rule is not None and _same_question(found.rule, rule, key=found.key):
                self._watched.add(found.series(rule))
                continue
            old = found.series(found.rule)
            if old.alert is not None:
                events.append(explain.closed_by_rule_change(old, removed=rule is None))
            self._gone[snapshot.name] = None
        were = Budget(tuple({rule.name: rule for rule in stored.values()}.values()), keys=stored)
        grown = self._watched.scaled_from({key: were.share(key) for key in self._watched.series})
        self._changed |= dict.fromkeys(grown)
        return [self.judges.beside(event) for event in events]

    def _rules_of(self, environment: str, app: str, judge_name: str) -> tuple[Rule, ...]:
        place = (environment, app, judge_name)
        rules = self._watching.get(place)
        if rules is None:
            rules = tuple(
                rule
                for rule in self.rules.values()
                if rule.watches(environment=environment, app=app, judge_name=judge_name)
            )
            self._watching[place] = rules
        return rules

    def _fold_health(self, score: Score, events: list[AlertEvent]) -> JudgeHealth:
        health = self._places.of(score)
        if health is None:
            return JudgeHealth()
        if health.fold(score):
            events.append(explain.judge_health(judge_key(score), health, at=score.judged_at))
        return health

    def _fold_rule(
        self, rule: Rule, score: Score, health: JudgeHealth, events: list[AlertEvent], *, facts: TraceFacts | None
    ) -> None:
        group = group_of(rule.group_by, score, facts) if rule.group_by else ()
        marks = (rule.name, score.environment, score.app, score.judge_name, score.judge_id, group)
        way = self._ways.get(marks)
        if way is None:
            found = self._series_of(rule, score, facts, events)
            if found is None:
                self.unwatched += 1
                return
            way = self._ways.lead(marks, found)
        key, series = way.series.key, way.series
        quiet = self._watched.silent.pop(family_of(key), None) if self._watched.silent else None
        if quiet is not None:
            self._watched.series[quiet].silent = False
            events.append(explain.data_back(self._watched.series[quiet], at=score.judged_at))
            self._changed[quiet] = None
        alarm_hours = way.alarm_hours(self._watched)
        turn = series.fold(score, alarm_hours=alarm_hours, latency_ms=facts.latency_ms if facts else None)
        if turn is Turn.FIRED:
            fired = kinds.firing(series, share=self._watched.share(key), health=health.share)
            events.append(self._beside(series, with_model_change(fired, health)))
        elif turn is Turn.RESOLVED:
            events.append(self._beside(series, kinds.resolved(series, at=score.judged_at)))
            series.close()
        elif turn is Turn.ESCALATED and effective_severity(rule, heuristic=series.heuristic) == "page":
            events.append(self._beside(series, kinds.escalated(series, at=score.judged_at)))

    def _series_of(self, rule: Rule, score: Score, facts: TraceFacts | None, events: list[AlertEvent]) -> Series | None:
        """The series that a row is folded into, which has changed by it; None where there is no room for one."""
        key = key_of(rule, score, facts)
        series = self._watched.series.get(key) or self._let_in(rule, key, score, events)
        if series is not None:
            self._changed[series.key] = None
        return series

    def _let_in(self, rule: Rule, key: SeriesKey, score: Score, events: list[AlertEvent]) -> Series | None:
        """The series that a row of a key not yet watched is folded into: its own, or that of the other values, of which
        an event says that it begins. None where there is no room at all."""
        room = self._watched.room_of(key)
        if room is None:
            return None
        series = self._watched.series.get(room)
        if series is None:
            series = kinds.new_series(key=room, rule=rule)
            if (before := self._watched.predecessor(room)) is not None:
                series.first_judged_at = before.first_judged_at  # what waits now, waited for a judge that was there
            self._begin(series, at=score.judged_at)
            self._watched.add(series)
            if room != key:
                events.append(explain.more_values(series, at=score.judged_at))
        return series

    def _beside(self, series: Series, event: AlertEvent) -> AlertEvent:
        """The event with what is known of its judge, where it is about verdicts."""
        return self.judges.beside(event) if series.rule.budget == "quality" else event

    def _retire(self, now: datetime) -> None:
        self._ways.clear()
        gone, grown = self._watched.retire(now)
        for key in gone:
            self._changed.pop(key, None)
            self._gone[snapshots.series_name(key)] = None
        self._changed |= dict.fromkeys(grown)
        self._places.retire(now)

    def _status(self, series: Series) -> SeriesStatus:
        key = series.key
        alarm_hours = self._watched.alarm_hours(series)
        health = self._places.at(JudgePlace(key.environment, key.app, key.judge_name, key.judge_id))
        share = self._watched.share(key)
        return status_of(series, alarm_hours=alarm_hours, share=share, health=health, now=self._now)


def _same_question(was: Rule, rule: Rule, *, key: SeriesKey) -> bool:
    """Whether evidence gathered under `was` is evidence under `rule`."""
    watched = rule.watches(environment=key.environment, app=key.app, judge_name=key.judge_name)
    return watched and was.question == rule.question
