"""The pipeline on a SQLite log: what becomes of records, in any order of finishing, with a store that goes away."""

from __future__ import annotations

import logging
import threading
import time
from datetime import timedelta
from pathlib import Path

import pytest

from tests.support.memory_store import MemoryStore
from tests.support.records import append, committed, intake
from tests.support.running_pipeline import PATIENCE_S, Running, Stages, make_pipeline, run_to_the_end
from tests.support.scripted_panel import ScriptedPanel
from tracejudge.judging import JudgeTask
from tracejudge.sampling import SamplingPolicy
from tracejudge.scores import Decision, Outcome, Score
from tracejudge.testing import make_trace
from tracejudge_consumer.dead_letter import DeadLetterLimit, TooManyDeadLetters
from tracejudge_consumer.intake import PartitionKey
from tracejudge_consumer.report import PipelineReport
from tracejudge_consumer.watching.metrics import Metrics
from tracejudge_sdk.codec import encode
from tracejudge_sdk.trace import Feedback, Trace, TracePart


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "queue.db"


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def panel() -> ScriptedPanel:
    return ScriptedPanel()


def scores_of(store: MemoryStore) -> dict[str, Outcome]:
    rows: list[Score] = list(store.scores.rows.values())
    assert len({row.trace_id for row in rows}) == len(rows), "one score per trace and judge"
    return {row.trace_id: row.outcome for row in rows}


def test_every_trace_is_stored_and_scored_and_its_offset_committed(
    log: Path, store: MemoryStore, panel: ScriptedPanel
) -> None:
    append(log, [make_trace(n) for n in range(35)])
    report = run_to_the_end(log, store, panel)
    assert (report.records, report.traces, report.passed, report.failed) == (35, 35, 23, 12)
    assert (report.asked, report.judge_calls, report.scored, report.ended) == (35, 35, 35, "idle")
    assert report.commits >= 1
    assert len(store.traces.rows) == len(scores_of(store)) == len(store.calls.rows) == 35
    assert committed(log) == 35
    assert panel.closed == 1
    stored = next(row for row in store.traces.rows.values() if row.key.trace_id == make_trace(0).trace_id)
    assert (stored.source, stored.partition, stored.offset) == ("sqlite:queue.db", 0, 0)
    assert stored.signals["node_count"] == 1


def test_a_trace_is_stored_before_it_is_judged(log: Path, store: MemoryStore) -> None:
    missing: list[str] = []

    def verdict(task: JudgeTask) -> Outcome:
        if not any(row.key.trace_id == task.trace.trace_id for row in store.traces.rows.values()):
            missing.append(task.trace.trace_id)
        return Outcome.PASSED

    append(log, [make_trace(n) for n in range(25)])
    run_to_the_end(log, store, ScriptedPanel(verdict=verdict))
    assert missing == []


def test_what_cannot_be_read_becomes_a_dead_letter_with_its_reason_and_the_rest_is_scored(
    log: Path, store: MemoryStore, panel: ScriptedPanel
) -> None:
    newer = encode(make_trace(3)).replace(b'"schema_version":1', b'"schema_version":9')
    append(log, [make_trace(1), b"{", b"\xff", newer, b'{"schema_version":1,"kind":"soup"}', make_trace(2)])
    report = run_to_the_end(log, store, panel)
    assert report.dead_letters == {"not_json": 1, "not_utf8": 1, "schema_too_new": 1, "unknown_kind": 1}
    assert (report.records, report.traces, report.dead) == (6, 2, 4)
    letter = next(row for row in store.dead_letters.rows.values() if row.reason == "not_utf8")
    assert (letter.source, letter.partition, letter.offset, letter.value) == ("sqlite:queue.db", 0, 2, b"\xff")
    assert committed(log) == 6


