"""One batch from read to stored: the order of steps that makes a crash at any point harmless.

Dead letters, parts and feedback are stored; the store is asked what it knows of the traces; new traces are stored
before anything is judged; then the judges; then calls, ledger and scores. Every step may be repeated after a crash:
inserts change nothing the second time, and what is settled is not judged again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Literal, TypeVar

from tracejudge.clock import Clock
from tracejudge.judging import PanelResult
from tracejudge.sampling import SamplingPolicy
from tracejudge.scores import LedgerRow, Outcome, TraceKey
from tracejudge.store import Inserted, Known, StoredFeedback, StoredPart
from tracejudge_consumer.assembler import assemble
from tracejudge_consumer.dead_letter import DeadLetterGuard
from tracejudge_consumer.health import Health
from tracejudge_consumer.metrics import Metrics
from tracejudge_consumer.report import PipelineReport
from tracejudge_consumer.stages.needs import Judges, PipelineStore
from tracejudge_consumer.stages.plan import Plan, plan
from tracejudge_consumer.stages.read import IntakeRecord, ReadBatch, TakenRecord, read_batch
from tracejudge_consumer.stages.store_calls import StoreCalls
from tracejudge_consumer.stages.turns import Turns

_LOG = logging.getLogger(__name__)
_T = TypeVar("_T")
_NOTHING = PanelResult(scores=(), ledger=(), calls=(), gone=())

_FEW_VERDICTS = 5  # of one batch: fewer say nothing about the judge

Stage = Literal["decoded", "traces_stored", "judged", "scores_stored", "committed"]
"""The points between steps: each is passed once per batch (committed: once per commit)."""

Checkpoint = Callable[[Stage], None]
"""Called at every such point; a test kills the process there."""


class BatchProcessor:
    """Takes batches through the steps; several at once, on one event loop."""

    def __init__(
        self,
        *,
        store: PipelineStore,
        judges: Judges,
        policy: SamplingPolicy,
        guard: DeadLetterGuard,
        calls: StoreCalls,
        pool: Executor,
        clock: Clock,
        health: Health,
        metrics: Metrics,
        checkpoint: Checkpoint,
    ) -> None:
        self._store = store
        self._judges = judges
        self._policy = policy
        self._guard = guard
        self._calls = calls
        self._pool = pool
        self._clock = clock
        self._health = health
        self._metrics = metrics
        self._checkpoint = checkpoint
        self._turns = Turns()
        self._gone: set[str] = set()
        self._failing: set[str] = set()

    async def process(self, records: Sequence[TakenRecord]) -> PipelineReport:
        """Everything there is to do about `records`; when it returns, the store has accepted all of it.

        Raises TooManyDeadLetters, and whatever says that this program or the store's schema is wrong.
        """
        at = self._clock.now()
        read = await self._off_loop(partial(read_batch, records, at=at))
        self._guard.note(read=len(records), dead=read.dead)
        self._checkpoint("decoded")
        report = PipelineReport(
            records=len(records),
            traces=len(read.traces),
            parts=len(read.parts),
            feedback=len(read.feedback),
            duplicates=read.duplicates,
            dead_letters=Counter(letter.reason for letter in read.dead),
        )
        if read.dead:
            await self._calls(partial(self._store.dead_letters.insert, read.dead))
        if read.feedback:
            feedback = [StoredFeedback(feedback=one, ingested_at=at) for one in read.feedback]
            report += _refused(await self._calls(partial(self._store.feedback.insert, feedback)))
        assembled: Sequence[IntakeRecord] = ()
        if read.parts:
            assembled, refused = await self._assembled(read)
            report += _refused(refused)
        self._count(read)
        keys = [record.key for record in (*read.traces, *assembled)]
        if keys:
            async with self._turns.of(keys):
                report += await self._judge(read.traces, assembled)
        self._checkpoint("scores_stored")
        return report

    async def _judge(self, whole: Sequence[IntakeRecord], assembled: Sequence[IntakeRecord]) -> PipelineReport:
        traces = (*whole, *assembled)
        keys = [record.key for record in traces]
        known = await self._calls(partial(self._store.lookup, keys))
        judge_ids = self._judges.judge_ids
        at = self._clock.now()
        todo: Plan = await self._off_loop(partial(plan, traces, known, policy=self._policy, judge_ids=judge_ids, at=at))
        fresh = sum(record.key not in known for record in assembled)
        report = PipelineReport(known=todo.known, settled=todo.settled, assembled=fresh)
        if todo.to_store:
            inserted = await self._calls(partial(self._store.traces.insert, todo.to_store))
            report += _refused(inserted)
            todo = todo.without({todo.to_store[row.index].key for row in inserted.rejected})
        self._checkpoint("traces_stored")
        # A partition that was taken away is its new owner's to judge: judging here too would only buy it twice.
        tasks = [one.task for one in todo.tasks if not one.tracker.forgotten]
        result = await self._calls.until_answered(lambda: self._judges.evaluate(tasks)) if tasks else _NOTHING
        self._notice(result)
        self._checkpoint("judged")
        # Where an invalid score stands, it stands for the judge: a row beside it would count the trace twice.
        ledger = (*todo.ledger, *(row for row in result.ledger if not _is_invalid(known, row)))
        # Money first: a budget must not forget calls that were made. Scores last, they make the trace settled.
        if result.calls:
            report += _refused(await self._calls(partial(self._store.calls.insert, result.calls)))
        if ledger:
            report += _refused(await self._calls(partial(self._store.ledger.insert, ledger)))
        if result.scores:
            report += _refused(await self._calls(partial(self._store.scores.insert, result.scores)))
        self._metrics.scored(result.scores, ledger, result.calls)
        self._metrics.settled.inc(todo.settled)
        outcomes = Counter(score.outcome for score in result.scores)
        return report + PipelineReport(
            abandoned=len(todo.tasks) - len(tasks),
            passed=outcomes[Outcome.PASSED],
            failed=outcomes[Outcome.FAILED],
            invalid=outcomes[Outcome.INVALID],
            invalid_reasons=Counter(score.reason for score in result.scores if not score.outcome.settled),
            ledger=Counter(row.decision for row in ledger),
            asked=sum(len(task.judge_names) for task in tasks),
            judge_calls=len(result.calls),
        )

    async def _assembled(self, read: ReadBatch) -> tuple[list[IntakeRecord], Inserted]:
        """Stores the parts, and gives the traces that are whole now."""
        rows = [
            StoredPart(
                part=part,
                ingested_at=self._clock.now(),
                source=taken.raw.source,
                partition=taken.raw.partition,
                offset=taken.raw.offset,
            )
            for part, taken in read.parts
        ]
        inserted = await self._calls(partial(self._store.parts.insert, rows))
        whole = {record.key for record in read.traces}
        touched = {key: taken for key, taken in read.parts_by_key().items() if key not in whole}
        # Read back after storing: of two consumers that hold the parts of one trace, the later one sees them all.
        stored = await self._calls(partial(self._store.parts.of, list(touched)))
        found: list[IntakeRecord] = []
        for key, taken in touched.items():
            trace = assemble([row.part for row in stored.get(key, ())])
            if trace is not None:
                found.append(IntakeRecord(trace, taken))
        return found, inserted

    def _notice(self, result: PanelResult) -> None:
        """Says once that a judge is gone, and once that it is back."""
        back = self._gone & {score.judge_name for score in result.scores if score.outcome.settled}
        for name in back:
            self._gone.remove(name)
            self._metrics.judges_gone.labels(name).set(0)
            _LOG.warning("judge %r answers again", name)
        for fault in result.gone:
            if fault.judge_name not in self._gone:
                self._gone.add(fault.judge_name)
                self._metrics.judges_gone.labels(fault.judge_name).set(1)
                _LOG.error("%s: its traces are undecided in the ledger", fault)
        if back or result.gone:
            self._health.judges_gone(self._gone)
        self._notice_failing(result)

    def _notice_failing(self, result: PanelResult) -> None:
        """Says once that most verdicts of a judge are invalid, and once that they are not any more."""
        all_of = Counter(score.judge_name for score in result.scores)
        invalid = Counter(score.judge_name for score in result.scores if not score.outcome.settled)
        for name, count in all_of.items():
            if name not in self._failing and 2 * invalid[name] > count >= _FEW_VERDICTS:
                self._failing.add(name)
                reasons = Counter(s.reason for s in result.scores if s.judge_name == name and not s.outcome.settled)
                _LOG.error(
                    "judge %r: %d of %d verdicts are invalid (%s), and stay so; see `tracejudge tail --failed`",
                    name,
                    invalid[name],
                    count,
                    ", ".join(f"{number} {reason}" for reason, number in reasons.most_common(3)),
                )
            elif name in self._failing and 2 * invalid[name] <= count:
                self._failing.remove(name)
                _LOG.warning("judge %r: most verdicts are valid again", name)

    def _count(self, read: ReadBatch) -> None:
        for kind, number in (
            ("trace", len(read.traces)),
            ("part", len(read.parts)),
            ("feedback", len(read.feedback)),
            ("duplicate", read.duplicates),
            ("dead_letter", len(read.dead)),
        ):
            self._metrics.records.labels(kind).inc(number)
        for letter in read.dead:
            self._metrics.dead_letters.labels(letter.reason).inc()

    async def _off_loop(self, call: Callable[[], _T]) -> _T:
        """Work for the CPU, where it does not keep the judges' connections waiting."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, call)


def _is_invalid(known: Mapping[TraceKey, Known], row: LedgerRow) -> bool:
    before = known.get(TraceKey(row.environment, row.app, row.trace_id))
    return before is not None and row.judge_id in before.invalid


def _refused(inserted: Inserted) -> PipelineReport:
    """Rows the store would not take; it keeps them among the dead letters itself."""
    for row in inserted.rejected:
        _LOG.error("the store refused a row (%s): %s", row.reason, row.detail)
    return PipelineReport(dead_letters=Counter(f"store_{row.reason}" for row in inserted.rejected))
