"""Evidence added to alerts on their way out: computed from the store, written as a page, never a reason to wait.

An alert without evidence is told all the same: whatever goes wrong here is logged and the event passes as it came.
Events keep their ids, so that a kill at any point only makes the same page again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from datetime import timedelta
from typing import Final

from tracejudge.alerts import AlertEvent, Promises, Rule
from tracejudge.clock import Clock
from tracejudge.evidence import Evidence, evidence_page, gather, tells_of_a_fall, with_evidence
from tracejudge.evidence.gather import healthy
from tracejudge.evidence.page import Quotes
from tracejudge.evidence.resampled import MOST_PLAYED, resample
from tracejudge.scores import LIVE_RUN, TraceKey
from tracejudge.store import Store
from tracejudge_consumer.alert_actions import read_actions
from tracejudge_consumer.evidence_pages import EvidencePages

logger = logging.getLogger(__name__)

MOST_AT_ONCE: Final = 5
"""Alerts explained in a round, those of series that are still open first: each costs some tenths of a second. The
others are told without, and `tracejudge alerts show` makes up for it."""

MOST_PLAYED_AT_ONCE: Final = 100_000
"""Rows of healthy history played over again for one alert of a round, where its rule has no record yet: two seconds."""

MOST_DAYS: Final = 365

_STALE_AFTER: Final = timedelta(hours=24)  # as deliveries have it: nobody is told of older ones unless they are open
_SWEEP_EVERY_S: Final = 300.0


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

    def explained(self, events: Sequence[AlertEvent], *, still_open: AbstractSet[str | None]) -> list[AlertEvent]:
        """The events in their order, those that tell of a fall with their evidence where there is time for it."""
        now = self._clock.now()
        wanted = [
            event
            for event in events
            if tells_of_a_fall(event) and (_alert_of(event) in still_open or now - event.at <= _STALE_AFTER)
        ]
        wanted.sort(key=lambda event: _alert_of(event) not in still_open)
        chosen = {event.event_id for event in wanted[:MOST_AT_ONCE]}
        if len(wanted) > MOST_AT_ONCE:
            logger.warning("evidence: %d of %d alerts of this round are told without it", len(wanted) - MOST_AT_ONCE,
                           len(wanted))  # fmt: skip
        played: list[str] = []  # one rule a round
        return [self._explained(event, played) if event.event_id in chosen else event for event in events]

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


def _alert_of(event: AlertEvent) -> str:
    """The id of the alert that an event is about: its own, or that of the one that grew."""
    fired = event.evidence.get("fired_event_id")
    return fired if isinstance(fired, str) else event.event_id