def test_a_redelivered_trace_makes_no_judge_call(log: Path, store: MemoryStore, panel: ScriptedPanel) -> None:
    append(log, [make_trace(n) for n in range(20)])
    run_to_the_end(log, store, panel)
    again = run_to_the_end(log, store, panel, group="another", limits={"batch_records": 7})
    assert (again.known, again.settled, again.asked, again.scored) == (20, 20, 0, 0)
    assert max(panel.asked.values()) == 1
    assert len(scores_of(store)) == len(store.traces.rows) == 20


def test_b22_an_invalid_verdict_is_tried_again_on_redelivery_and_leaves_one_score(
    log: Path, store: MemoryStore
) -> None:
    append(log, [make_trace(n) for n in range(4)])
    first = run_to_the_end(log, store, ScriptedPanel(verdict=lambda task: Outcome.INVALID))
    assert (first.invalid, dict(first.invalid_reasons)) == (4, {"judge_timeout": 4})
    panel = ScriptedPanel()
    again = run_to_the_end(log, store, panel, group="again")
    assert (again.asked, again.settled, again.scored) == (4, 0, 4)
    assert set(scores_of(store).values()) == {Outcome.PASSED, Outcome.FAILED}
    third = run_to_the_end(log, store, panel, group="third")
    assert (third.asked, third.settled) == (0, 4)


def test_a_judge_that_is_gone_leaves_no_ledger_row_beside_an_invalid_score(log: Path, store: MemoryStore) -> None:
    append(log, [make_trace(n) for n in range(4)])
    run_to_the_end(log, store, ScriptedPanel(verdict=lambda task: Outcome.INVALID))
    append(log, [make_trace(4)])
    metrics = Metrics()
    report = run_to_the_end(log, store, ScriptedPanel(gone=True), group="again", metrics=metrics)
    assert (report.asked, dict(report.ledger)) == (5, {Decision.UNDECIDED: 1})
    assert [row.trace_id for row in store.ledger.rows.values()] == ["t-000004"]
    counted = metrics.registry.get_sample_value(
        "tracejudge_ledger_rows_total", {"judge": "scripted", "decision": "undecided"}
    )
    assert counted == 1


def test_only_the_judges_that_have_not_settled_are_asked(log: Path, store: MemoryStore) -> None:
    append(log, [make_trace(n) for n in range(5)])
    run_to_the_end(log, store, ScriptedPanel("a"))
    panel = ScriptedPanel("a", "b")
    report = run_to_the_end(log, store, panel, group="again")
    assert (report.settled, report.asked) == (5, 5)
    assert {name for _, name in panel.asked} == {"b"}


def test_duplicates_in_a_batch_are_one_trace(log: Path, store: MemoryStore, panel: ScriptedPanel) -> None:
    append(log, [make_trace(1), make_trace(1), make_trace(2), make_trace(1)])
    report = run_to_the_end(log, store, panel)
    assert (report.records, report.traces, report.duplicates) == (4, 2, 2)
    assert panel.asked.total() == 2
    assert committed(log) == 4


@pytest.mark.parametrize("batch_records", [10, 1])
@pytest.mark.parametrize("complete_first", [False, True])
def test_a_complete_answer_stands_for_an_incomplete_one_of_the_same_trace(
    complete_first: bool, batch_records: int, log: Path, store: MemoryStore
) -> None:
    """In one batch or in two, in either order: it is stored and judged, under the event time that came first."""
    judged: list[Trace] = []

    def verdict(task: JudgeTask) -> Outcome:
        judged.append(task.trace)
        return Outcome.PASSED

    complete, broken = make_trace(1), make_trace(1, status="incomplete", response="The answ")
    records = [complete, broken] if complete_first else [broken, complete]
    records[1] = records[1].model_copy(update={"event_time": complete.event_time + timedelta(seconds=5)})
    append(log, records)
    limits = {"batch_records": batch_records, "max_in_flight_records": batch_records}  # one batch after the other
    report = run_to_the_end(log, store, ScriptedPanel(verdict=verdict), limits=limits)
    assert judged == [complete]
    assert [row.trace for row in store.traces.rows.values()] == [complete]
    assert scores_of(store) == {"t-000001": Outcome.PASSED}
    assert (report.traces, report.duplicates) == ((1, 1) if batch_records > 1 else (2, 0))
    assert report.records == report.traces + report.duplicates
    assert committed(log) == 2


