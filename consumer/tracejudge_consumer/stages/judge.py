"""Has planned traces judged and stores each verdict as it comes.

A judge that calls a model is handed a few traces at a time and answers about each separately, so that a slow call
delays its own trace only. At most `at_once` traces are with a judge; the others wait here, where they can still be left
to another consumer when their partition is revoked or this consumer stops. Judges that call nothing get the whole batch
at once.
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
"""By trace, the judges whose stored score is invalid."""

OnAnswered = Callable[[Collection[TraceKey], Collection[TraceKey]], None]
"""Called with traces whose answer to a question is stored, and with those of them that were left unasked."""


def _ignore(_: object, __: object) -> None:
    """The default callback."""


@dataclass(slots=True)
class _Asking:
    """A question under way: its arguments, and what has come of it so far."""

    question: Question
    invalid: InvalidJudges
    counts: Tally
    again: bool
    on_answered: OnAnswered
    left: list[TraceKey] = field(default_factory=list)
    gone: dict[str, JudgeGone] = field(default_factory=dict)


class Judging:
    """Asks judges and stores their verdicts. For one event loop."""

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
        """`at_once`: most traces with one judge at a time; `past_patience`: what becomes of a trace whose judge was
        down for longer than the panel waits."""
        self._judges = judges
        self._writer = writer
        self._calls = calls
        self._watch = watch
        self._past_patience = past_patience
        self._gates = {name: Gate(at_once) for name in judges.judge_ids if name not in judges.instant}
        self._stopping = False

    def stop_asking(self) -> None:
        """Leaves the traces that wait for a judge; those that are with a judge are finished."""
        self._stopping = True

    async def answer(
        self,
        question: Question,
        invalid: InvalidJudges,
        counts: Tally,
        *,
        again: bool = False,
        on_answered: OnAnswered = _ignore,
    ) -> Answer:
        """Asks the judges and stores what they say; returns when all of it is stored.

        `counts` is added to. `on_answered` is called for each trace as soon as its answer is stored. `again`: these
        traces have an undecided row in the ledger already, and get no second one.
        """
        asking = _Asking(question, invalid, counts, again, on_answered)
        if question.each:
            (name,) = question.judges
            await self._through_gate(asking, question.planned, self._gates[name])
        else:
            await self._at_once(asking)
        return Answer(frozenset(asking.left), tuple(asking.gone.values()))

    async def store(self, result: PanelResult, invalid: InvalidJudges, counts: Tally) -> None:
        """Stores verdicts of judges, or decisions made without one."""
        result = self._storable(result, invalid)
        counts.stored((result,), await self._writer.write(result))

    def _storable(self, result: PanelResult, invalid: InvalidJudges) -> PanelResult:
        """The result without ledger rows beside a stored invalid score, with which the trace would count twice."""
        self._watch.note(result)
        if result.ledger and invalid:
            result = replace(result, ledger=tuple(row for row in result.ledger if not _is_invalid(row, invalid)))
        return result

    async def _at_once(self, asking: _Asking) -> None:
        asked = self._still_ours(asking, asking.question.planned)
        if asked:
            tasks = asking.question.tasks(asked)
            result = await self._calls.until_answered(lambda: self._judges.evaluate(tasks))
            await self.store(self._decided(result, asking, asked), asking.invalid, asking.counts)
            asking.counts.asked += sum(len(task.judge_names) for task in tasks)
            asking.on_answered([one.record.key for one in asked], ())

    async def _through_gate(self, asking: _Asking, planned: Sequence[PlannedTask], gate: Gate) -> None:
        """Asks about as many traces as there are places for, and about the rest as places become free."""
        now = await gate.enter(len(planned))
        places = _Places(gate, now)
        try:
            if now == len(planned):
                await self._each(asking, planned, places)
            else:
                rest = self._through_gate(asking, planned[now:], gate)
                await all_of([self._each(asking, planned[:now], places), rest])
        finally:
            places.leave_all()  # a task that is cancelled before it has begun gives nothing back

    async def _each(self, asking: _Asking, planned: Sequence[PlannedTask], places: _Places) -> None:
        """Asks about traces that hold a place each until they are judged; returns when all verdicts are stored."""
        try:
            asked = self._still_ours(asking, planned)
            if not asked:
                return
            under_way = _UnderWay(asking, asked)

            def judged(place: int, result: PanelResult) -> None:
                places.leave()
                result = self._storable(self._decided(result, asking, asked[place : place + 1]), asking.invalid)
                self._writer.put(result, under_way, place)

            tasks = asking.question.tasks(asked)
            saying = self._calls.until_answered(lambda: self._judges.evaluate_each(tasks, judged))
            # Awaited together: a failure to store is raised before the slowest trace is judged.
            await all_of([saying, under_way.over])
        finally:
            places.leave_all()

    def _still_ours(self, asking: _Asking, planned: Sequence[PlannedTask]) -> Sequence[PlannedTask]:
        """The traces to ask about: none once we are stopping, and none of a partition that was revoked."""
        asked = [] if self._stopping else [one for one in planned if not one.record.forgotten]
        if len(asked) < len(planned):
            unasked = [one.record for one in planned if self._stopping or one.record.forgotten]
            keys = [record.key for record in unasked]
            asking.left += keys
            asking.counts.abandoned += sum(record.forgotten for record in unasked)
            asking.on_answered(keys, keys)
        return asked

    def _decided(self, result: PanelResult, asking: _Asking, asked: Sequence[PlannedTask]) -> PanelResult:
        """The panel's result for `asked`, with `again` and `past_patience` applied to its undecided rows."""
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
    """Places of a gate that were taken together and are given back one by one."""

    __slots__ = ("_gate", "_held")

    def __init__(self, gate: Gate, held: int) -> None:
        self._gate = gate
        self._held = held

    def leave(self) -> None:
        self._held -= 1
        self._gate.leave()

    def leave_all(self) -> None:
        """Gives back the places still held. May be called twice."""
        held, self._held = self._held, 0
        if held:
            self._gate.leave(held)


class _UnderWay:
    """Receives the results of one question as they are stored."""

    def __init__(self, asking: _Asking, asked: Sequence[PlannedTask]) -> None:
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the results of all its traces are stored."""
        self._asking = asking
        self._asked = asked
        self._open = len(asked)

    def stored(self, places: Sequence[int], results: Sequence[PanelResult], refused: Mapping[str, int]) -> None:
        asking = self._asking
        asking.counts.stored(results, refused)
        asking.counts.asked += len(places)
        asking.on_answered([self._asked[place].record.key for place in places], ())
        self._open -= len(places)
        if not self._open and not self.over.done():
            self.over.set_result(None)

    def failed(self, error: BaseException) -> None:
        if not self.over.done():
            self.over.set_exception(error)


def _is_invalid(row: LedgerRow, invalid: InvalidJudges) -> bool:
    return row.judge_id in invalid.get(TraceKey(row.environment, row.app, row.trace_id), ())
