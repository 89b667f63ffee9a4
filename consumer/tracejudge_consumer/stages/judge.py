"""Planned traces to judges and what they say into the store: each verdict by itself, however slow its neighbours are.

A judge that calls a model is handed a few traces at a time and answers each by itself, so that one slow call holds up
nothing but its own trace. At most `at_once` of them are with a judge; the others wait here, where a partition that goes
away or a consumer that stops can still leave them to somebody else unasked. Judges that call nothing get the batch in
one piece.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tracejudge.errors import JudgeGone
from tracejudge.judging import PanelResult
from tracejudge.scores import Decision, JudgeId, LedgerRow, TraceKey
from tracejudge.together import all_of
from tracejudge_consumer.report import Tally
from tracejudge_consumer.stages.gate import Gate
from tracejudge_consumer.stages.judge_watch import JudgeWatch
from tracejudge_consumer.stages.needs import Judges
from tracejudge_consumer.stages.patience import PastPatience, given_up
from tracejudge_consumer.stages.plan import PlannedTask
from tracejudge_consumer.stages.questions import Answer, Question
from tracejudge_consumer.stages.results import ResultWriter
from tracejudge_consumer.stages.store_calls import StoreCalls

InvalidJudges = Mapping[TraceKey, Collection[JudgeId]]
"""By trace the judges of which an invalid score is stored."""

Told = Callable[[Collection[TraceKey], Collection[TraceKey]], None]
"""Called with traces about which a question has its answer in the store, and those of them that were left unasked."""


def _nobody(_: object, __: object) -> None:
    """Who is told where nobody listens."""


@dataclass(slots=True)
class _Asking:
    """A question and for whom it is asked."""

    question: Question
    invalid: InvalidJudges
    counts: Tally
    again: bool
    told: Told
    left: list[TraceKey] = field(default_factory=list)
    gone: dict[str, JudgeGone] = field(default_factory=dict)


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
        self._gates = {name: Gate(at_once) for name in judges.judge_ids if name not in judges.instant}
        self._stopping = False

    def ask_no_more(self) -> None:
        """What was not handed to a judge yet is left; what was is finished."""
        self._stopping = True

    async def answer(
        self, question: Question, invalid: InvalidJudges, counts: Tally, *, again: bool = False, told: Told = _nobody
    ) -> Answer:
        """Asks; returns when the store has what came of it, and `counts` counts it. `told` hears of each trace as soon
        as that is so of this one. `again`: that it is undecided stands in the ledger."""
        asking = _Asking(question, invalid, counts, again, told)
        if question.each:
            (name,) = question.judges
            await self._by_turns(asking, question.planned, self._gates[name])
        else:
            await self._in_one_piece(asking)
        return Answer(frozenset(asking.left), tuple(asking.gone.values()))

    async def store(self, result: PanelResult, invalid: InvalidJudges, counts: Tally) -> None:
        """Stores what judges said, or what was decided without one."""
        result = self.noted(result, invalid)
        counts.stored((result,), await self._writer.write(result))

    def noted(self, result: PanelResult, invalid: InvalidJudges) -> PanelResult:
        """What there is to store. Beside an invalid score no ledger row is put: the trace would count twice."""
        self._watch.note(result)
        if result.ledger and invalid:
            result = replace(result, ledger=tuple(row for row in result.ledger if not _is_invalid(row, invalid)))
        return result

    async def _in_one_piece(self, asking: _Asking) -> None:
        asked = self._still_ours(asking, asking.question.planned)
        if asked:
            tasks = asking.question.tasks(asked)
            result = await self._calls.until_answered(lambda: self._judges.evaluate(tasks))
            await self.store(self._decided(result, asking, asked), asking.invalid, asking.counts)
            asking.counts.asked += sum(len(task.judge_names) for task in tasks)
            asking.told([one.record.key for one in asked], ())

    async def _by_turns(self, asking: _Asking, planned: Sequence[PlannedTask], gate: Gate) -> None:
        """As many at once as there are places for, and the rest as soon as there are more."""
        now = await gate.enter(len(planned))
        places = _Places(gate, now)
        try:
            if now == len(planned):
                await self._each(asking, planned, places)
            else:
                await all_of([self._each(asking, planned[:now], places), self._by_turns(asking, planned[now:], gate)])
        finally:
            places.leave_all()  # a task that is cancelled before it has begun gives nothing back

    async def _each(self, asking: _Asking, planned: Sequence[PlannedTask], places: _Places) -> None:
        """Asks about these, each of which holds a place until it is judged; returns when all is stored."""
        try:
            asked = self._still_ours(asking, planned)
            if not asked:
                return
            under_way = _UnderWay(asking, asked)

            def judged(place: int, result: PanelResult) -> None:
                places.leave()
                result = self.noted(self._decided(result, asking, asked[place : place + 1]), asking.invalid)
                self._writer.put(result, under_way, place)

            tasks = asking.question.tasks(asked)
            saying = self._calls.until_answered(lambda: self._judges.evaluate_each(tasks, judged))
            # Both at once: what cannot be stored does not wait to be told until the slowest is judged.
            await all_of([saying, under_way.over])
        finally:
            places.leave_all()

    def _still_ours(self, asking: _Asking, planned: Sequence[PlannedTask]) -> Sequence[PlannedTask]:
        """Those to ask about. What came from a partition that was taken away is its new owner's to judge."""
        asked = [] if self._stopping else [one for one in planned if not one.record.forgotten]
        if len(asked) < len(planned):
            unasked = [one.record for one in planned if self._stopping or one.record.forgotten]
            keys = [record.key for record in unasked]
            asking.left += keys
            asking.counts.abandoned += sum(record.forgotten for record in unasked)
            asking.told(keys, keys)
        return asked

    def _decided(self, result: PanelResult, asking: _Asking, asked: Sequence[PlannedTask]) -> PanelResult:
        """What the panel said about `asked`, and what we make of judges that were down for too long."""
        for fault in result.gone:
            asking.gone.setdefault(fault.judge_name, fault)
        if not result.ledger:
            return result
        if asking.again:
            decided = tuple(row for row in result.ledger if row.decision is not Decision.UNDECIDED)
            return replace(result, ledger=decided)
        if self._past_patience == "invalid":
            return given_up(result, {one.record.key: one.task for one in asked})
        return result