def test_the_same_trace_in_two_batches_at_once_is_judged_once(log: Path, store: MemoryStore) -> None:
    """The second batch waits for the first one, and then finds the trace settled."""
    first_is_asked, go = threading.Event(), threading.Event()

    def gate(task: JudgeTask) -> threading.Event:
        first_is_asked.set()
        return go

    panel = ScriptedPanel(gate=gate)
    append(log, [make_trace(1), make_trace(1, event_time=make_trace(9).event_time)])
    stages = Stages()
    with Running(make_pipeline(log, store, panel, limits={"batch_records": 1}, checkpoint=stages)) as running:
        assert first_is_asked.wait(PATIENCE_S)
        stages.wait_for("decoded", 2)
        go.set()
        stages.wait_for("scores_stored", 2)
        report = running.stop()
    assert panel.asked.total() == 1
    assert (report.known, report.settled) == (1, 1)
    assert len(store.traces.rows) == 1, "the first stored record fixes the event time"


def test_the_first_stored_record_of_a_trace_fixes_its_event_time_and_content(
    log: Path, store: MemoryStore, panel: ScriptedPanel
) -> None:
    first = make_trace(1)
    append(log, [first])
    run_to_the_end(log, store, ScriptedPanel(verdict=lambda task: Outcome.INVALID))
    append(log, [make_trace(1, event_time=first.event_time + timedelta(hours=5), response="Something else.")])
    report = run_to_the_end(log, store, panel)
    assert report.known == 1
    assert [row.trace for row in store.traces.rows.values()] == [first]
    assert [row.event_time for row in store.scores.rows.values()] == [first.event_time], "one key, so one score"


def test_a_crash_inside_the_insert_of_traces_loses_none_of_them(
    log: Path, store: MemoryStore, panel: ScriptedPanel
) -> None:
    """The store fixes event times before it takes the traces: to be known is not to be stored."""

    def die(name: str) -> None:
        if name == "traces.fixed":
            raise ZeroDivisionError("stands for kill -9")

    append(log, [make_trace(n) for n in range(10)])
    store.on_call = die
    with pytest.raises(ZeroDivisionError):
        run_to_the_end(log, store, panel)
    assert (len(store.fixed), len(store.traces.rows)) == (10, 0)
    store.on_call = lambda name: None
    report = run_to_the_end(log, store, panel)
    assert (report.known, report.scored, len(store.traces.rows)) == (10, 10, 10)


def test_what_is_not_judged_stands_in_the_ledger_with_its_reason(log: Path, store: MemoryStore) -> None:
    policy = SamplingPolicy.model_validate(
        {
            "rate": 1.0,
            "judges": {"b": 0.0},
            "rules": [{"name": "no drills", "when": {"field": "category", "is": "drill"}, "never": True}],
        }
    )
    append(log, [make_trace(1), make_trace(2, status="incomplete"), make_trace(3, category="drill")])
    panel = ScriptedPanel("a", "b")
    report = run_to_the_end(log, store, panel, policy=policy)
    assert dict(report.ledger) == {Decision.SAMPLED_OUT: 2, Decision.FILTERED: 2, Decision.INCOMPLETE: 1}
    assert dict(panel.asked) == {(make_trace(1).trace_id, "a"): 1}
    decisions = {(row.trace_id, row.judge_name): row.decision for row in store.ledger.rows.values()}
    assert decisions[make_trace(2).trace_id, "a"] is Decision.INCOMPLETE
    assert decisions[make_trace(2).trace_id, "b"] is Decision.SAMPLED_OUT
    again = run_to_the_end(log, store, panel, policy=policy, group="again")
    assert dict(again.ledger) == dict(report.ledger)
    assert len(store.ledger.rows) == 5, "redelivery repeats the rows, it adds none"


