"""Has a judge moved? Its verdicts on frozen traces, watched by the detector that watches the product.

For each (anchor set, JudgeId) two series, each as any other one: x = 1 where the verdict on an anchor is that of the
first round, and x = 1 where it is what people said is right. A round is folded whole: its first row brings the hours
since the last round, its invalid verdicts come first, the others in an order drawn anew for each round, and only the
last one may fire. So the products of a round's factors count, and by the inequality of the means their expectation is
at most 1 while the mean agreement is at least the boundary, however different the anchors are.

While the agreement is not known yet, `flips.py` holds each round against the first; of a judge that moved by it nothing
is learned.

The promise is a budget of its own: "1 per 30d" for all judges and sets together, beside that of the quality series.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from tracejudge.alerts.actions import Action
from tracejudge.alerts.durations import parse_false_alarms
from tracejudge.alerts.event import AlertEvent
from tracejudge.alerts.judges.answered import answered_from
from tracejudge.alerts.judges.held import HeldAlerts
from tracejudge.alerts.judges.round_rows import digest_of, nothing_yet, round_rows
from tracejudge.alerts.judges.standing import AGAINST, DriftPolicy, Standing, WatchedJudge
from tracejudge.alerts.judges.words import as_of, drift_event, mark, steady_event
from tracejudge.alerts.series.snapshots import FORMAT, SeriesSnapshot
from tracejudge.alerts.series.state import Series, Turn
from tracejudge.alerts.series.status import SeriesStatus, status_of
from tracejudge.anchors import AnchorRound
from tracejudge.scores import JudgeId

LATELY: Final = timedelta(days=30)
"""An anchor set whose last round is this much older than the latest round of all is no longer taken into account."""

_KIND: Final = "anchors"
_HELD: Final = "anchors:held"


class JudgeDrift:
    """Detects judges that moved, and holds back quality alerts of such judges where the policy says so.

    Pure: takes anchor rounds, actions and instants, returns events. Not thread-safe.
    """

    def __init__(self, policy: DriftPolicy | None = None) -> None:
        self.policy = policy or DriftPolicy()
        self._watched: dict[tuple[str, JudgeId], WatchedJudge] = {}
        self._held = HeldAlerts()
        self._changed: dict[str, None] = {}  # names of snapshots

    def fold(self, one: AnchorRound, *, open_alerts: Iterable[str] = ()) -> list[AlertEvent]:
        """Folds a finished round; ignores one that is not later than the judge's last round of the set.

        `open_alerts` are the event ids of this JudgeId's open quality alerts, which a drift event names.
        """
        place = (one.set_id, one.judge_id)
        watched = self._watched.get(place)
        if watched is None:
            watched = self._watched[place] = WatchedJudge.first(one, self.policy)
        elif watched.last.round_at >= one.round_at:
            return []
        known = dict(watched.reference)
        events: list[AlertEvent] = []
        watched.begin(one)
        events += self._look(watched, known, open_alerts=open_alerts)
        for against in AGAINST:
            right = known if against == "reference" else one.expected
            rows = round_rows(one, right)
            if not rows and against not in watched.series:
                continue
            series = watched.series_of(against, self.policy)
            rows = rows or [nothing_yet(one)]
            watched.remember(against)
            if series.alert is None and series.baseline is not None:
                series.baseline.learn_all()  # the rounds before: hours say nothing here, the next round does
            if watched.flips.moved is not None and not _armed(series):
                continue
            for number, row in enumerate(rows, start=1):
                last = number == len(rows)
                turn = series.fold(row, alarm_hours=self._alarm_hours if last else math.inf)
                if turn is Turn.FIRED:
                    events.append(drift_event(watched, against, open_alerts=tuple(open_alerts)))
                elif turn is Turn.RESOLVED:
                    events.append(steady_event(watched, against, at=one.finished_at or one.round_at))
                    series.close()
        self._changed[_name(place)] = None
        at = one.finished_at or one.round_at
        return events + self._answered(one, at=at) + self._released(one.judge_id, at=at)

    def _look(
        self, watched: WatchedJudge, known: Mapping[str, bool], *, open_alerts: Iterable[str]
    ) -> list[AlertEvent]:
        """Events by the flips of the last round, which are used while the agreement with the first is not learned."""
        one, series = watched.last, watched.series["reference"]
        if series.alert is None and series.baseline is not None:
            series.baseline.learn_all()
        series.heuristic = one.heuristic
        at = one.finished_at or one.round_at
        turn = watched.flips.see(known, one.settled, armed=_armed(series), at=at)
        if turn is Turn.FIRED:
            return [drift_event(watched, "reference", open_alerts=tuple(open_alerts))]
        if turn is Turn.RESOLVED:
            event = steady_event(watched, "reference", at=at)
            watched.flips.close()
            return [event]
        return []

    def standing(self, judge_id: str) -> Standing | None:
        """The standing of a JudgeId: of several sets and measures one that moved, else the latest; None without a
        round."""
        mine = [one for one in self.standings() if one.judge_id == judge_id]
        return max(mine, key=lambda one: (one.moved, one.at), default=None)

    def standings(self) -> list[Standing]:
        """The standings of all judges with recent rounds (`LATELY`), in the order of set, JudgeId and measure."""
        found = [
            watched.standing(against)
            for _, watched in sorted(self._lately())
            for against in AGAINST
            if against in watched.series
        ]
        return [one for one in found if one is not None]

    def _lately(self) -> list[tuple[tuple[str, JudgeId], WatchedJudge]]:
        """The judges with recent rounds: a set or a JudgeId that was replaced gets no more rounds."""
        latest = max((watched.last.round_at for watched in self._watched.values()), default=None)
        return [
            (place, watched)
            for place, watched in self._watched.items()
            if latest is not None and latest - watched.last.round_at <= LATELY
        ]

    @property
    def holds(self) -> bool:
        """Whether any alert is held back."""
        return bool(self._held)

    @property
    def held(self) -> list[AlertEvent]:
        """The firing events of the alerts that are held back."""
        return self._held.firing()

    def annotated(self, event: AlertEvent) -> AlertEvent:
        """A quality event with what is known of its judge in its evidence; an event that is held back says so there."""
        if event.kind != "firing":
            return self._held.follow(event)
        standing, too_early = self.standing(event.series.judge_id), self._too_early(event)
        asks = too_early and event.series.judge_id in self.policy.asked
        if standing is not None:
            event = mark(event, standing, too_early=too_early, asks=asks)
        if self.policy.on_judge_drift != "hold":
            return event
        if standing is not None and standing.moved:
            return self._held.begin(event)
        return self._held.wait(event) if asks else event

    def _too_early(self, event: AlertEvent) -> bool:
        """Whether the judge has rounds, and the last one began too early to answer the alert."""
        since, judge_id = answered_from(event), event.series.judge_id
        rounds = [watched.last.round_at for (_, one), watched in self._lately() if one == judge_id]
        return since is not None and bool(rounds) and max(rounds) < since

    def tick(self, now: datetime) -> list[AlertEvent]:
        """Releases the held alerts that are overdue, or all of them where the policy holds none (any more)."""
        return self.overdue(now) if self.policy.on_judge_drift == "hold" else self._held.let_go_all(at=now)

    def overdue(self, at: datetime) -> list[AlertEvent]:
        """Releases the held alerts whose wait has ended by the instant `at`.

        Call it before anything of that instant is folded: a process that runs late must not use an answer that another
        one did not wait for.
        """
        return self._held.let_go_overdue(at) if self.policy.on_judge_drift == "hold" else []

    def wait_no_more(self, unanswerable: Callable[[AlertEvent], bool], *, at: datetime) -> list[AlertEvent]:
        """Releases the alerts that wait for a round which, as `unanswerable` says, will not come."""
        words = "told without a round of its judge's anchors: the day's are used up"
        return [
            told
            for event in self._held.all_waiting()
            if unanswerable(event)
            for told in self._held.answer(event, at=at, words=words)
        ]

    def apply(self, action: Action) -> list[AlertEvent]:
        """Closes the drift alerts that an accept or a dismissal matches. An accepted judge is compared with its last
        round from now on."""
        events: list[AlertEvent] = []
        if action.verb not in ("accept", "dismiss"):
            return events
        for place, watched in sorted(self._watched.items()):
            for against, series in list(watched.series.items()):
                fired = watched.open_event(against)
                if fired is None or not action.matches(series.key, event_id=fired):
                    continue
                events.append(steady_event(watched, against, at=action.at, action=action))
                if action.verb == "accept":
                    watched.accept(against, self.policy)
                elif series.alert is not None:
                    series.dismiss()
                else:
                    watched.flips.close(dismissed=True)
                self._changed[_name(place)] = None
                events += self._released(watched.last.judge_id, at=action.at)
        return events

    def status(self, *, now: datetime | None) -> list[SeriesStatus]:
        """Every series of every judge, in the order of their keys."""
        every = []
        for watched in self._watched.values():
            for against, series in watched.series.items():
                hours = self._alarm_hours
                share = parse_false_alarms(series.promise).total_seconds() / 3600.0 / hours
                one = status_of(series, alarm_hours=hours, share=share, health=None, now=now)
                fired = watched.open_event(against)
                every.append(one if fired is None else replace(one, state="firing", alert_event_id=fired))
        return sorted(every, key=lambda one: (one.key.judge_id, one.key.group))

    def snapshot(self, *, changed_only: bool) -> list[SeriesSnapshot]:
        """The state of all judges and held alerts, or of what changed since the last call."""
        taken = [
            SeriesSnapshot(_name(place), {"format": FORMAT, "kind": _KIND, "judge": watched.to_state()})
            for place, watched in self._watched.items()
            if not changed_only or _name(place) in self._changed
        ]
        if self._held.changed or (self._held and not changed_only):
            held = self._held.to_state()
            taken.append(SeriesSnapshot(_HELD, {"format": FORMAT, "kind": _KIND, "held": held}))
        self._changed.clear()
        self._held.changed = False
        return taken

    def restore(self, snapshot: SeriesSnapshot) -> list[AlertEvent] | None:
        """Continues from a snapshot; returns the closing events of series whose settings have changed, and None where
        the snapshot is not one of a judge's drift."""
        state = snapshot.state
        if state.get("kind") != _KIND or state.get("format") != FORMAT:
            return None
        if "held" in state:
            self._held.restore(state["held"])
            return []
        watched, other = WatchedJudge.from_state(state["judge"], self.policy)
        self._watched[watched.last.set_id, watched.last.judge_id] = watched
        events = []
        for against, series in other.items():
            if series.alert is not None or watched.open_event(against) is not None:
                at = watched.last.finished_at or watched.last.round_at
                events.append(steady_event(watched, against, at=at, series=series, because="rule_changed"))
            if against == "reference":
                watched.flips.close()
            self._changed[snapshot.name] = None
        return events

    @property
    def _alarm_hours(self) -> float:
        """The evidence, in hours, at which a series fires. Each (set, judge name, measure) has an equal share of the
        promise; a new JudgeId takes over that of the old one."""
        parts = {
            (place[0], watched.last.judge_name, against)
            for place, watched in self._lately()
            for against in watched.series
        }
        between = parse_false_alarms(self.policy.false_alarms)
        return between.total_seconds() / 3600.0 * max(1, len(parts))

    def _answered(self, one: AnchorRound, *, at: datetime) -> list[AlertEvent]:
        """The alerts that waited for this round: released, or held on where the judge has moved.

        A round that began too early for an alert answers it only when it found that the judge has moved.
        """
        standing, events = self.standing(one.judge_id), []
        for event in self._held.waiting(one.judge_id):
            if standing is not None and standing.moved:
                events.append(self._held.begin(mark(event, standing)))
            elif (since := answered_from(event)) is None or since <= one.round_at:
                marked = event if standing is None else mark(event, standing)
                events += self._held.answer(marked, at=at, words=f"held back for an anchor round: {as_of(standing)}")
        return events

    def _released(self, judge_id: str, *, at: datetime) -> list[AlertEvent]:
        """Releases the held alerts of a judge that is steady again, as the same events."""
        standing = self.standing(judge_id)
        if standing is not None and standing.moved:
            return []
        return self._held.let_go_of(judge_id, at=at)


def _armed(series: Series) -> bool:
    """Whether the series can fire: its rate is known well enough."""
    return series.alert is not None or series.baseline is None or series.baseline.smallest_drop is not None


def _name(place: tuple[str, str]) -> str:
    return f"anchors:{digest_of(*place)}"
