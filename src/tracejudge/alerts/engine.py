"""Folds score rows into the series of all rules and returns the events of those that change."""

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
from tracejudge.alerts.series.routes import Routes
from tracejudge.alerts.series.snapshots import SeriesSnapshot
from tracejudge.alerts.series.state import Series, Turn
from tracejudge.alerts.series.status import SeriesStatus, status_of
from tracejudge.alerts.series.succession import learned_baselines
from tracejudge.alerts.series.watched import Watched
from tracejudge.anchors import AnchorRound
from tracejudge.scores import LIVE_RUN, JudgeId, Score, TraceFacts, TraceKey

FindOverlap = Callable[[SeriesKey, JudgeId, datetime], Overlap | None]
"""Given the key of a new series, the JudgeId before it and an instant: the traces that both judged until then."""


class Engine:
    """The detectors of all rules, and of the judges themselves (`judges`).

    Pure: takes rows, anchor rounds, actions and instants, returns events. Not thread-safe. `promises` bounds the false
    alarms of all rules together; `drift` says how judges are watched; `overlap` finds the traces that two JudgeIds both
    judged, by which a baseline is carried over from one to the next.

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
        self.unwatched = 0  # number of rows of slices beyond the limit
        self.judges = JudgeDrift(drift)
        self._overlap = overlap
        self._watched = Watched(rules, promises)
        self._places = JudgePlaces()
        self._watching: dict[tuple[str, str, str], tuple[Rule, ...]] = {}  # by environment, app, judge name
        self._routes = Routes()  # of rows folded since the last snapshot
        self._changed: dict[SeriesKey, None] = {}  # since the last snapshot, in order
        self._retired: dict[str, None] = {}  # names of snapshots to be marked as retired
        self._now: datetime | None = None

    def fold(self, scores: Iterable[Score], *, facts: Mapping[TraceKey, TraceFacts] | None = None) -> list[AlertEvent]:
        """Folds live rows in the order given; the same rows in any batches give the same events.

        The caller gives each (trace, JudgeId) once, and `facts` of their traces where rules need them (`asks_traces`,
        `trace_fields`). Rows of other runs are ignored, and so are re-scores (revision above 0), whose trace was folded
        when first judged. The health of every judge is watched, with or without a rule.
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
        """Folds a finished anchor round of a judge; call it between the rows judged before and after its end."""
        opened = [
            series.alert.event_id
            for series in self._watched.series.values()
            if series.key.judge_id == one.judge_id and series.alert is not None
        ]
        overdue = self.judges.overdue(one.finished_at or one.round_at)
        return overdue + self.judges.fold(one, open_alerts=sorted(opened))

    def tick(
        self, now: datetime, *, folded: datetime | None = None, silences: Sequence[Action] = ()
    ) -> list[AlertEvent]:
        """Events that time alone brings: no data, reminders (also of what fired in a silence that is over), and held
        alerts whose wait for their judge is over.

        Call it when all rows up to about `now` are folded, and all anchor rounds up to `folded` (default: `now`): a
        round that was finished before an alert's deadline still answers it.
        """
        self._now = now
        events: list[AlertEvent] = []
        for family, series in self._watched.latest():
            limit, last = series.rule.silence_limit, series.last_judged_at
            if limit is None or last is None or now - last <= limit or family in self._watched.silent:
                continue
            series.silent = True
            self._watched.silent[family] = series.key
            # At the deadline's instant, not the tick's, so that every process makes the same event.
            events.append(explain.silence(series, at=last + limit, limit=limit))
            self._changed[series.key] = None
        for series in self._watched:
            deadline = growth.silence_over(series, silences, now) or growth.reminder_due(series, now)
            if deadline is not None:
                events.append(self._with_judge(series, growth.reminder(series, at=deadline)))
                self._changed[series.key] = None
        self._retire(now)
        return events + self.judges.tick(folded or now)

    def apply(self, action: Action) -> list[AlertEvent]:
        """Applies an action: accept and dismiss close the open alerts they match, acknowledge stops their reminders.

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
            events.append(self._with_judge(series, explain.closed_by_action(series, action)))
            if action.verb == "accept":
                series.accept()
            else:
                series.dismiss()
        return events + self.judges.apply(action)

    def seed(self, key: SeriesKey, hours: Iterable[HourSums], *, heuristic: bool, at: datetime | None = None) -> None:
        """Seeds the learned baseline of a series from a replay's `hours` before its first row, or from the overlap with
        its predecessor until `at`, whichever is more certain.

        A seeded series knows from its first row on what would take weeks to learn. `heuristic`: whether its judge is
        one. Does nothing for a rule that is unknown or learns no baseline, and for a series with an open alert.
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
        """Sets the baseline of a new or young series from `hours`, its predecessor's baseline and their overlap."""
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
        """Whether a rule needs facts of traces: their latency, or fields to group by."""
        return bool(self.trace_fields) or any(rule.measure == "latency_ms" for rule in self.rules.values())

    @property
    def trace_fields(self) -> tuple[str, ...]:
        """The fields of traces that rules group by."""
        return trace_fields(self.rules.values())

    def status(self) -> list[SeriesStatus]:
        """The status of every series as of the last fold and tick, in the order of their keys; judges' series last."""
        quality = [self._status(series) for series in self._watched]
        return quality + self.judges.status(now=self._now)

    def snapshot(self, *, changed_only: bool = False) -> list[SeriesSnapshot]:
        """The state of all series, or of those changed since the last call; series retired since then as RETIRED."""
        chosen = self._changed if changed_only else self._watched.series
        taken = [SeriesSnapshot(name, snapshots.RETIRED) for name in self._retired]
        taken += [snapshots.of_series(self._watched.series[key]) for key in chosen]
        taken += self._places.snapshot(changed_only=changed_only)
        self._changed.clear()
        self._retired.clear()
        self._routes.clear()
        return taken + self.judges.snapshot(changed_only=changed_only)

    def restore(self, taken: Iterable[SeriesSnapshot]) -> list[AlertEvent]:
        """Continues from snapshots; returns the closing events of open alerts whose rule was removed or changed.

        A series whose rule asks another question now starts anew, because its evidence was about another boundary.
        Where a rule was removed, the other series have larger shares of the promise, and their evidence is scaled down
        as when series are retired.
        """
        self._routes.clear()
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
            self._retired[snapshot.name] = None
        were = Budget(tuple({rule.name: rule for rule in stored.values()}.values()), keys=stored)
        grown = self._watched.scaled_from({key: were.share(key) for key in self._watched.series})
        self._changed |= dict.fromkeys(grown)
        return [self.judges.annotated(event) for event in events]

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
        route_key = (rule.name, score.environment, score.app, score.judge_name, score.judge_id, group)
        route = self._routes.get(route_key)
        if route is None:
            found = self._series_of(rule, score, facts, events)
            if found is None:
                self.unwatched += 1
                return
            route = self._routes.add(route_key, found)
        key, series = route.series.key, route.series
        quiet = self._watched.silent.pop(family_of(key), None) if self._watched.silent else None
        if quiet is not None:
            self._watched.series[quiet].silent = False
            events.append(explain.data_back(self._watched.series[quiet], at=score.judged_at))
            self._changed[quiet] = None
        alarm_hours = route.alarm_hours(self._watched)
        turn = series.fold(score, alarm_hours=alarm_hours, latency_ms=facts.latency_ms if facts else None)
        if turn is Turn.FIRED:
            fired = kinds.firing(series, share=self._watched.share(key), health=health.share)
            events.append(self._with_judge(series, with_model_change(fired, health)))
        elif turn is Turn.RESOLVED:
            events.append(self._with_judge(series, kinds.resolved(series, at=score.judged_at)))
            series.close()
        elif turn is Turn.ESCALATED and effective_severity(rule, heuristic=series.heuristic) == "page":
            events.append(self._with_judge(series, kinds.escalated(series, at=score.judged_at)))

    def _series_of(self, rule: Rule, score: Score, facts: TraceFacts | None, events: list[AlertEvent]) -> Series | None:
        """The series that a row is folded into, recorded as changed; None where the rule has no room for another."""
        key = key_of(rule, score, facts)
        series = self._watched.series.get(key) or self._admit(rule, key, score, events)
        if series is not None:
            self._changed[series.key] = None
        return series

    def _admit(self, rule: Rule, key: SeriesKey, score: Score, events: list[AlertEvent]) -> Series | None:
        """The series for a key that is not watched yet: one of its own, or the one that collects the values beyond
        `max_series`, whose start is an event. None where there is no room at all."""
        room = self._watched.room_of(key)
        if room is None:
            return None
        series = self._watched.series.get(room)
        if series is None:
            series = kinds.new_series(key=room, rule=rule)
            if (before := self._watched.predecessor(room)) is not None:
                series.first_judged_at = before.first_judged_at  # this JudgeId continues a judge that was there before
            self._begin(series, at=score.judged_at)
            self._watched.add(series)
            if room != key:
                events.append(explain.more_values(series, at=score.judged_at))
        return series

    def _with_judge(self, series: Series, event: AlertEvent) -> AlertEvent:
        """The event with what is known of its judge, where it is about verdicts."""
        return self.judges.annotated(event) if series.rule.budget == "quality" else event

    def _retire(self, now: datetime) -> None:
        self._routes.clear()
        gone, grown = self._watched.retire(now)
        for key in gone:
            self._changed.pop(key, None)
            self._retired[snapshots.series_name(key)] = None
        self._changed |= dict.fromkeys(grown)
        self._places.retire(now)

    def _status(self, series: Series) -> SeriesStatus:
        key = series.key
        alarm_hours = self._watched.alarm_hours(series)
        health = self._places.at(JudgePlace(key.environment, key.app, key.judge_name, key.judge_id))
        share = self._watched.share(key)
        return status_of(series, alarm_hours=alarm_hours, share=share, health=health, now=self._now)


def _same_question(was: Rule, rule: Rule, *, key: SeriesKey) -> bool:
    """Whether evidence gathered under the rule `was` still counts under `rule`."""
    watched = rule.watches(environment=key.environment, app=key.app, judge_name=key.judge_name)
    return watched and was.question == rule.question
