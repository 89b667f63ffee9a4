"""Processes one batch, in an order of steps that makes a crash at any point harmless.

First dead letters, parts and feedback are stored; then the store is asked what it knows of the traces; new traces are
stored before anything is judged; then the judges are asked and each verdict is stored as it comes. Every step may be
repeated after a crash: inserts change nothing the second time, and settled traces are not judged again. Each record is
finished by itself, as soon as the store has everything about it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from tracejudge.clock import Clock
from tracejudge.judging import PanelResult
from tracejudge.sampling import EpochBook, SamplingPolicy
from tracejudge.scores import SHADOW_RUN, Decision, JudgeId, TraceKey
from tracejudge.store import Inserted, Known, StoredFeedback
from tracejudge.together import all_of
from tracejudge_consumer.dead_letter import DeadLetterGuard
from tracejudge_consumer.intake.form import RecordForm
from tracejudge_consumer.report import PipelineReport, Tally
from tracejudge_consumer.stages.checkpoints import Checkpoint
from tracejudge_consumer.stages.epochs import EpochReader
from tracejudge_consumer.stages.forgotten import Forgotten, ledger_rows
from tracejudge_consumer.stages.judge import InvalidJudges, Judging
from tracejudge_consumer.stages.needs import Judges, PipelineStore
from tracejudge_consumer.stages.parts import with_assembled
from tracejudge_consumer.stages.plan import Plan, plan, with_shadow
from tracejudge_consumer.stages.questions import questions
from tracejudge_consumer.stages.read import IntakeRecord, ReadBatch, TakenRecord, read_batch
from tracejudge_consumer.stages.store_calls import StoreCalls
from tracejudge_consumer.stages.turns import Turn, Turns
from tracejudge_consumer.watching.metrics import Metrics

_LOG = logging.getLogger(__name__)
_T = TypeVar("_T")

Finish = Callable[[Iterable[TakenRecord]], None]
"""Called with records that are finished: the store has everything about them."""


class BatchProcessor:
    """Processes batches, several at once on one event loop."""

    def __init__(
        self,
        *,
        store: PipelineStore,
        judges: Judges,
        judging: Judging,
        policy: SamplingPolicy,
        guard: DeadLetterGuard,
        turns: Turns,
        calls: StoreCalls,
        pool: Executor,
        clock: Clock,
        metrics: Metrics,
        checkpoint: Checkpoint,
        form: RecordForm,
    ) -> None:
        self._form = form
        self._store = store
        self._judges = judges
        self._judging = judging
        self._policy = policy
        self._guard = guard
        self._calls = calls
        self._pool = pool
        self._clock = clock
        self._metrics = metrics
        self._checkpoint = checkpoint
        self._turns = turns
        self._epochs = EpochReader(store=store, calls=calls, clock=clock)
        self._forgotten = Forgotten(store=store, calls=calls)

    async def process(self, records: Sequence[TakenRecord], finish: Finish) -> PipelineReport:
        """Processes `records`; each is handed to `finish` once the store has everything about it.

        Records that were not handed over when this returns are left to the consumer that reads them next. Raises
        TooManyDeadLetters, and what shows a fault of this program or of the store's schema.
        """
        at = self._clock.now()
        read = await self._off_loop(partial(read_batch, records, at=at, read=self._form.read))
        self._guard.note(read=len(records), dead=[letter for letter, _ in read.dead])
        read, forgotten = await self._forgotten.removed_from(read, at=at)
        self._checkpoint("decoded")
        report = PipelineReport(
            records=len(records),
            traces=len(read.traces),
            parts=len(read.parts),
            feedback=len(read.feedback),
            duplicates=read.duplicates,
            dead_letters=Counter(letter.reason for letter, _ in read.dead),
        )
        if read.dead:
            await self._calls(partial(self._store.dead_letters.insert, [letter for letter, _ in read.dead]))
            for letter, _ in read.dead:
                place = {"source": letter.source, "partition": letter.partition, "offset": letter.offset}
                _LOG.info("dead letter: %s", letter.reason, extra={**place, "reason": letter.reason})
        if read.feedback:
            feedback = [StoredFeedback(feedback=one, ingested_at=at) for one, _ in read.feedback]
            report += _refused(await self._calls(partial(self._store.feedback.insert, feedback)))
        traces, assembled, inserted = await with_assembled(
            read, store=self._store, calls=self._calls, clock=self._clock
        )
        report += _refused(inserted)
        if assembled:  # the user of an assembled trace is known only now
            gone = await self._forgotten.among([one for one in traces if one.key in assembled], at=at)
            forgotten = (*forgotten, *(one for one in traces if one.key in gone))
            traces = [one for one in traces if one.key not in gone]
        if forgotten:
            rows = ledger_rows(forgotten, self._live_judge_ids(), at=at)
            report += _refused(await self._calls(partial(self._store.ledger.insert, rows)))
            report += PipelineReport(ledger=Counter({Decision.FORGOTTEN: len(rows)}))
        self._count(read)
        in_traces = {id(taken) for record in traces for taken in record.records}
        finish(taken for taken in records if id(taken) not in in_traces)
        report += await self.decide(traces, finish, assembled=assembled)
        self._checkpoint("scores_stored")
        return report

    def _live_judge_ids(self) -> dict[str, JudgeId]:
        shadow = self._judges.shadow
        return {name: judge_id for name, judge_id in self._judges.judge_ids.items() if name not in shadow}

    async def decide(
        self, traces: Sequence[IntakeRecord], finish: Finish, *, assembled: Collection[TraceKey] = ()
    ) -> PipelineReport:
        """Stores the traces, has them judged and stores the verdicts. `traces` holds each trace once.

        `assembled`: keys of the traces that were assembled from parts.
        """
        if not traces:
            return PipelineReport()
        if self._form.resolver is not None:
            filled = await self._calls(partial(self._form.resolver.filled, [record.trace for record in traces]))
            traces = [replace(record, trace=trace) for record, trace in zip(traces, filled, strict=True)]
        turn = self._turns.take(record.key for record in traces)
        try:
            now = [record for record in traces if record.key not in turn.before]
            later = [record for record in traces if record.key in turn.before]  # another batch holds them
            work = [self._decide(now, turn, finish, assembled)] if now else []
            if later:
                work.append(self._decide_later(later, turn, finish, assembled))
            return PipelineReport.total(await all_of(work))
        finally:
            turn.leave_all()

    async def _decide_later(
        self, traces: Sequence[IntakeRecord], turn: Turn, finish: Finish, assembled: Collection[TraceKey]
    ) -> PipelineReport:
        await turn.comes()
        return await self._decide(traces, turn, finish, assembled)

    async def _decide(
        self, traces: Sequence[IntakeRecord], turn: Turn, finish: Finish, assembled: Collection[TraceKey]
    ) -> PipelineReport:
        keys = [record.key for record in traces]
        known: Mapping[TraceKey, Known] = await self._calls(partial(self._store.lookup, keys))
        judge_ids, shadow = self._judges.judge_ids, self._judges.shadow
        if shadow and known:
            of_shadow = await self._calls(partial(self._store.lookup, list(known), run_id=SHADOW_RUN))
            known = with_shadow(known, of_shadow, [judge_ids[name] for name in shadow])
        epochs = EpochBook()
        if self._policy.has_epochs:
            served = [known[one.key].event_time if one.key in known else one.trace.event_time for one in traces]
            epochs = await self._epochs.book(served)
        at = self._clock.now()
        todo: Plan = await self._off_loop(
            partial(plan, traces, known, policy=self._policy, judge_ids=judge_ids, at=at, shadow=shadow, epochs=epochs)
        )
        fresh = sum(record.key in assembled and record.key not in known for record in traces)
        report = PipelineReport(known=todo.known, settled=todo.settled, assembled=fresh)
        self._metrics.settled.inc(todo.settled)
        if todo.to_store:
            inserted = await self._calls(partial(self._store.traces.insert, todo.to_store))
            report += _refused(inserted)
            todo = todo.without({todo.to_store[row.index].key for row in inserted.rejected})
        self._checkpoint("traces_stored")
        open_traces = _OpenTraces(traces, turn, finish)
        invalid: InvalidJudges = {key: one.invalid for key, one in known.items() if one.invalid}
        counts = Tally()
        work: list[Coroutine[Any, Any, object]] = []
        if todo.ledger:
            keys = list({TraceKey(row.environment, row.app, row.trace_id) for row in todo.ledger})
            open_traces.wait_for(keys)
            work.append(self._write(todo, invalid, counts, keys, open_traces))
        for question in questions(todo.tasks, self._judges.instant):
            open_traces.wait_for([one.record.key for one in question.planned])
            work.append(self._judging.answer(question, invalid, counts, on_answered=open_traces.done))
        open_traces.finish_the_rest()
        try:
            await all_of(work)
        finally:
            open_traces.hand_over()
        return report + counts.report()

    async def _write(
        self, todo: Plan, invalid: InvalidJudges, counts: Tally, keys: Iterable[TraceKey], open_traces: _OpenTraces
    ) -> None:
        """Stores what was decided without a judge."""
        await self._judging.store(PanelResult(scores=(), ledger=todo.ledger, calls=(), gone=()), invalid, counts)
        open_traces.done(keys, ())

    def _count(self, read: ReadBatch) -> None:
        for kind, number in (
            ("trace", len(read.traces)),
            ("part", len(read.parts)),
            ("feedback", len(read.feedback)),
            ("duplicate", read.duplicates),
            ("dead_letter", len(read.dead)),
        ):
            self._metrics.records.labels(kind).inc(number)
        for letter, _ in read.dead:
            self._metrics.dead_letters.labels(letter.reason).inc()

    async def _off_loop(self, call: Callable[[], _T]) -> _T:
        """Runs CPU-bound work in the pool, so that it does not block the judges' connections."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, call)


