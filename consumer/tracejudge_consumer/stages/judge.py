"""Planned traces to judges and what they say into the store: each verdict by itself, however slow its neighbours are.

A judge that calls a model gets each trace as a question of its own, so that one slow call holds up nothing but its own
trace; at most `at_once` of them are handed to a judge, the others wait here, where a partition that goes away or a
consumer that stops can still leave them to somebody else unasked. Judges that call nothing get the batch in one piece.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from tracejudge.errors import JudgeGone
from tracejudge.judging import JudgeTask, PanelResult
from tracejudge.judging.tasks import content_hash
from tracejudge.scores import Decision, InvalidReason, JudgeId, LedgerRow, Outcome, Score, TraceKey
from tracejudge_consumer.report import Tally
from tracejudge_consumer.stages.judge_watch import JudgeWatch
from tracejudge_consumer.stages.needs import Judges
from tracejudge_consumer.stages.plan import PlannedTask
from tracejudge_consumer.stages.results import ResultWriter
from tracejudge_consumer.stages.store_calls import StoreCalls

PastPatience = Literal["undecided", "invalid"]
"""undecided: judged when the judge is back, however late. invalid: counted as a failure of the judge, and judged again
by `tracejudge retry` alone."""

_DOWN: Final = "judge_down_"  # the ledger's reason while an endpoint does not answer, with what it was
_DOWN_REASONS: Final = {
    "judge_down_timeout": InvalidReason.JUDGE_TIMEOUT,
    "judge_down_rate_limited": InvalidReason.RATE_LIMITED,
}

InvalidJudges = Mapping[TraceKey, Collection[JudgeId]]
"""By trace the judges of which an invalid score is stored."""


@dataclass(frozen=True, slots=True)
class Question:
    """Traces that are put to one or more judges in one piece."""

    planned: tuple[PlannedTask, ...]
    judges: frozenset[str]


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a question: the traces that were not asked about and are nobody's to finish here."""

    left: frozenset[TraceKey] = frozenset()
    gone: tuple[JudgeGone, ...] = ()  # judges that answer nobody


ALL_ANSWERED: Final = Answer()


def questions(tasks: Sequence[PlannedTask], instant: Collection[str]) -> list[Question]:
    """The tasks as questions: one for all that is instant, one for each trace and other judge."""
    at_once = [one for one in tasks if not one.task.judge_names.isdisjoint(instant)]
    found = [Question(tuple(at_once), frozenset(instant))] if at_once else []
    for one in tasks:
        names = one.task.judge_names
        if len(names) == 1 and not at_once:
            found.append(Question((one,), names))  # the usual: one judge by a model
        else:
            found += [Question((one,), frozenset([name])) for name in sorted(names.difference(instant))]
    return found


class Judging:
    """Asks, and stores the answers. For one event loop."""

    def __init__(
        self,
        *,
        judges: Judges,
        writer: ResultWriter,
        calls: StoreCalls,
        watch: JudgeWatch,
        at_once: int,
        past_patience: PastPatience = "undecided",
    ) -> None:
        """`past_patience`: what becomes of a trace whose judge was down for longer than the panel waits."""
        self._judges = judges
        self._writer = writer
        self._calls = calls
        self._watch = watch
        self._past_patience = past_patience
        self._gates = {name: asyncio.Semaphore(at_once) for name in judges.judge_ids if name not in judges.instant}
        self._stopping = False

    def ask_no_more(self) -> None:
        """What was not handed to a judge yet is left; what was is finished."""
        self._stopping = True

    async def answer(self, question: Question, invalid: InvalidJudges, counts: Tally, *, again: bool = False) -> Answer:
        """Asks; returns when the store has what came of it, and `counts` counts it. `again`: that it is undecided
        stands in the ledger."""
        gate = self._gates.get(next(iter(question.judges)))
        if gate is None:
            asked, result = await self._ask(question)
        else:
            async with gate:
                asked, result = await self._ask(question)
        left: frozenset[TraceKey] = frozenset()
        if len(asked) < len(question.planned):
            unasked = [one.record for one in question.planned if one not in asked]
            left = frozenset(record.key for record in unasked)
            counts.abandoned += sum(record.forgotten for record in unasked)
        if result is None:
            return Answer(left)
        if self._past_patience == "invalid" and not again:
            result = given_up(result, {one.record.key: one.task for one in asked})
        if again:
            decided = tuple(row for row in result.ledger if row.decision is not Decision.UNDECIDED)
            result = replace(result, ledger=decided)
        await self.store(result, invalid, counts)
        for one in asked:
            counts.asked += len(one.task.judge_names & question.judges)
        return Answer(left, tuple(result.gone)) if left or result.gone else ALL_ANSWERED

    async def store(self, result: PanelResult, invalid: InvalidJudges, counts: Tally) -> None:
        """Stores what judges said. Beside an invalid score no ledger row is put: the trace would count twice."""
        self._watch.note(result)
        if result.ledger and invalid:
            kept = tuple(row for row in result.ledger if not _is_invalid(row, invalid))
            result = replace(result, ledger=kept)
        refused = await self._writer.write(result)
        counts.judged(result.scores, result.ledger, calls=len(result.calls))
        if refused:
            counts.refused(refused)

    async def _ask(self, question: Question) -> tuple[Collection[PlannedTask], PanelResult | None]:
        """What was asked about and what was said; a partition that was taken away is its new owner's to judge."""
        asked = () if self._stopping else tuple([one for one in question.planned if not one.record.forgotten])
        if not asked:
            return asked, None
        tasks = [_for(one.task, question.judges) for one in asked]
        return asked, await self._calls.until_answered(lambda: self._judges.evaluate(tasks))


def given_up(result: PanelResult, tasks: Mapping[TraceKey, JudgeTask]) -> PanelResult:
    """The result with an invalid score for every trace whose judge was down for too long."""
    down = [row for row in result.ledger if row.decision is Decision.UNDECIDED and row.reason.startswith(_DOWN)]
    if not down:
        return result
    scores = [
        Score(
            environment=row.environment,
            app=row.app,
            version=row.version,
            category=row.category,
            trace_id=row.trace_id,
            event_time=row.event_time,
            judge_name=row.judge_name,
            judge_id=row.judge_id,
            run_id=row.run_id,
            outcome=Outcome.INVALID,
            score=None,
            reason=_DOWN_REASONS.get(row.reason, InvalidReason.JUDGE_ERROR).value,
            feedback=f"the judge was down for longer than judge_patience_s ({row.reason.removeprefix(_DOWN)})",
            stratum=row.stratum,
            inclusion_probability=row.inclusion_probability,
            content_hash=content_hash(tasks[TraceKey(row.environment, row.app, row.trace_id)].trace),
            judged_at=row.decided_at,
        )
        for row in down
    ]
    kept = tuple(row for row in result.ledger if row not in down)
    return replace(result, ledger=kept, scores=(*result.scores, *scores))


def _for(task: JudgeTask, judges: frozenset[str]) -> JudgeTask:
    names = task.judge_names & judges
    return task if names == task.judge_names else replace(task, judge_names=names)


def _is_invalid(row: LedgerRow, invalid: InvalidJudges) -> bool:
    return row.judge_id in invalid.get(TraceKey(row.environment, row.app, row.trace_id), ())
