"""Plans a batch: what to store, what to judge and what is decided without a judge. A pure function."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from tracejudge.judging import JudgeTask
from tracejudge.quick import made_quickly
from tracejudge.sampling import EpochBook, SampledTrace, SamplingPolicy, sample
from tracejudge.scores import LIVE_RUN, SHADOW_RUN, Decision, JudgeId, LedgerRow, TraceKey
from tracejudge.signals import signals_of
from tracejudge.store import Known, StoredTrace
from tracejudge_consumer.stages.read import IntakeRecord
from tracejudge_sdk.trace import Trace

_NOBODY: frozenset[JudgeId] = frozenset()
_NO_EPOCHS = EpochBook()


@made_quickly
@dataclass(frozen=True, slots=True)
class PlannedTask:
    """A judge task, with the records that its trace came from."""

    task: JudgeTask
    record: IntakeRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to store before judging, what to judge, and what is decided without a judge."""

    to_store: tuple[StoredTrace, ...]
    tasks: tuple[PlannedTask, ...]
    ledger: tuple[LedgerRow, ...]
    known: int  # traces that were in the store already
    settled: int  # (trace, judge) pairs that have a settled score

    def without(self, rejected: Collection[TraceKey]) -> Plan:
        """The plan without the traces that the store refused."""
        if not rejected:
            return self
        return Plan(
            to_store=tuple(one for one in self.to_store if one.key not in rejected),
            tasks=tuple(one for one in self.tasks if one.record.key not in rejected),
            ledger=tuple(r for r in self.ledger if TraceKey(r.environment, r.app, r.trace_id) not in rejected),
            known=self.known,
            settled=self.settled,
        )


class _Open(NamedTuple):
    """A trace about which there is something left to decide."""

    record: IntakeRecord
    trace: Trace
    invalid: frozenset[JudgeId]  # whose stored score is invalid
    names: list[str]  # of judges without a settled score
    unscored: bool  # no score at all is stored


def plan(
    records: Sequence[IntakeRecord],
    known: Mapping[TraceKey, Known],
    *,
    policy: SamplingPolicy,
    judge_ids: Mapping[str, JudgeId],
    at: datetime,
    shadow: Collection[str] = (),
    epochs: EpochBook = _NO_EPOCHS,
) -> Plan:
    """Decides about every (trace, judge) of `records`, which hold each trace once.

    - A known trace keeps its first event time. It is stored again unless it has a score: the store fixes the event time
      before it stores the trace, so only a score proves that the trace itself went in. Storing again changes nothing.
    - A settled judge is not asked again. One whose verdict was invalid is: its score replaces the invalid one, under
      the same key, so that there is one score either way.
    - Then the sampling decision, which only looks at the trace: sampled_out or filtered.
    - Then a broken-off answer (status incomplete) is for no judge.

    `known` is what the store knows of the traces, `judge_ids` the JudgeIds by judge name, `epochs` the sampling epochs
    in force when the traces were served. A judge that has a score, even an invalid one, gets no ledger row beside it.
    Rows of the judges named in `shadow` belong to run "shadow".
    """
    to_store: list[StoredTrace] = []
    tasks: list[PlannedTask] = []
    ledger: list[LedgerRow] = []
    settled = 0
    todo: list[_Open] = []
    for record in records:
        trace, before = record.trace, known.get(record.key)
        if before is not None and before.event_time != trace.event_time:
            trace = trace.model_copy(update={"event_time": before.event_time})
        done, invalid = (_NOBODY, _NOBODY) if before is None else (before.settled, before.invalid)
        unscored = not done and not invalid
        open_names = [name for name, judge_id in judge_ids.items() if judge_id not in done]
        settled += len(judge_ids) - len(open_names)
        if unscored or open_names:  # neither: the usual redelivered trace, for which no signals are computed
            todo.append(_Open(record, trace, invalid, open_names, unscored))
    for (record, trace, invalid, open_names, unscored), signals in zip(
        todo, signals_of([one.trace for one in todo]), strict=True
    ):
        if unscored:
            place = record.place
            to_store.append(
                StoredTrace(
                    trace=trace,
                    signals=signals.as_dict(),
                    ingested_at=at,
                    source=place.source,
                    partition=place.partition,
                    offset=place.offset,
                )
            )
        sampled = sample(trace, signals, policy, open_names, epochs.at(trace.event_time))
        ask: dict[str, float] = {}
        for name in open_names:
            decision = sampled.decisions[name]
            if not decision.kept:
                verdict = Decision.FILTERED if decision.filtered else Decision.SAMPLED_OUT
            elif trace.status == "incomplete":
                verdict = Decision.INCOMPLETE
            else:
                ask[name] = decision.inclusion_probability
                continue
            if judge_ids[name] not in invalid:
                run_id = SHADOW_RUN if name in shadow else LIVE_RUN
                ledger.append(_row(sampled, name, judge_ids[name], verdict, run_id=run_id, at=at))
        if ask:
            task = JudgeTask(
                trace=trace,
                judge_names=frozenset(ask),
                stratum=sampled.stratum,
                inclusion_probability=ask,
                event_time=trace.event_time,
            )
            tasks.append(PlannedTask(task, record))
    return Plan(
        to_store=tuple(to_store),
        tasks=tuple(tasks),
        ledger=tuple(ledger),
        known=sum(record.key in known for record in records),
        settled=settled,
    )


def with_shadow(
    live: Mapping[TraceKey, Known], shadow: Mapping[TraceKey, Known], shadow_ids: Collection[JudgeId]
) -> dict[TraceKey, Known]:
    """What is known of traces: from run "shadow" for the judges on trial (`shadow_ids`), from run "live" for others.

    A judge keeps its JudgeId when it goes on or off trial; a score in the one run settles nothing in the other.
    """
    on_trial = frozenset(shadow_ids)
    found = {}
    for key, one in live.items():
        other = shadow.get(key)
        settled, invalid = (other.settled, other.invalid) if other is not None else (_NOBODY, _NOBODY)
        found[key] = Known(
            event_time=one.event_time,
            settled=(one.settled - on_trial) | (settled & on_trial),
            invalid=(one.invalid - on_trial) | (invalid & on_trial),
        )
    return found


def _row(
    sampled: SampledTrace, name: str, judge_id: JudgeId, verdict: Decision, *, run_id: str, at: datetime
) -> LedgerRow:
    trace, decision = sampled.trace, sampled.decisions[name]
    return LedgerRow(
        environment=trace.environment,
        app=trace.app,
        version=trace.version,
        category=trace.category or "",
        trace_id=trace.trace_id,
        event_time=trace.event_time,
        judge_name=name,
        judge_id=judge_id,
        run_id=run_id,
        decision=verdict,
        reason=decision.rule if verdict is not Decision.INCOMPLETE else "the answer broke off",
        stratum=sampled.stratum,
        inclusion_probability=decision.inclusion_probability,
        decided_at=at,
    )
