"""What is to be done about traces, given what the store knows of them."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

from tracejudge.sampling import SamplingPolicy
from tracejudge.scores import LIVE_RUN, SHADOW_RUN, Decision, JudgeId, TraceKey
from tracejudge.store import Known
from tracejudge.testing import make_trace
from tracejudge_consumer.intake import RawRecord
from tracejudge_consumer.offsets import OffsetTracker
from tracejudge_consumer.stages.plan import Plan, plan
from tracejudge_consumer.stages.read import IntakeRecord, TakenRecord

AT = datetime(2026, 1, 2, tzinfo=timezone.utc)
A, B = JudgeId("a@000000000000"), JudgeId("b@000000000000")
EVERYTHING = SamplingPolicy()
NOTHING = SamplingPolicy(rate=0.0)
NOBODY: frozenset[JudgeId] = frozenset()


def record(number: int, **fields: Any) -> IntakeRecord:
    raw = RawRecord(source="sqlite:log", partition=0, offset=number, key=None, value=b"", timestamp_ms=0)
    return IntakeRecord(make_trace(number, **fields), (TakenRecord(raw, OffsetTracker(raw.partition_key)),))


def known(*, settled: frozenset[JudgeId] = NOBODY, invalid: frozenset[JudgeId] = NOBODY) -> Known:
    return Known(event_time=AT, settled=settled, invalid=invalid)


def planned(
    one: IntakeRecord, before: Known | None = None, policy: SamplingPolicy = EVERYTHING, shadow: tuple[str, ...] = ()
) -> Plan:
    store: dict[TraceKey, Known] = {} if before is None else {one.key: before}
    return plan([one], store, policy=policy, judge_ids={"a": A, "b": B}, at=AT, shadow=shadow)


def asked(found: Plan) -> set[str]:
    return {name for one in found.tasks for name in one.task.judge_names}


def test_a_new_trace_is_stored_and_put_to_every_judge() -> None:
    found = planned(record(1))
    assert [stored.offset for stored in found.to_store] == [1]
    assert asked(found) == {"a", "b"}
    assert (found.ledger, found.known, found.settled) == ((), 0, 0)


def test_what_is_settled_is_not_asked_again_and_what_is_invalid_is() -> None:
    found = planned(record(1), known(settled=frozenset([A]), invalid=frozenset([B])))
    assert asked(found) == {"b"}
    assert (found.to_store, found.ledger, found.known, found.settled) == ((), (), 1, 1)
    found = planned(record(1), known(settled=frozenset([A, B])))
    assert (found.tasks, found.to_store, found.ledger, found.settled) == ((), (), (), 2)


def test_a_known_trace_without_a_score_is_stored_again_with_its_first_event_time() -> None:
    one = record(1, event_time=AT + timedelta(hours=1))
    found = planned(one, known())
    assert [stored.trace.event_time for stored in found.to_store] == [AT]
    assert [(task.task.event_time, task.task.trace.event_time) for task in found.tasks] == [(AT, AT)]


def test_beside_an_invalid_score_stands_no_ledger_row() -> None:
    found = planned(record(1), known(invalid=frozenset([A])), NOTHING)
    assert [(row.judge_id, row.decision) for row in found.ledger] == [(B, Decision.SAMPLED_OUT)]
    assert not found.to_store
    found = planned(record(1, status="incomplete"), known(invalid=frozenset([A])))
    assert [(row.judge_id, row.decision) for row in found.ledger] == [(B, Decision.INCOMPLETE)]
    assert not found.tasks


def test_decisions_without_a_judge_are_of_the_run_that_the_judge_belongs_to() -> None:
    found = planned(record(1), policy=NOTHING, shadow=("b",))
    assert {row.judge_id: row.run_id for row in found.ledger} == {A: LIVE_RUN, B: SHADOW_RUN}
    assert {row.event_time for row in found.ledger} == {found.to_store[0].trace.event_time}


def test_what_the_store_would_not_take_is_not_judged() -> None:
    found = planned(record(1))
    left = found.without({found.to_store[0].key})
    assert (left.to_store, left.tasks, left.ledger) == ((), (), ())
    assert found.without(()) is found