def test_b23_two_consumers_decide_alike_and_smaller_samples_lie_inside_larger_ones(tmp_path: Path) -> None:
    append(tmp_path / "queue.db", [make_trace(n) for n in range(300)])

    def judged(group: str) -> dict[str, set[str]]:
        panel = ScriptedPanel("ten", "twenty")
        policy = SamplingPolicy.model_validate({"judges": {"ten": 0.1, "twenty": 0.2}})
        run_to_the_end(
            tmp_path / "queue.db", MemoryStore(), panel, policy=policy, group=group, limits={"batch_records": 64}
        )
        return {name: {trace for trace, judge in panel.asked if judge == name} for name in ("ten", "twenty")}

    first, second = judged("one"), judged("two")
    assert first == second
    assert first["ten"] < first["twenty"]


def test_nothing_is_lost_while_the_store_is_away(log: Path, store: MemoryStore, panel: ScriptedPanel) -> None:
    """The intake polls on with its partition paused, commits nothing, and goes on when the store is back."""
    append(log, [make_trace(n) for n in range(60)])
    reader = intake(log)
    store.down.set()
    many_refused = threading.Event()
    polls: list[bool] = []
    really_poll = reader.poll

    def poll(*, timeout_s: float, max_records: int) -> list[object]:
        polls.append(bool(reader.paused()))
        if store.refused_calls > 30 and polls[-20:] == [True] * 20:
            many_refused.set()
        return really_poll(timeout_s=timeout_s, max_records=max_records)  # type: ignore[return-value]

    reader.poll = poll  # type: ignore[method-assign,assignment]
    limits = {"max_in_flight_records": 20}
    with Running(make_pipeline(log, store, panel, intake=reader, limits=limits), until_idle=True) as running:
        assert many_refused.wait(PATIENCE_S)
        assert committed(log) is None
        assert panel.asked.total() == 0
        store.down.clear()
        report = running.result()
    assert (report.traces, report.scored) == (60, 60)
    assert committed(log) == 60
    assert max(panel.asked.values()) == 1


def test_an_answer_of_the_store_lost_on_its_way_changes_nothing(
    log: Path, store: MemoryStore, panel: ScriptedPanel
) -> None:
    append(log, [make_trace(n) for n in range(30)])
    store.lose_answers = 6
    report = run_to_the_end(log, store, panel)
    assert (report.scored, len(store.traces.rows), len(scores_of(store))) == (30, 30, 30)
    assert max(panel.asked.values()) == 1, "what was judged is stored again, not judged again"


def test_b31_a_slow_judge_holds_back_the_commit_and_not_the_next_batches(log: Path, store: MemoryStore) -> None:
    slow = threading.Event()
    panel = ScriptedPanel(gate=lambda task: slow if task.trace.trace_id == make_trace(0).trace_id else None)
    append(log, [make_trace(n) for n in range(50)])
    stages = Stages()
    with Running(make_pipeline(log, store, panel, checkpoint=stages)) as running:
        stages.wait_for("scores_stored", 4)
        assert make_trace(0).trace_id not in scores_of(store)
        assert committed(log) is None, "nothing beyond the unfinished record"
        slow.set()
        stages.wait_for("scores_stored", 5)
        report = running.stop()
    assert report.scored == 50
    assert committed(log) == 50


