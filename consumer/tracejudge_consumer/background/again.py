"""Judges stored traces again, with the stratum and inclusion probability under which they were sampled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from tracejudge.clock import Clock
from tracejudge.errors import JudgeGone
from tracejudge.judging import JudgeTask, PanelResult
from tracejudge.scores import Decision, JudgeId, LedgerRow, Score, TraceKey
from tracejudge.store import Known, StoredTrace
from tracejudge.together import all_of
from tracejudge_consumer.background.needs import AgainStore
from tracejudge_consumer.report import PipelineReport, Tally
from tracejudge_consumer.stages.judge import Judging
from tracejudge_consumer.stages.needs import Judges
from tracejudge_consumer.stages.plan import PlannedTask
from tracejudge_consumer.stages.questions import Answer, questions
from tracejudge_consumer.stages.read import IntakeRecord
from tracejudge_consumer.stages.store_calls import StoreCalls
from tracejudge_consumer.stages.turns import Turns

EXPIRED = "the texts are past their retention"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgainReport:
    """What became of rows whose traces were to be judged again: rows = settled + expired + asked."""

    counts: PipelineReport = field(default_factory=PipelineReport)
    settled: int = 0  # settled meanwhile by another process
    expired: int = 0  # without texts to judge
    gone: tuple[JudgeGone, ...] = ()  # judges that are gone at present


class Again:
    """Judges again the traces of ledger rows or of invalid scores. For one event loop."""

    def __init__(
        self, *, store: AgainStore, judges: Judges, judging: Judging, turns: Turns, calls: StoreCalls, clock: Clock
    ) -> None:
        self._store = store
        self._judges = judges
        self._judging = judging
        self._turns = turns
        self._calls = calls
        self._clock = clock

    async def judge(self, rows: Sequence[LedgerRow | Score]) -> AgainReport:
        """Asks the judge that has each row's judge name now, under its present JudgeId; returns when the answers are
        stored.

        A row that stays undecided is left as it is. A trace whose texts have expired is decided as forgotten.
        """
        turn = self._turns.take({_key(row) for row in rows})
        try:
            await turn.comes()
            keys = list({_key(row) for row in rows})
            known = await self._calls(partial(self._store.lookup, keys))
            traces = await self._calls(partial(self._store.traces.of, keys))
            return await self._ask(rows, known, traces)
        finally:
            turn.leave_all()

    async def _ask(
        self, rows: Sequence[LedgerRow | Score], known: Mapping[TraceKey, Known], traces: Mapping[TraceKey, StoredTrace]
    ) -> AgainReport:
        ids = self._judges.judge_ids
        planned: list[PlannedTask] = []
        expired: list[LedgerRow] = []
        settled = 0
        for row in rows:
            key = _key(row)
            if key in known and ids[row.judge_name] in known[key].settled:
                settled += 1
            elif key not in traces or traces[key].texts_expired:
                expired.append(self._forgotten(row, ids[row.judge_name]))
            else:
                task = _task(row, traces[key])
                planned.append(PlannedTask(task, IntakeRecord(task.trace, ())))
        invalid = {key: one.invalid for key, one in known.items() if one.invalid}
        counts = Tally()
        answers: list[Answer] = await all_of(
            [
                self._judging.answer(question, invalid, counts, again=True)
                for question in questions(planned, self._judges.instant)
            ]
        )
        if expired:
            forgotten = PanelResult(scores=(), ledger=tuple(expired), calls=(), gone=())
            await self._judging.store(forgotten, invalid, counts)
        gone = {fault.judge_name: fault for answer in answers for fault in answer.gone}
        return AgainReport(counts=counts.report(), settled=settled, expired=len(expired), gone=tuple(gone.values()))

    def _forgotten(self, row: LedgerRow | Score, judge_id: JudgeId) -> LedgerRow:
        return LedgerRow(
            environment=row.environment,
            app=row.app,
            version=row.version,
            category=row.category,
            trace_id=row.trace_id,
            event_time=row.event_time,
            judge_name=row.judge_name,
            judge_id=judge_id,
            decision=Decision.FORGOTTEN,
            reason=EXPIRED,
            stratum=row.stratum,
            inclusion_probability=row.inclusion_probability,
            decided_at=self._clock.now(),
        )


def total(reports: Sequence[AgainReport]) -> AgainReport:
    """The sum of the reports."""
    gone = {fault.judge_name: fault for report in reports for fault in report.gone}
    return AgainReport(
        counts=PipelineReport.total([report.counts for report in reports]),
        settled=sum(report.settled for report in reports),
        expired=sum(report.expired for report in reports),
        gone=tuple(gone.values()),
    )


def _task(row: LedgerRow | Score, stored: StoredTrace) -> JudgeTask:
    return JudgeTask(
        trace=stored.trace,
        judge_names=frozenset([row.judge_name]),
        stratum=row.stratum,
        inclusion_probability={row.judge_name: row.inclusion_probability},
        event_time=row.event_time,
    )


def _key(row: LedgerRow | Score) -> TraceKey:
    return TraceKey(row.environment, row.app, row.trace_id)
