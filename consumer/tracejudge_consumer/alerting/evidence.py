"""Evidence added to alerts on their way out: computed from the store, written as a page, never a reason to wait.

An alert without evidence is told all the same: whatever goes wrong here is logged and the event passes as it came.
Events keep their ids, so that a kill at any point only makes the same page again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Final

from tracejudge.alerts import AlertEvent, Promises, Rule
from tracejudge.clock import Clock
from tracejudge.evidence import Evidence, evidence_page, gather, tells_of_a_fall, with_evidence
from tracejudge.evidence.gather import healthy
from tracejudge.evidence.page import Quotes
from tracejudge.evidence.resampled import MOST_PLAYED, resample
from tracejudge.scores import LIVE_RUN, TraceKey
from tracejudge.store import Store
from tracejudge_consumer.alerting.actions import read_actions
from tracejudge_consumer.alerting.evidence_pages import EvidencePages
from tracejudge_consumer.alerting.staleness import STALE_AFTER

logger = logging.getLogger(__name__)

MOST_AT_ONCE: Final = 5
"""Alerts explained in a round: each costs some tenths of a second. Those that are still open come first, of these
pages, and then the largest falls. The others are told without, and say so; the next rounds make up for it."""

NOT_YET: Final = (
    "evidence not gathered this round: more alerts came at once than are explained in one, the next adds it"
)
"""What an event says in `gathered` until its evidence is there."""

MOST_PLAYED_AT_ONCE: Final = 100_000
"""Rows of healthy history played over again for one alert of a round, where its rule has no record yet: two seconds."""

MOST_DAYS: Final = 365

_SWEEP_EVERY_S: Final = 300.0
_MOST_LEFT: Final = 1000  # of the last day's events, looked through at the start


class AlertEvidence:
    """Explains alerts of a fall. `criteria`: what each judge measures. `texts`: whether pages may quote traces."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        criteria: Mapping[str, str],
        rules: Sequence[Rule] = (),
        promises: Promises | None = None,
        pages: EvidencePages | None = None,
        texts: bool = False,
        release: str = "",
    ) -> None:
        self._store = store
        self._clock = clock
        self._criteria = dict(criteria)
        self._rules = {rule.name: rule for rule in rules}
        self._promises = promises or Promises()
        self._pages = pages
        self._texts = texts
        self._release = release
        self._swept_at: float | None = None
        self._left: list[str] | None = None  # events told without; None: not looked for since the start
        self._explained_now = 0  # in this round

    def explained(self, events: Sequence[AlertEvent], *, still_open: AbstractSet[str | None]) -> list[AlertEvent]:
        """The events in their order, those about a fall with their evidence as far as the time allows; the others say
        that it is still to come (`catch_up`). Of an event that comes twice, because it was held back and released in
        one round, only the last is stored and sent, and only that is explained."""
        now = self._clock.now()
        last = {event.event_id: number for number, event in enumerate(events)}
        wanted = [
            event
            for number, event in enumerate(events)
            if last[event.event_id] == number
            if tells_of_a_fall(event) and (event.alert_id in still_open or now - event.at <= STALE_AFTER)
        ]
        wanted.sort(key=lambda event: (event.alert_id not in still_open, event.severity != "page", -fall_of(event)))
        first, later = wanted[:MOST_AT_ONCE], [event.event_id for event in wanted[MOST_AT_ONCE:]]
        if later:
            logger.warning("evidence: %d of %d alerts of this round are told without it", len(later), len(wanted))
        self._left_over().extend(one for one in later if one not in self._left_over())
        self._explained_now = len(first)
        played: list[str] = []  # one rule a round
        found = {event.event_id: self._explained(event, played) for event in first}
        found |= {event.event_id: self._put_off(event) for event in wanted[MOST_AT_ONCE:]}
        return [
            found.get(event.event_id, event) if last[event.event_id] == number else event
            for number, event in enumerate(events)
        ]

    def catch_up(self) -> int:
        """Gathers the evidence of alerts that were sent without, as far as the round has time for it, and stores it
        with the event and on its page. Returns the number of events explained. Call it at the end of each round; a
        process that takes over knows as well what is left. Raises ServiceUnavailable."""
        left, room = self._left_over(), MOST_AT_ONCE - self._explained_now
        self._explained_now = 0
        chosen = left[:room]
        if not chosen:
            return 0
        played: list[str] = []
        events = [self._explained(_without_mark(event), played) for event in self._store.alert_events.get(chosen)]
        self._store.alert_events.insert(events)
        del left[: len(chosen)]
        return len(events)

    def _left_over(self) -> list[str]:
        """Ids of the alerts that were sent without evidence, in the order in which they get it."""
        if self._left is None:
            recent = self._store.alert_events.all(since=self._clock.now() - STALE_AFTER, limit=_MOST_LEFT)
            self._left = [event.event_id for event in reversed(recent) if event.evidence.get("gathered") == NOT_YET]
        return self._left

    def _put_off(self, event: AlertEvent) -> AlertEvent:
        """The event with the address of its page, which is written a round later."""
        page = {} if self._pages is None else {"page": self._pages.link(event.event_id)}
        return replace(event, evidence={**event.evidence, "gathered": NOT_YET, **page})

    def evidence(self, event: AlertEvent) -> Evidence:
        """The evidence of one alert. Raises ValueError for another event, and what the store raises."""
        return gather(self._store, event, criteria=self._criteria, actions=read_actions(self._store))

    def measured(
        self,
        evidence: Evidence,
        rule: Rule,
        *,
        days: int,
        most: int = MOST_PLAYED,
        at_least: float = 1.0,
        told: Callable[[int], None] = lambda _: None,
    ) -> Evidence:
        """The evidence with the rule played over its own healthy history for `days`, or as many as `most` rows make;
        without that where these are fewer than `at_least`."""
        hours, series = evidence.event.evidence.get("alarm_hours"), evidence.event.series
        promised = self._promises.hours(rule, environment=series.environment, app=series.app)
        played = resample(
            rule,
            series,
            healthy(self._store, evidence, read_actions(self._store), limit=most // 2),
            alarm_hours=float(hours) if isinstance(hours, float | int) else promised,
            days=days,
            most=most,
            at_least=at_least,
            told=told,
        )
        return replace(evidence, resampled=played)

    def html(self, evidence: Evidence, *, texts: bool | None = None) -> str:
        """The page about it; `texts` None: as the settings say."""
        quotes = self._quotes(evidence) if (self._texts if texts is None else texts) else None
        return evidence_page(evidence, release=self._release, made_at=self._clock.now(), quotes=quotes)

    def sweep_if_due(self) -> None:
        """Every five minutes: pages whose time is over, or that name what was forgotten, are removed."""
        now = self._clock.monotonic()
        if self._pages is None or (self._swept_at is not None and now - self._swept_at < _SWEEP_EVERY_S):
            return
        self._swept_at = now
        try:
            gone = self._pages.sweep(now=self._clock.now(), events=self._store.alert_events.get)
        except OSError as error:
            logger.error("evidence pages: could not be swept, next try in %g s: %s", _SWEEP_EVERY_S, error)
            return
        if gone:
            logger.info("evidence pages: %d removed", gone)

    def _explained(self, event: AlertEvent, played: list[str]) -> AlertEvent:
        try:
            found = self.evidence(event)
            rule = self._rules.get(event.series.rule)
            if rule is not None and not played and found.record.per_promise is None:
                # Less than the promised time would say nothing.
                found = self.measured(
                    found, rule, days=MOST_DAYS, most=MOST_PLAYED_AT_ONCE, at_least=found.record.promise_days
                )
                played.append(rule.name)
        except Exception:  # evidence is a comfort: an alert must go out whatever stands in the way of it
            logger.exception("event %s: told without evidence", event.event_id)
            return event
        return with_evidence(found, page=self._written(found))

    def _written(self, evidence: Evidence) -> str | None:
        if self._pages is None:
            return None
        event_id = evidence.event.event_id
        try:
            return self._pages.write(event_id, self.html(evidence))
        except Exception:  # as above: a full disk, or a page that cannot be drawn, holds no notification up
            logger.exception("event %s: told without a page", event_id)
            return None

    def _quotes(self, evidence: Evidence) -> Quotes:
        series = evidence.event.series
        keys = {one.trace_id: TraceKey(series.environment, series.app, one.trace_id) for one in evidence.worst}
        traces = self._store.traces.of(list(keys.values()))
        found = {}
        for trace_id, key in keys.items():
            scores = self._store.scores.of_trace(trace_id, environment=key.environment, app=key.app)
            verdict = next((s for s in scores if s.run_id == LIVE_RUN and s.judge_id == series.judge_id), None)
            found[trace_id] = (traces.get(key), verdict)
        return found


def fall_of(event: AlertEvent) -> float:
    """How far the rate fell by the detector's numbers, from its former level or from the boundary; 0 where the event
    has neither. It is estimated where it looks worst: good for ordering alerts, not for a statement."""
    told = event.evidence
    since, before = (_rate_in(told.get(name)) for name in ("since", "before"))
    boundary = told.get("boundary")
    level = before if before is not None else boundary if isinstance(boundary, float | int) else None
    return 0.0 if since is None or level is None else level - since


def _rate_in(numbers: object) -> float | None:
    rate = numbers.get("rate") if isinstance(numbers, Mapping) else None
    return float(rate) if isinstance(rate, float | int) else None


def _without_mark(event: AlertEvent) -> AlertEvent:
    return replace(event, evidence={name: value for name, value in event.evidence.items() if name != "gathered"})
