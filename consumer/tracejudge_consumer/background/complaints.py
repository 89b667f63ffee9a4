"""Judges traces because of bad feedback: in run "feedback", a population of its own.

Each has chance 1 there, whatever its chance in live traffic. Where the live verdict is in the cache it is served from
there; else the call counts in the judge's budget as every other.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Final, NamedTuple, Protocol

from tracejudge.clock import Clock
from tracejudge.judging import JudgeTask
from tracejudge.sampling import FeedbackTrigger
from tracejudge.scores import FEEDBACK_RUN, Decision, TraceKey
from tracejudge.store import Known, StoredFeedback, StoredTrace
from tracejudge_consumer.background.needs import StillOurs, StoredTraces
from tracejudge_consumer.report import PipelineReport, Tally
from tracejudge_consumer.stages.judge import Judging
from tracejudge_consumer.stages.needs import Judges
from tracejudge_consumer.stages.store_calls import StoreCalls

_LOG = logging.getLogger(__name__)

PAGE: Final = 100
ROWS: Final = 1_000
_TICK: Final = timedelta(milliseconds=1)  # what the store tells arrivals apart by

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


class _Open(NamedTuple):
    """A trace, and the judges that have not settled its complaint."""

    stored: StoredTrace
    names: frozenset[str]


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
            answered = await self._judge(page)
            if len(page) < PAGE or not answered:
                return  # a judge that answers nobody is asked again in the next round, and not at once

    async def _open(self, limit: int) -> list[_Open]:
        """Complained-about traces that are stored and not judged for it yet."""
        since = self._clock.now() - LOOK_BACK
        self._done = {key: at for key, at in self._done.items() if at >= since}
        waiting: list[_Open] = []
        looked_at: set[TraceKey] = set()
        while True:
            rows: list[StoredFeedback] = await self._calls(
                partial(self._store.feedback.below, self._trigger.value_below, since=since, limit=ROWS)
            )
            fresh: dict[TraceKey, datetime] = {}
            for row in rows:
                key = TraceKey(row.feedback.environment, row.feedback.app, row.feedback.trace_id)
                if key not in self._done and key not in looked_at:
                    fresh.setdefault(key, row.ingested_at)
            looked_at |= fresh.keys()
            waiting += await self._waiting(fresh, limit - len(waiting))
            # Feedback on traces that never came, because the SDK sent a share of them or because somebody made the ids
            # up, must not stand before what can be judged: so all of it is looked through.
            if len(waiting) >= limit or len(rows) < ROWS:
                return waiting
            since = max(rows[-1].ingested_at, since + _TICK)

    async def _waiting(self, found: Mapping[TraceKey, datetime], limit: int) -> list[_Open]:
        if not found:
            return []
        known = await self._calls(partial(self._store.lookup, list(found), run_id=FEEDBACK_RUN))
        wanted = {name: self._judges.judge_ids[name] for name in self._trigger.judges if name in self._judges.judge_ids}
        # What one judge has settled is not bought again because another is still to answer.
        asked = {
            key: frozenset(name for name, judge_id in wanted.items() if judge_id not in known[key].settled)
            for key in found
            if key in known
        }
        self._done |= {key: found[key] for key, names in asked.items() if not names}
        keys = [key for key, names in asked.items() if names]
        waiting: list[_Open] = []
        for first in range(0, len(keys), PAGE):
            page = keys[first : first + PAGE]
            traces: Mapping[TraceKey, StoredTrace] = await self._calls(partial(self._store.traces.of, page))
            waiting += [
                _Open(traces[key], asked[key]) for key in page if key in traces and not traces[key].texts_expired
            ]
            if len(waiting) >= limit:
                break
        return waiting[:limit]

    async def _judge(self, page: Sequence[_Open]) -> bool:
        """Judges a page; False when nothing of it was answered."""
        tasks = [
            JudgeTask(
                trace=one.stored.trace,
                judge_names=one.names,
                inclusion_probability=dict.fromkeys(one.names, 1.0),
                event_time=one.stored.trace.event_time,
            )
            for one in page
        ]
        result = await self._calls.until_answered(lambda: self._judges.evaluate(tasks, run_id=FEEDBACK_RUN))
        # A judge that is gone for now is asked again in a later round; the ledger's undecided rows are live ones.
        decided = tuple(row for row in result.ledger if row.decision is not Decision.UNDECIDED)
        counts = Tally()
        await self._judging.store(replace(result, ledger=decided), {}, counts)
        counts.asked = sum(len(one.names) for one in page)
        self._count(counts.report())
        unanswered = {
            TraceKey(row.environment, row.app, row.trace_id)
            for row in result.ledger
            if row.decision is Decision.UNDECIDED
        }
        now = self._clock.now()
        self._done |= {one.stored.key: now for one in page if one.stored.key not in unanswered}
        if unanswered:
            _LOG.info("feedback: %d complaints wait for their judge", len(unanswered))
        return len(unanswered) < len(page)