class _Places:
    """Places that were taken together, given back one by one."""

    __slots__ = ("_gate", "_held")

    def __init__(self, gate: Gate, held: int) -> None:
        self._gate = gate
        self._held = held

    def leave(self) -> None:
        self._held -= 1
        self._gate.leave()

    def leave_all(self) -> None:
        """Those that are still held. May be called twice."""
        held, self._held = self._held, 0
        if held:
            self._gate.leave(held)


class _UnderWay:
    """Traces of one question at their judge, and what it said on its way into the store."""

    def __init__(self, asking: _Asking, asked: Sequence[PlannedTask]) -> None:
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the store has everything about all of them."""
        self._asking = asking
        self._asked = asked
        self._open = len(asked)

    def stored(self, places: Sequence[int], results: Sequence[PanelResult], refused: Mapping[str, int]) -> None:
        asking = self._asking
        asking.counts.stored(results, refused)
        asking.counts.asked += len(places)
        asking.told([self._asked[place].record.key for place in places], ())
        self._open -= len(places)
        if not self._open and not self.over.done():
            self.over.set_result(None)

    def failed(self, error: BaseException) -> None:
        if not self.over.done():
            self.over.set_exception(error)


def _is_invalid(row: LedgerRow, invalid: InvalidJudges) -> bool:
    return row.judge_id in invalid.get(TraceKey(row.environment, row.app, row.trace_id), ())