def test_one_slow_call_holds_up_no_verdict_of_its_batch(log: Path, store: MemoryStore) -> None:
    """The other nine are in the store, and the offsets before the slow one are committed, while it hangs."""
    slow, others_stored, nine = threading.Event(), threading.Event(), threading.Event()
    panel = ScriptedPanel(gate=lambda task: slow if task.trace.trace_id == make_trace(5).trace_id else None)
    append(log, [make_trace(n) for n in range(10)])

    def checkpoint(stage: str) -> None:
        if stage == "results_stored" and len(store.scores.rows) == 9:
            others_stored.set()
        if stage == "committed" and committed(log) == 5:
            nine.set()

    with Running(make_pipeline(log, store, panel, checkpoint=checkpoint)) as running:
        assert others_stored.wait(PATIENCE_S)
        assert make_trace(5).trace_id not in scores_of(store)
        assert nine.wait(PATIENCE_S), "the offsets before it are committed"
        slow.set()
        report = running.stop()
    assert report.scored == 10
    assert committed(log) == 10


def test_results_that_come_together_are_stored_together(log: Path, store: MemoryStore, panel: ScriptedPanel) -> None:
    append(log, [make_trace(n) for n in range(200)])
    run_to_the_end(log, store, panel, limits={"batch_records": 50, "result_interval_s": 0.2, "result_rows": 100})
    assert len(scores_of(store)) == 200
    assert store.scores.inserts <= 20, "not one insert a trace"


@pytest.mark.parametrize("bound", [{"max_in_flight_records": 15}, {"max_in_flight_bytes": 8_000}])
def test_work_in_flight_is_bounded_by_count_and_by_bytes(bound: dict[str, int], log: Path, store: MemoryStore) -> None:
    go, most = threading.Event(), 0
    asked: list[str] = []
    stages = Stages()

    def gate(task: JudgeTask) -> threading.Event:
        asked.append(task.trace.trace_id)
        return go

    append(log, [make_trace(n) for n in range(200)])
    pipeline = make_pipeline(
        log, store, ScriptedPanel(gate=gate), checkpoint=stages, limits={**bound, "batch_records": 5}
    )
    size = len(encode(make_trace(0)))
    with Running(pipeline, until_idle=True) as running:
        stages.wait_for("traces_stored", 3)
        # One poll (5 records) may overshoot each bound.
        most = len(store.traces.rows)
        assert most <= 20 if "max_in_flight_records" in bound else most * size <= 8_000 + 6 * size
        go.set()
        assert running.result().scored == 200


def test_a_full_gap_pauses_the_partition(log: Path, store: MemoryStore) -> None:
    """Records finished beyond a stuck one would all come again after a crash: their number is bounded."""
    stuck = threading.Event()
    panel = ScriptedPanel(gate=lambda task: stuck if task.trace.trace_id == make_trace(0).trace_id else None)
    append(log, [make_trace(n) for n in range(100)])
    stages = Stages()
    limits = {"batch_records": 5, "max_offset_gap": 20}
    reader = intake(log)
    with Running(
        make_pipeline(log, store, panel, intake=reader, checkpoint=stages, limits=limits), until_idle=True
    ) as running:
        stages.wait_for("scores_stored", 3)
        assert len(store.traces.rows) <= 25
        stuck.set()
        assert running.result().scored == 100