class _OpenTraces:
    """Counts the answers that each trace of a batch waits for; the last one finishes it, unless one was left unasked.

    Verdicts are stored hundreds at a time, so all records finished in one turn of the loop are handed over together.
    """

    def __init__(self, traces: Sequence[IntakeRecord], turn: Turn, finish: Finish) -> None:
        self._open = {record.key: _Open(record) for record in traces}
        self._left: set[TraceKey] = set()
        self._turn = turn
        self._finish = finish
        self._finished: list[TakenRecord] = []
        self._loop = asyncio.get_running_loop()

    def wait_for(self, keys: Iterable[TraceKey]) -> None:
        """Adds one answer to wait for to each of these traces."""
        for key in keys:
            self._open[key].waits += 1

    def done(self, keys: Iterable[TraceKey], left: Collection[TraceKey]) -> None:
        """One answer about each of `keys` is stored, or, for those in `left`, was left to another consumer."""
        if left:
            self._left.update(left)
        ended = []
        for key in keys:
            one = self._open[key]
            one.waits -= 1
            if not one.waits:
                ended.append(key)
        if ended:
            self._end(ended)

    def finish_the_rest(self) -> None:
        """Finishes the traces that wait for no answer."""
        self._end([key for key, one in self._open.items() if not one.waits])

    def hand_over(self) -> None:
        """Hands the finished records to `finish`: they may be committed from now on."""
        finished, self._finished = self._finished, []
        if finished:
            self._finish(finished)

    def _end(self, keys: Sequence[TraceKey]) -> None:
        if not self._finished:
            self._loop.call_soon(self.hand_over)
        for key in keys:
            if key not in self._left:
                self._finished += self._open[key].record.records
        self._turn.leave(keys)


class _Open:
    """A trace and the number of answers it waits for."""

    __slots__ = ("record", "waits")

    def __init__(self, record: IntakeRecord) -> None:
        self.record = record
        self.waits = 0


def _refused(inserted: Inserted) -> PipelineReport:
    """Logs and counts the rows that the store refused; the store keeps them among the dead letters itself."""
    for row in inserted.rejected:
        _LOG.error("the store refused a row (%s): %s", row.reason, row.detail)
    return PipelineReport(dead_letters=Counter(f"store_{row.reason}" for row in inserted.rejected))
