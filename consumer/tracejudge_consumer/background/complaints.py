"""Traces that somebody complained about, judged for that reason: run "feedback", a population of its own.

Each has chance 1 there, whatever its chance in live traffic. Where the live verdict is in the cache it is served from
there; else the call counts in the judge's budget as every other.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Final, Protocol

from tracejudge.clock import Clock
from tracejudge.judging import JudgeTask
from tracejudge.sampling import FeedbackTrigger
from tracejudge.scores import FEEDBACK_RUN, Decision, TraceKey
from tracejudge.store import Known, StoredFeedback, StoredTrace
from tracejudge_consumer.background.needs import StillOurs, StoredTraces
from tracejudge_consumer.report import PipelineReport
from tracejudge_consumer.stages.judge import Judging
from tracejudge_consumer.stages.needs import Judges
from tracejudge_consumer.stages.store_calls import StoreCalls

_LOG = logging.getLogger(__name__)

PAGE: Final = 100

LOOK_BACK: Final = timedelta(days=1)
"""So long a complaint waits for its trace: feedback may be read before the answer it is about."""


class BadFeedback(Protocol):
    def below(self, value: float, /, *, since: datetime, limit: int) -> list[StoredFeedback]: ...


class ComplaintsStore(Protocol):
    @property
    def feedback(self) -> BadFeedback: ...
    @property
    def traces(self) -> StoredTraces: ...
    def lookup(self, keys: Sequence[TraceKey], /, *, run_id: str) -> Mapping[TraceKey, Known]: ...


class Complaints:
    """Judges what feedback speaks against. For one event loop."""

    def __init__(
        self,
        *,
        store: ComplaintsStore,
        judges: Judges,
        judging: Judging,
        calls: StoreCalls,
        trigger: FeedbackTrigger,
        clock: Clock,
        count: Callable[[PipelineReport], None],
    ) -> None:
        self._store = store
        self._judges = judges
        self._judging = judging
        self._calls = calls
        self._trigger = trigger
        self._clock = clock
        self._count = count
        self._done: dict[TraceKey, datetime] = {}  # decided by this process: when its feedback came in

    async def due(self) -> bool:
        return bool(await self._open(1))

    async def work(self, still_ours: StillOurs) -> None:
        while still_ours() and (page := await self._open(PAGE)):
            await self._judge(page)
            if len(page) < PAGE:
                return

    async def _open(self, limit: int) -> list[StoredTrace]:
        """Complained-about traces that are stored and not judged for it yet."""
        since = self._clock.now() - LOOK_BACK
        self._done = {key: at for key, at in self._done.items() if at >= since}
        found: dict[TraceKey, datetime] = {}
        while True:
            rows: list[StoredFeedback] = await self._calls(
                partial(self._store.feedback.below, self._trigger.value_below, since=since, limit=10 * PAGE)
            )
            for row in rows:
                key = TraceKey(row.feedback.environment, row.feedback.app, row.feedback.trace_id)
                if key not in self._done:
                    found.setdefault(key, row.ingested_at)
            if not rows or len(rows) < 10 * PAGE or len(found) >= limit or rows[-1].ingested_at == since:
                break
            since = rows[-1].ingested_at
        keys = list(found)[: max(limit, PAGE)]
        if not keys:
            return []
        known = await self._calls(partial(self._store.lookup, keys, run_id=FEEDBACK_RUN))
        wanted = {self._judges.judge_ids[name] for name in self._trigger.judges if name in self._judges.judge_ids}
        for key in [key for key in keys if key in known and wanted <= known[key].settled]:
            self._done[key] = found[key]
        waiting = [key for key in keys if key in known and key not in self._done]
        traces: Mapping[TraceKey, StoredTrace] = await self._calls(partial(self._store.traces.of, waiting))
        return [traces[key] for key in waiting if key in traces and not traces[key].texts_expired][:limit]

    async def _judge(self, page: Sequence[StoredTrace]) -> None:
        names = frozenset(name for name in self._trigger.judges if name in self._judges.judge_ids)
        tasks = [
            JudgeTask(
                trace=one.trace,
                judge_names=names,
                inclusion_probability=dict.fromkeys(names, 1.0),
                event_time=one.trace.event_time,
            )
            for one in page
        ]
        result = await self._calls.until_answered(lambda: self._judges.evaluate(tasks, run_id=FEEDBACK_RUN))
        # A judge that is gone for now is asked again in a later round; the ledger's undecided rows are live ones.
        decided = tuple(row for row in result.ledger if row.decision is not Decision.UNDECIDED)
        self._count(await self._judging.store(replace(result, ledger=decided), {}, asked=len(tasks) * len(names)))
        unanswered = {
            TraceKey(row.environment, row.app, row.trace_id)
            for row in result.ledger
            if row.decision is Decision.UNDECIDED
        }
        now = self._clock.now()
        self._done |= {one.key: now for one in page if one.key not in unanswered}
        if unanswered:
            _LOG.info("feedback: %d complaints wait for their judge", len(unanswered))