def test_a_judge_that_mostly_fails_is_told_once_and_so_is_its_return(
    log: Path, store: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    append(log, [make_trace(number) for number in range(40)])

    def verdict(task: JudgeTask) -> Outcome:
        return Outcome.INVALID if int(task.trace.trace_id.rpartition("-")[2]) < 20 else Outcome.PASSED

    with caplog.at_level(logging.WARNING):
        run_to_the_end(
            log, store, ScriptedPanel(verdict=verdict), limits={"batch_records": 10, "max_in_flight_records": 10}
        )
    said = [record.message for record in caplog.records if "'scripted'" in record.message]
    assert len(said) == 2
    assert "5 of its last 5 verdicts are invalid (5 judge_timeout)" in said[0]
    assert "most verdicts are valid again" in said[1]


def test_a_judge_that_is_gone_leaves_undecided_rows_and_one_loud_line(
    log: Path, store: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    append(log, [make_trace(n) for n in range(30)])
    panel = ScriptedPanel(gone=True)
    pipeline = make_pipeline(log, store, panel)
    with caplog.at_level(logging.WARNING):
        report = pipeline.run(until_idle=True)
    assert dict(report.ledger) == {Decision.UNDECIDED: 30}
    assert (report.scored, report.invalid) == (0, 0)
    assert committed(log) == 30, "they wait in the store, not in the queue"
    loud = [record.message for record in caplog.records if record.levelno == logging.ERROR]
    assert len(loud) == 1
    assert "bad_key" in loud[0]
    assert pipeline.health.report().judges_gone == ("scripted",)


def test_stopping_finishes_what_is_in_flight_and_commits_it(log: Path, store: MemoryStore) -> None:
    go, asked = threading.Event(), threading.Event()

    def gate(task: JudgeTask) -> threading.Event:
        asked.set()
        return go

    append(log, [make_trace(n) for n in range(100)])
    pipeline = make_pipeline(
        log, store, ScriptedPanel(gate=gate), limits={"max_in_flight_records": 20, "batch_records": 10}
    )
    with Running(pipeline) as running:
        assert asked.wait(PATIENCE_S)
        pipeline.stop()
        go.set()
        report = running.result()
    assert report.ended == "stopped"
    assert 0 < report.scored < 100, "what was at the judge; the rest is left"
    done = committed(log) or 0
    assert done <= report.scored
    rest = run_to_the_end(log, store, ScriptedPanel())
    assert report.scored + rest.scored == 100
    assert rest.settled == report.scored - done, "and nothing is judged twice"


def test_stopping_at_once_leaves_what_is_in_flight_for_the_next_start(log: Path, store: MemoryStore) -> None:
    never, asked = threading.Event(), threading.Event()

    def gate(task: JudgeTask) -> threading.Event | None:
        asked.set()
        return never if task.trace.trace_id == make_trace(12).trace_id else None

    append(log, [make_trace(n) for n in range(30)])
    stages = Stages()
    with Running(make_pipeline(log, store, ScriptedPanel(gate=gate), checkpoint=stages)) as running:
        stages.wait_for("scores_stored", 2)
        running.stop(drain=False)
    never.set()
    assert committed(log) == 12, "the end of the finished prefix"
    panel = ScriptedPanel()
    run_to_the_end(log, store, panel)
    assert committed(log) == 30
    assert len(scores_of(store)) == 30


def test_a_flood_of_dead_letters_stops_the_consumer_and_commits_none_of_the_last_ones(
    log: Path, store: MemoryStore, panel: ScriptedPanel
) -> None:
    append(log, [make_trace(n) for n in range(20)])
    run_to_the_end(log, store, panel)
    append(log, [b"not one of ours"] * 200)
    limit = DeadLetterLimit(max_share=0.5, window_records=50, min_dead=20)
    with pytest.raises(TooManyDeadLetters, match=r"not_json.*offset \d+.*correct the producer"):
        run_to_the_end(log, store, panel, dead_letter_limit=limit)
    assert len(scores_of(store)) == 20
    assert 20 <= (committed(log) or 0) <= 40
    assert len(store.dead_letters.rows) <= 60


def test_a_fault_of_our_own_ends_the_run_and_commits_what_was_done_before(log: Path, store: MemoryStore) -> None:
    def verdict(task: JudgeTask) -> Outcome:
        if task.trace.trace_id == make_trace(25).trace_id:
            raise ZeroDivisionError("a mistake of ours")
        return Outcome.PASSED

    append(log, [make_trace(n) for n in range(50)])
    with pytest.raises(ZeroDivisionError, match="a mistake of ours"):
        run_to_the_end(log, store, ScriptedPanel(verdict=verdict), limits={"max_in_flight_records": 10})
    assert 20 <= (committed(log) or 0) <= 25, "each record is finished by itself"


def test_feedback_and_open_parts_are_stored_and_not_judged(log: Path, store: MemoryStore, panel: ScriptedPanel) -> None:
    at = make_trace(1).event_time
    thumbs = Feedback(feedback_id="f1", trace_id="t-000001", app="shop", value=1.0, event_time=at)
    start = TracePart(trace_id="p-000001", app="shop", query="Which plan?", event_time=at)
    append(log, [thumbs, start])
    report = run_to_the_end(log, store, panel)
    assert (report.feedback, report.parts, report.assembled, report.asked) == (1, 1, 0, 0)
    assert len(store.feedback.rows) == len(store.parts.rows) == 1
    assert committed(log) == 2


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("batch_records", [1, 10])
def test_a_trace_logged_in_parts_is_judged_once_when_it_is_whole(
    order: tuple[int, int], batch_records: int, log: Path, store: MemoryStore
) -> None:
    at = make_trace(1).event_time
    nodes = make_trace(1).source_nodes
    parts = [
        TracePart(trace_id="p-000001", app="shop", query="Which plan?", source_nodes=nodes, event_time=at),
        TracePart(
            trace_id="p-000001", app="shop", response="Plan 1.", final=True, event_time=at + timedelta(seconds=3)
        ),
    ]
    seen: list[JudgeTask] = []

    def verdict(task: JudgeTask) -> Outcome:
        seen.append(task)
        return Outcome.PASSED

    append(log, [parts[index] for index in order])
    report = run_to_the_end(log, store, ScriptedPanel(verdict=verdict), limits={"batch_records": batch_records})
    assert (report.parts, report.assembled, report.scored) == (2, 1, 1)
    (task,) = seen
    assert (task.trace.query, task.trace.response, task.trace.source_nodes) == ("Which plan?", "Plan 1.", nodes)
    assert task.event_time == at + timedelta(seconds=3), "served when it was finished"
    again = run_to_the_end(log, store, ScriptedPanel(), group="again")
    assert (again.asked, again.assembled, again.parts) == (0, 0, 2)


def test_b30_only_what_is_stored_is_committed_when_the_store_fails_for_one_record(
    log: Path, store: MemoryStore, panel: ScriptedPanel
) -> None:
    """The fifth trace never gets through; those behind it do, and are not committed past it."""
    never = threading.Event()
    panel = ScriptedPanel(gate=lambda task: never if task.trace.trace_id == make_trace(4).trace_id else None)
    append(log, [make_trace(n) for n in range(10)])
    stages = Stages()
    pipeline = make_pipeline(log, store, panel, checkpoint=stages, limits={"batch_records": 1})
    with Running(pipeline) as running:
        stages.wait_for("scores_stored", 9)
        running.stop(drain=False)
    never.set()
    assert committed(log) == 4
    after = ScriptedPanel()
    run_to_the_end(log, store, after)
    assert set(after.asked) == {(make_trace(4).trace_id, "scripted")}, "5 is judged; 6 to 10 come again, settled"
    assert len(scores_of(store)) == 10
    assert committed(log) == 10


def test_b38_naive_times_are_refused_and_aware_ones_mean_the_same_instant(
    log: Path, store: MemoryStore, panel: ScriptedPanel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the host's time zone: only the offset written in the record counts."""
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        template = encode(make_trace(1)).replace(b"t-000001", b"t-00000%d").decode()
        when = make_trace(1).model_dump(mode="json")["event_time"]
        times = [
            "2026-01-01T12:00:00",
            "2026-01-01T12:00:00Z",
            "2026-01-01T17:30:00+05:30",
            "2026-03-08T02:30:00-05:00",
        ]
        append(log, [(template % n).replace(when, text).encode() for n, text in enumerate(times)])
        report = run_to_the_end(log, store, panel)
        assert dict(report.dead_letters) == {"invalid_field": 1}
        found = {row.key.trace_id: row.trace.event_time.isoformat() for row in store.traces.rows.values()}
        assert found == {
            "t-000001": "2026-01-01T12:00:00+00:00",
            "t-000002": "2026-01-01T12:00:00+00:00",
            "t-000003": "2026-03-08T07:30:00+00:00",
        }
    finally:
        monkeypatch.undo()
        time.tzset()


def test_progress_is_told_after_each_batch_and_ends_at_the_report(
    log: Path, store: MemoryStore, panel: ScriptedPanel
) -> None:
    append(log, [make_trace(n) for n in range(30)])
    told: list[PipelineReport] = []
    report = run_to_the_end(log, store, panel, progress=told.append)
    assert [one.records for one in told] == sorted(one.records for one in told)
    assert (told[-1].records, told[-1].scored) == (report.records, report.scored) == (30, 30)


def test_a_panel_that_cannot_read_what_was_spent_is_asked_again_when_the_store_is_back(
    log: Path, store: MemoryStore
) -> None:
    panel = ScriptedPanel(unread_budgets=2)
    append(log, [make_trace(n) for n in range(4)])
    pipeline = make_pipeline(log, store, panel)
    report = pipeline.run(until_idle=True)
    assert (report.scored, report.ended, panel.unread_budgets) == (4, "idle", 0)
    assert max(panel.asked.values()) == 1
    assert pipeline.metrics.registry.get_sample_value("tracejudge_store_retries_total") == 2
    assert pipeline.health.report().store_answers
    assert committed(log) == 4


def test_a_second_reader_of_the_group_ends_unassigned_when_it_was_to_read_to_the_end(
    log: Path, store: MemoryStore, panel: ScriptedPanel
) -> None:
    append(log, [make_trace(1)])
    holder = intake(log)
    assert len(holder.poll(timeout_s=0.0, max_records=10)) == 1
    report = run_to_the_end(log, store, panel, limits={"unassigned_patience_s": 0.05})
    assert (report.ended, report.records) == ("unassigned", 0)
    holder.close()
    assert run_to_the_end(log, store, panel).scored == 1


def test_what_was_not_put_to_the_judges_when_its_partition_went_away_is_left_to_the_next_owner(
    log: Path, store: MemoryStore, panel: ScriptedPanel
) -> None:
    append(log, [make_trace(n) for n in range(10)])
    reader = intake(log)
    stages = Stages()
    pipeline = make_pipeline(log, store, panel, intake=reader, checkpoint=stages)

    def take_it_away(name: str) -> None:
        if name == "traces.insert":
            pipeline.lost([PartitionKey(reader.source, 0)])

    store.on_call = take_it_away
    with Running(pipeline) as running:
        stages.wait_for("scores_stored")
        report = running.stop()
    assert (report.abandoned, report.asked, len(store.traces.rows)) == (10, 0, 10)
    assert committed(log) is None
    store.on_call = lambda name: None
    assert run_to_the_end(log, store, panel).scored == 10


def test_metrics_and_health_tell_what_the_run_did(log: Path, store: MemoryStore, panel: ScriptedPanel) -> None:
    append(log, [*(make_trace(n) for n in range(12)), b"{"])
    pipeline = make_pipeline(log, store, panel)
    pipeline.run(until_idle=True)

    def value(name: str, **labels: str) -> float | None:
        return pipeline.metrics.registry.get_sample_value(f"tracejudge_{name}", labels)

    assert value("records_total", kind="trace") == 12
    assert value("dead_letters_total", reason="not_json") == 1
    assert value("scores_total", judge="scripted", outcome="failed") == 4
    assert value("judge_calls_total", judge="scripted", status="ok") == 12
    assert (value("commits_total", result="accepted") or 0) >= 1
    assert value("in_flight_records") == value("in_flight_bytes") == value("offset_gap_records") == 0
    assert value("lag_records", source="sqlite:queue.db", partition="0") is not None
    health = pipeline.health.report()
    assert (health.live, health.reasons[0]) == (False, "the pipeline has stopped")
