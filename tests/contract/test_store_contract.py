"""What every store keeps to, whatever it runs on: counting right, typed rows, exact times, bound values."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from tests.support.store_fixture import Databases
from tracejudge.scores import Decision, JudgeCall, JudgeId, LedgerRow, Outcome, Score, TraceKey, Usage
from tracejudge.store import (
    Adoption,
    Cursor,
    RateQuery,
    RegisteredJudge,
    ScoreFilter,
    Store,
    StoredTrace,
    TraceFilter,
    open_store,
)
from tracejudge.testing import make_score, make_trace
from tracejudge_sdk.trace import Trace

UTC = timezone.utc
START = datetime(2026, 1, 1, 12, tzinfo=UTC)
DAY = RateQuery(start=START, end=START + timedelta(days=1))
LATER = datetime(2027, 1, 1, tzinfo=UTC)
NASTY = [
    "'; DROP TABLE traces; --",
    "\\'; SELECT 1; --",
    "a'b\"c`d\\",
    "{x:String}",
    "%(a)s %s %",
    "line\nbreak\r\n\ttab",
    "nul\x00byte",
    "\u202eright-to-left \U0001f600 \u0000\ufffd",
    "Ünï\u0301cödé",
    "",
    "$$ /* comment */ -- ",
]


def stored(number: int = 0, **fields: Any) -> StoredTrace:
    return StoredTrace(
        trace=make_trace(number, **fields),
        signals={"language": "en", "query_chars": 3, "lexical_overlap": None},
        ingested_at=START + timedelta(hours=1),
        source="file:sample",
        partition=0,
        offset=number,
    )


def ledger_row(number: int, decision: Decision, **fields: Any) -> LedgerRow:
    values: dict[str, Any] = {
        "environment": "production",
        "app": "shop",
        "version": "v1",
        "category": "",
        "trace_id": f"t-{number:06d}",
        "event_time": START + timedelta(seconds=number),
        "judge_name": "lexical",
        "judge_id": JudgeId("lexical@000000000000"),
        "decision": decision,
        "decided_at": START + timedelta(hours=1),
    }
    return LedgerRow(**{**values, **fields})


def registered(name: str, at: datetime, *, judge_id: str | None = None, heuristic: bool = True) -> RegisteredJudge:
    return RegisteredJudge(
        judge_name=name,
        judge_id=JudgeId(judge_id or f"{name}@000000000000"),
        spec={},
        heuristic=heuristic,
        registered_at=at,
    )


class Answers:
    """Every reader of scores, asked the same thing."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def all(self) -> dict[str, Any]:
        store = self._store
        row = next(iter(store.scores.buckets(DAY)), None)
        stream = [score for page in store.scores.stream(ScoreFilter(), batch=3) for score in page]
        line = next(iter(store.ledger.equation(DAY.start, DAY.end)), None)
        return {
            "rates": None if row is None else (row.bucket.n, row.bucket.passed, row.bucket.invalid),
            "count": store.scores.count(ScoreFilter()),
            "export": [(s.trace_id, s.outcome.value, s.score) for s in stream],
            "detectors": [(s.trace_id, s.outcome.value) for s in _folded(store)],
            "worst": [(s.trace_id, s.score) for s in store.scores.worst(ScoreFilter(), limit=100)],
            "show": [(s.trace_id, s.outcome.value) for s in store.scores.of_trace("t-000000")],
            "ledger": None if line is None else (line.passed, line.failed, line.invalid),
        }

    def minutes(self) -> tuple[int, int, int]:
        self._store.minutes.recompute([START + timedelta(minutes=m) for m in range(5)])
        (row,) = self._store.minutes.buckets(DAY)
        return (row.bucket.n, row.bucket.passed, row.bucket.invalid)


def _folded(store: Store, limit: int = 7) -> Iterator[Score]:
    cursor: Cursor | None = None
    while page := store.scores.since(cursor, until=LATER, limit=limit):
        yield from page
        cursor = Cursor(page[-1].judged_at, page[-1].trace_id)


def test_a_trace_comes_back_as_it_went_in(contract_store: Store) -> None:
    trace = make_trace(
        7,
        response=None,
        status="error",
        error="",
        source_nodes=[
            {"node_id": "", "text": None, "score": None, "metadata": {"page": 1, "deep": {"a": [1, None, 2.5]}}},
            {"node_id": "n", "text": "", "score": 0.0},
        ],
        history=[{"role": "user", "content": "hi"}, {"role": "assistant", "content": ""}],
        reference="",
        expected_ids=["a", ""],
        case_id="",
        latency_ms=0.1 + 0.2,
        model="",
        category=None,
        user_id="",
        tags={"": "", "k'": "v\\"},
        truncated=True,
        head_probability=0.1,
    )
    contract_store.traces.insert([replace(stored(7), trace=trace)])
    (found,) = contract_store.traces.get("t-000007")
    assert found.trace == trace
    assert found == replace(stored(7), trace=trace)
    assert found.trace.event_time.tzinfo is not None


def test_two_megabytes_of_text_survive(contract_store: Store) -> None:
    long = "Ωmega \U0001f9ea " * 180_000
    trace = make_trace(1, query=long[: 2_000_000 // 3], source_nodes=[{"node_id": "n", "text": long}])
    contract_store.traces.insert([replace(stored(1), trace=trace), stored(2)])
    (found,) = contract_store.traces.get("t-000001")
    assert found.trace == trace


def test_a_redelivered_trace_keeps_its_first_event_time_and_text(contract_store: Store) -> None:
    contract_store.traces.insert([stored(1)])
    again = stored(1, event_time=START + timedelta(days=3), query="another question")
    contract_store.traces.insert([stored(2), replace(again, ingested_at=START + timedelta(hours=2))])
    contract_store.optimize("traces")
    (found,) = contract_store.traces.get("t-000001")
    assert found.trace == stored(1).trace
    assert contract_store.traces.count(TraceFilter()) == 2
    known = contract_store.lookup([stored(1).key, TraceKey("production", "shop", "never seen")])
    assert known.keys() == {stored(1).key}
    assert known[stored(1).key].event_time == stored(1).trace.event_time


def test_a_complete_trace_replaces_an_incomplete_one_and_not_the_reverse(contract_store: Store) -> None:
    contract_store.traces.insert([stored(1, status="incomplete", response=None)])
    contract_store.traces.insert([replace(stored(1), ingested_at=START + timedelta(hours=2))])
    contract_store.traces.insert([replace(stored(1, status="incomplete"), ingested_at=START + timedelta(hours=3))])
    (found,) = contract_store.traces.get("t-000001")
    assert found.trace.status == "ok"
    assert found.trace.response == make_trace(1).response


def test_ids_are_unique_within_an_app_of_an_environment(contract_store: Store) -> None:
    contract_store.traces.insert([stored(1), stored(1, app="other"), stored(1, environment="staging")])
    assert len(contract_store.traces.get("t-000001")) == 3
    assert len(contract_store.traces.get("t-000001", environment="staging")) == 1


def test_traces_stream_in_order_page_by_page(contract_store: Store) -> None:
    same_time = [stored(i, event_time=START) for i in range(5)]
    contract_store.traces.insert([*[stored(i) for i in range(10, 20)], *same_time])
    pages = list(contract_store.traces.stream(TraceFilter(), batch=4))
    found = [one.trace.trace_id for page in pages for one in page]
    assert found == [f"t-{i:06d}" for i in [*range(5), *range(10, 20)]]
    assert [len(page) for page in pages] == [4, 4, 4, 3]
    window = TraceFilter(start=START + timedelta(seconds=10), end=START + timedelta(seconds=12), app="shop")
    assert contract_store.traces.count(window) == 2


def test_counts_are_the_same_before_and_after_merges(contract_store: Store) -> None:
    contract_store.traces.insert([stored(i) for i in range(20)])
    scores = [make_score(i, passed=i % 4 != 0) for i in range(20)]
    for start in range(0, 20, 6):
        contract_store.scores.insert(scores[start : start + 6])
    for start in range(0, 20, 7):  # the same again, split another way
        contract_store.scores.insert(scores[start : start + 7])
    answers = Answers(contract_store)
    before = answers.all()
    assert before["rates"] == answers.minutes() == (20, 15, 0)
    assert len(before["detectors"]) == before["count"] == len(before["export"]) == 20
    contract_store.optimize("scores")
    contract_store.optimize("scores_by_judged")
    assert answers.all() == before
    assert answers.minutes() == before["rates"]


def test_b41_three_versions_of_one_verdict_are_one_row_in_every_reader(contract_store: Store) -> None:
    contract_store.traces.insert([stored(0)])
    first = make_score(0)
    rescored = replace(
        first, outcome=Outcome.FAILED, score=0.0, revision=1, judged_at=first.judged_at + timedelta(hours=1)
    )
    for version in (first, first, rescored, first):
        contract_store.scores.insert([version])
    expected = {
        "rates": (1, 0, 0),
        "count": 1,
        "export": [("t-000000", "failed", 0.0)],
        "detectors": [("t-000000", "failed")],
        "worst": [("t-000000", 0.0)],
        "show": [("t-000000", "failed")],
        "ledger": (0, 1, 0),
    }
    assert Answers(contract_store).all() == expected
    assert Answers(contract_store).minutes() == (1, 0, 0)
    contract_store.optimize("scores")
    assert Answers(contract_store).all() == expected


def test_settled_beats_invalid_and_the_first_settled_wins(contract_store: Store) -> None:
    base = make_score(0)
    later = [base.judged_at + timedelta(seconds=s) for s in range(4)]
    invalid = replace(base, outcome=Outcome.INVALID, score=None, reason="judge_timeout", judged_at=later[0])
    passed = replace(base, judged_at=later[1])
    failed = replace(base, outcome=Outcome.FAILED, score=0.0, judged_at=later[2])
    for score in (failed, invalid, passed, replace(invalid, judged_at=later[3])):
        contract_store.scores.insert([score])
    assert contract_store.scores.of_trace("t-000000") == []  # verdicts are found through their trace
    contract_store.traces.insert([stored(0)])
    (found,) = contract_store.scores.of_trace("t-000000")
    assert found == passed
    assert [s.judged_at for s in _folded(contract_store)] == [later[1]]


def test_a_score_comes_back_as_it_went_in(contract_store: Store) -> None:
    score = replace(
        make_score(3),
        score=0.1 + 0.2,
        feedback=NASTY[7],
        raw_reply="",
        stratum="tail",
        inclusion_probability=0.015,
        flags=("heuristic", "suspected_injection"),
        usage=Usage(calls=2, input_tokens=10, output_tokens=3, cost_usd=None, latency_ms=12.5),
        judged_at=START + timedelta(microseconds=123456),
    )
    contract_store.scores.insert([score])
    assert list(_folded(contract_store)) == [score]


def test_lookup_tells_settled_from_invalid(contract_store: Store) -> None:
    contract_store.traces.insert([stored(0), stored(1)])
    other = JudgeId("other@111111111111")
    contract_store.scores.insert(
        [
            make_score(0),
            make_score(0, judge_name="other", judge_id=other, outcome=Outcome.INVALID, score=None, reason="refused"),
            make_score(1, run_id="replay-1"),
        ]
    )
    known = contract_store.lookup([stored(0).key, stored(1).key])
    assert known[stored(0).key].settled == {"lexical@000000000000"}
    assert known[stored(0).key].invalid == {other}
    assert known[stored(1).key].settled == frozenset()
    assert contract_store.lookup([stored(1).key], run_id="replay-1")[stored(1).key].settled
    assert contract_store.lookup([]) == {}


def test_a_cursor_skips_nothing_where_times_are_equal(contract_store: Store) -> None:
    at = START + timedelta(minutes=5)
    scores = [make_score(i, judged_at=at, judge_name=j, judge_id=f"{j}@1") for i in range(6) for j in ("a", "b", "c")]
    contract_store.scores.insert(scores)
    for limit in (1, 2, 4, 100):
        found = [(s.trace_id, s.judge_name) for s in _folded(contract_store, limit)]
        assert sorted(found) == sorted((s.trace_id, s.judge_name) for s in scores)
        assert [one for one, _ in found] == sorted(one for one, _ in found)
    assert contract_store.scores.since(None, until=at - timedelta(microseconds=1), limit=10) == []
    assert contract_store.scores.since(Cursor(at, "t-000005"), until=LATER, limit=10) == []


def test_a_cursor_goes_on_past_rows_that_a_rescore_has_moved(contract_store: Store) -> None:
    scores = [make_score(i) for i in range(6)]
    contract_store.scores.insert(scores)
    moved = [replace(score, revision=1, judged_at=START + timedelta(hours=1)) for score in scores[1:5]]
    contract_store.scores.insert(moved)
    for limit in (1, 2, 3, 50):
        found = list(_folded(contract_store, limit))
        assert [(score.trace_id, score.revision) for score in found] == [
            (score.trace_id, score.revision) for score in (scores[0], scores[5], *moved)
        ]


def test_other_runs_enter_neither_rates_nor_detectors(contract_store: Store) -> None:
    contract_store.scores.insert([make_score(0), make_score(1, run_id="shadow"), make_score(2, run_id="replay")])
    assert [s.trace_id for s in _folded(contract_store)] == ["t-000000"]
    (row,) = contract_store.scores.buckets(DAY)
    assert row.bucket.n == 1
    (row,) = contract_store.scores.buckets(replace(DAY, run_id="replay"))
    assert row.bucket.n == 1


def test_an_insert_whose_acknowledgement_was_lost_is_sent_again_and_counts_once(contract_store: Store) -> None:
    scores = [make_score(i) for i in range(10)]
    connection = contract_store._connection
    attempts = []

    def lose_the_answer_once(client: Any) -> None:
        from clickhouse_connect.driver.exceptions import OperationalError

        attempts.append(client)
        columns = contract_store.scores.columns
        rows = [contract_store.scores._encode(score) for score in scores]
        client.insert("scores", rows, column_names=list(columns.names), column_type_names=list(columns.types))
        if len(attempts) == 1:
            raise OperationalError("connection reset after the server had stored the rows")

    connection.run(lose_the_answer_once)
    assert len(attempts) == 2
    assert Answers(contract_store).all()["rates"] == (10, 10, 0)
    assert contract_store.scores.count(ScoreFilter()) == 10


def test_weights_strata_and_slices_are_summed_apart(contract_store: Store) -> None:
    scores = [
        make_score(0, inclusion_probability=0.5, stratum="tail", version="v1"),
        make_score(1, passed=False, inclusion_probability=0.5, stratum="tail", version="v1"),
        make_score(2, inclusion_probability=0.1, stratum="", version="v2", flags=("heuristic",)),
        make_score(3, outcome=Outcome.INVALID, score=None, stratum="", version="v2"),
        make_score(70, app="other"),
    ]
    contract_store.scores.insert(scores)
    rows = contract_store.scores.buckets(replace(DAY, app="shop", group_by=("version",)))
    tail, base = sorted(rows, key=lambda row: row.group["version"])
    assert (tail.stratum, tail.bucket.n, tail.bucket.sum_w, tail.bucket.sum_w2) == ("tail", 2, 4.0, 8.0)
    assert (tail.bucket.sum_wx, tail.bucket.sum_w2x, tail.heuristic) == (2.0, 4.0, False)
    assert (base.bucket.n, base.bucket.invalid, base.heuristic) == (1, 1, True)
    assert base.bucket.sum_w == pytest.approx(10.0)
    panes = contract_store.scores.buckets(replace(DAY, start=START + timedelta(seconds=1), step_s=60))
    assert [row.start for row in panes] == sorted(row.start for row in panes)
    assert panes[-1].start == START + timedelta(seconds=61)
    assert sum(row.bucket.n for row in panes) == 3  # the trace at START is before the window


def test_minutes_give_the_same_numbers_as_the_rows(contract_store: Store) -> None:
    start = START.replace(hour=0)
    scores = [
        make_score(
            i * 97 % 86_400 - 43_200, passed=i % 3 > 0, inclusion_probability=(i % 7 + 1) / 7, stratum=str(i % 2)
        )
        for i in range(400)
    ]
    contract_store.scores.insert(scores)
    contract_store.scores.insert(scores[100:150])
    minutes = sorted({score.event_time.replace(second=0) for score in scores})
    contract_store.minutes.recompute(minutes)
    contract_store.minutes.recompute(minutes[:10])
    query = RateQuery(start=start, end=start + timedelta(days=1), step_s=3600, group_by=("version",))
    rolled, raw = contract_store.minutes.buckets(query), contract_store.scores.buckets(query)
    assert len(rolled) == len(raw) > 20
    for left, right in zip(rolled, raw, strict=True):
        assert (left.start, left.stratum, left.group, left.judge_id) == (
            right.start, right.stratum, right.group, right.judge_id,
        )  # fmt: skip
        for name in ("n", "passed", "invalid", "sum_w", "sum_w2", "sum_wx", "sum_w2x"):
            assert getattr(left.bucket, name) == pytest.approx(getattr(right.bucket, name), rel=1e-9)


def test_a_minute_that_lost_its_scores_is_emptied(contract_store: Store) -> None:
    contract_store.scores.insert([make_score(0)])
    contract_store.minutes.recompute([START])
    contract_store.command("TRUNCATE TABLE scores")
    contract_store.minutes.recompute([START])
    assert contract_store.minutes.buckets(DAY) == []


def test_rollup_takes_what_was_touched_and_long_windows_read_it(contract_store: Store) -> None:
    contract_store.scores.insert([make_score(i) for i in range(120)])
    assert contract_store.minutes.rollup() == 2
    contract_store.scores.insert([make_score(300)])
    assert contract_store.minutes.rollup() == 3  # and once more what may have been on its way
    (row,) = contract_store.scores.buckets(DAY)
    assert row.bucket.n == 121


def test_a_judge_name_reads_the_id_that_was_live(contract_store: Store) -> None:
    old, new = JudgeId("lexical@old"), JudgeId("lexical@new")
    contract_store.judges.adopt(Adoption(judge_name="lexical", judge_id=old, live_from=START + timedelta(days=-1)))
    contract_store.judges.adopt(Adoption(judge_name="lexical", judge_id=new, live_from=START + timedelta(seconds=10)))
    contract_store.scores.insert([make_score(i, judge_id=old) for i in range(12)])
    contract_store.scores.insert(
        [make_score(i, judge_id=new, passed=False, judged_at=LATER - timedelta(days=1)) for i in range(8, 20)]
    )
    contract_store.scores.insert([make_score(-5, judge_id=new)])  # judged late, by the successor alone
    rows = {row.judge_id: row.bucket for row in contract_store.scores.buckets(replace(DAY, start=START - timedelta(1)))}
    assert (rows[old].n, rows[old].passed) == (10, 10)
    assert (rows[new].n, rows[new].passed) == (11, 1)
    (only_new,) = contract_store.scores.buckets(replace(DAY, judge=new))
    assert only_new.bucket.n == 12
    assert contract_store.judges.live_at("lexical", START) == old
    assert contract_store.judges.live_at("unknown", START) is None


def test_the_ledger_accounts_for_every_trace(contract_store: Store) -> None:
    contract_store.traces.insert([stored(i) for i in range(20)])
    contract_store.scores.insert([make_score(i, passed=i > 0) for i in range(4)])
    contract_store.scores.insert([make_score(4, outcome=Outcome.INVALID, score=None, reason="unparsable")])
    decisions = [Decision.UNDECIDED, Decision.SAMPLED_OUT, Decision.NOT_APPLICABLE, Decision.OVER_BUDGET]
    contract_store.ledger.insert([ledger_row(i, Decision.UNDECIDED) for i in range(15)])
    contract_store.ledger.insert([ledger_row(i, decisions[i % 4]) for i in range(5, 19)])
    contract_store.ledger.insert([ledger_row(6, Decision.UNDECIDED, decided_at=LATER - timedelta(days=9))])
    (line,) = contract_store.ledger.equation(DAY.start, DAY.end)
    assert (line.traces, line.passed, line.failed, line.invalid) == (20, 3, 1, 1)
    assert sum(line.decisions.values()) == 14
    assert line.decisions[Decision.UNDECIDED] == 3  # 8, 12 and 16; the others were decided or scored after all
    assert line.unaccounted == 1
    (hour,) = contract_store.ledger.equation(DAY.start, DAY.end, hourly=True)
    assert hour == replace(line, hour=START)
    assert [row.trace_id for row in contract_store.ledger.undecided()] == ["t-000008", "t-000012", "t-000016"]
    assert contract_store.ledger.of_trace("t-000001") == []
    assert contract_store.ledger.of_trace("t-000006") == [ledger_row(6, Decision.NOT_APPLICABLE)]


@pytest.mark.parametrize("late", [Decision.INCOMPLETE, Decision.UNDECIDED])
def test_a_broken_off_answer_never_hides_that_its_complete_one_waits_for_a_judge(
    contract_store: Store, late: Decision
) -> None:
    contract_store.traces.insert([stored(1)])
    early = Decision.UNDECIDED if late is Decision.INCOMPLETE else Decision.INCOMPLETE
    contract_store.ledger.insert([ledger_row(1, early)])
    contract_store.ledger.insert([ledger_row(1, late, decided_at=START + timedelta(hours=2))])
    assert [row.decision for row in contract_store.ledger.undecided()] == [Decision.UNDECIDED]
    (line,) = contract_store.ledger.equation(DAY.start, DAY.end)
    assert (line.traces, line.decisions) == (1, {Decision.UNDECIDED: 1})
    contract_store.ledger.insert([ledger_row(1, Decision.OVER_BUDGET)])
    assert contract_store.ledger.undecided() == []


def test_the_ledger_tells_traces_that_nobody_has_decided_anything_about(contract_store: Store) -> None:
    """A consumer that died after it had stored the traces: no score, no row, and the name known by its adoption."""
    judge = JudgeId("lexical@000000000000")
    contract_store.judges.register([registered("lexical", START)])
    contract_store.judges.adopt(Adoption(judge_name="lexical", judge_id=judge, live_from=START - timedelta(days=9)))
    contract_store.traces.insert([stored(i) for i in range(50)])
    (line,) = contract_store.ledger.equation(DAY.start, DAY.end)
    assert (line.judge_name, line.judge_id, line.heuristic) == ("lexical", judge, True)
    assert (line.traces, line.unaccounted, line.decisions) == (50, 50, {})
    (hour,) = contract_store.ledger.equation(DAY.start, DAY.end, hourly=True)
    assert hour == replace(line, hour=START)
    assert contract_store.ledger.equation(DAY.start, DAY.end, run_id="replay-1") == []


def test_a_judge_answers_for_what_came_since_it_was_registered_and_for_what_it_decided_anyway(
    contract_store: Store,
) -> None:
    contract_store.judges.register([registered("lexical", START), registered("late", START + timedelta(hours=2))])
    contract_store.judges.register([registered("late", START + timedelta(hours=5), judge_id="late@1")])
    early, late = [stored(i) for i in range(20)], [stored(i) for i in range(20, 30)]
    contract_store.traces.insert(early)
    contract_store.traces.insert([replace(one, ingested_at=START + timedelta(hours=2)) for one in late])
    contract_store.scores.insert([make_score(i) for i in range(30)])
    scores = [make_score(i, judge_name="late", judge_id=JudgeId("late@000000000000")) for i in (3, 4, 20, 21, 22)]
    contract_store.scores.insert(scores)
    contract_store.ledger.insert(
        [ledger_row(i, Decision.UNDECIDED, judge_name="late", judge_id=JudgeId("late@1")) for i in (3, 5, 23)]
    )
    lines = {line.judge_name: line for line in contract_store.ledger.equation(DAY.start, DAY.end)}
    assert (lines["lexical"].traces, lines["lexical"].unaccounted) == (30, 0)
    line = lines["late"]
    assert (line.traces, line.passed, line.decisions, line.unaccounted) == (13, 5, {Decision.UNDECIDED: 2}, 6)
    assert line.judge_id == "late@000000000000"
    for one in contract_store.ledger.equation(DAY.start, DAY.end, hourly=True):
        assert one.traces == one.passed + one.failed + one.invalid + sum(one.decisions.values()) + one.unaccounted


def test_a_ledger_line_says_that_a_judge_is_heuristic(contract_store: Store) -> None:
    contract_store.judges.register([registered("told", START, heuristic=False)])
    contract_store.traces.insert([stored(1)])
    flags = {"told": ("heuristic",), "flagged": ("heuristic",), "neither": ()}
    for name, flagged in flags.items():
        contract_store.scores.insert([make_score(1, judge_name=name, judge_id=JudgeId(f"{name}@1"), flags=flagged)])
    lines = contract_store.ledger.equation(DAY.start, DAY.end)
    assert {line.judge_name: line.heuristic for line in lines} == {"told": False, "flagged": True, "neither": False}


def test_equation_spans_days_and_counts_hours_without_traces_of_a_judge(contract_store: Store) -> None:
    contract_store.traces.insert([stored(i * 3600) for i in range(30)])
    contract_store.scores.insert([make_score(i * 3600) for i in range(0, 30, 2)])
    lines = contract_store.ledger.equation(START, START + timedelta(hours=30), hourly=True)
    assert [line.hour for line in lines] == [START + timedelta(hours=i) for i in range(30)]
    assert [line.unaccounted for line in lines] == [i % 2 for i in range(30)]
    assert contract_store.ledger.equation(LATER, LATER + timedelta(days=1)) == []


def test_two_runs_are_paired_by_trace(contract_store: Store) -> None:
    live = [make_score(i) for i in range(30)]
    replay = [
        make_score(i, passed=i % 5 > 0, run_id="r", judge_name="other", judge_id="other@1") for i in range(10, 40)
    ]
    contract_store.scores.insert(live + replay)
    pairs = list(contract_store.scores.pairs("live", "r", judge_a="lexical", judge_b="other@1"))
    assert [pair.key.trace_id for pair in pairs] == [f"t-{i:06d}" for i in range(10, 30)]
    assert {(pair.a.run_id, pair.b.run_id) for pair in pairs} == {("live", "r")}
    assert sum(pair.a.outcome is not pair.b.outcome for pair in pairs) == 4


def test_a_call_is_counted_once_however_often_it_is_inserted(contract_store: Store) -> None:
    calls = [
        JudgeCall(
            call_id=f"c{i}",
            environment="production",
            app="shop",
            trace_id="t",
            judge_name="faithfulness",
            judge_id=JudgeId("faithfulness@1"),
            status="ok" if i else "rate_limited",
            cost_usd=0.25 if i % 2 else None,
            input_tokens=100,
            started_at=START + timedelta(hours=i * 10),
        )
        for i in range(5)
    ]
    contract_store.calls.insert(calls)
    contract_store.calls.insert(calls[1:3])
    assert contract_store.calls.spent("faithfulness", START) == (5, 0.5, 3)
    assert contract_store.calls.spent("faithfulness", START + timedelta(hours=30)).calls == 2
    assert contract_store.calls.spent("other", START) == (0, 0.0, 0)
    days = contract_store.calls.cost(START)
    assert [(row.day.day, row.calls, row.failed_calls, row.input_tokens) for row in days] == [
        (1, 2, 1, 200),
        (2, 2, 0, 200),
        (3, 1, 0, 100),
    ]


@pytest.mark.timeout(60)
def test_b37_eight_readers_and_a_writer_share_one_store(contract_store: Store) -> None:
    batches, size = 25, 10

    def write() -> None:
        for batch in range(batches):
            contract_store.scores.insert([make_score(batch * size + i) for i in range(size)])

    def read(_: int) -> int:
        last = 0
        for _round in range(8):
            rows = contract_store.scores.buckets(DAY)
            count = sum(row.bucket.n for row in rows)
            assert count >= last
            last = count
        return last

    with ThreadPoolExecutor(9) as threads:
        writer = threads.submit(write)
        readers = [threads.submit(read, i) for i in range(8)]
        writer.result()
        assert all(reader.result() <= batches * size for reader in readers)
    (row,) = contract_store.scores.buckets(DAY)
    assert row.bucket.n == batches * size


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Kolkata"])
def test_b38_times_do_not_depend_on_the_hosts_zone(
    contract_store: Store, zone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        kolkata = timezone(timedelta(hours=5, minutes=30))
        gap = datetime(2026, 3, 8, 7, 30, tzinfo=UTC)  # 02:30 does not exist in New York that day
        noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
        scores = [
            make_score(0, event_time=noon),
            make_score(1, event_time=noon.astimezone(kolkata) + timedelta(seconds=1)),
            make_score(2, event_time=gap),
        ]
        naive = make_score(3, event_time=datetime(2026, 1, 1, 12))  # noqa: DTZ001  (that is the case)
        outcome = contract_store.scores.insert([*scores, naive])
        assert [reject.reason for reject in outcome.rejected] == ["naive_datetime"]
        minute = timedelta(minutes=1)
        (row,) = contract_store.scores.buckets(RateQuery(start=noon, end=noon + minute))
        assert row.bucket.n == 2
        assert row.start == noon
        (row,) = contract_store.scores.buckets(RateQuery(start=gap, end=gap + minute))
        assert row.bucket.n == 1
        (first, *_) = contract_store.scores.worst(ScoreFilter(start=gap), limit=1)
        assert (first.event_time, first.event_time.utcoffset()) == (gap, timedelta(0))
        with pytest.raises(ValueError, match="no time zone"):
            contract_store.scores.buckets(RateQuery(start=datetime(2026, 1, 1), end=noon))  # noqa: DTZ001
    finally:
        monkeypatch.undo()
        time.tzset()


def test_b39_milliseconds_decide_at_the_edge_of_a_window(contract_store: Store) -> None:
    at = START.replace(microsecond=123_000)
    contract_store.traces.insert([stored(0, event_time=at)])
    contract_store.scores.insert([make_score(0, event_time=at)])
    for cut_ms, inside in ((100, 0), (123, 0), (124, 1), (500, 1)):
        end = START + timedelta(milliseconds=cut_ms)
        rows = contract_store.scores.buckets(RateQuery(start=START, end=end))
        assert sum(row.bucket.n for row in rows) == inside
        assert contract_store.traces.count(TraceFilter(start=START, end=end)) == inside
    assert contract_store.traces.count(TraceFilter(start=at)) == 1
    assert contract_store.traces.count(TraceFilter(start=at + timedelta(milliseconds=1))) == 0
    judged = make_score(0).judged_at
    assert contract_store.scores.since(None, until=judged - timedelta(microseconds=1), limit=1) == []
    assert len(contract_store.scores.since(None, until=judged, limit=1)) == 1


def test_b42_numbers_that_are_none_become_invalid_and_are_never_averaged(contract_store: Store) -> None:
    odd: list[Any] = [1.0, math.nan, None, math.inf, -math.inf, 1.5]
    contract_store.scores.insert([make_score(i, score=number) for i, number in enumerate(odd)])
    (row,) = contract_store.scores.buckets(DAY)
    assert (row.bucket.n, row.bucket.passed, row.bucket.invalid, row.bucket.sum_wx) == (1, 1, 5, 1.0)
    found = [score for page in contract_store.scores.stream(ScoreFilter()) for score in page]
    assert [score.score for score in found] == [1.0, None, None, None, None, None]
    assert {score.reason for score in found[1:]} == {"out_of_range"}
    assert [score.score for score in contract_store.scores.worst(ScoreFilter(), limit=9)] == [1.0]
    assert contract_store.query("SELECT countIf(isNaN(score)) FROM scores")[0][0] == 0


def test_b43_a_bad_cell_rejects_its_row_and_never_the_batch(contract_store: Store) -> None:
    scores: list[Any] = [make_score(i) for i in range(20)]
    scores[3] = replace(scores[3], score="N/A")
    scores[7] = replace(scores[7], feedback=None)
    scores[9] = replace(scores[9], outcome="failed", score=0)
    outcome = contract_store.scores.insert(scores)
    assert outcome.stored == 18
    assert [(reject.index, reject.reason) for reject in outcome.rejected] == [(3, "ill_typed"), (7, "ill_typed")]
    assert contract_store.scores.count(ScoreFilter()) == 18
    (row,) = contract_store.scores.buckets(DAY)
    assert (row.bucket.n, row.bucket.passed) == (18, 17)
    contract_store.scores.insert(scores)
    letters = contract_store.dead_letters.all(reason="rejected_row")
    assert sorted(letter.detail.split(":")[1].strip() for letter in letters) == ["feedback", "score"]
    assert {letter.source for letter in letters} == {"store:scores"}
    assert any(b'"score":"N/A"' in letter.value for letter in letters)


def test_b43_the_text_false_is_false(contract_store: Store) -> None:
    trace = make_trace(1).model_copy(update={"truncated": "false", "lossy": "true"})
    bad = make_trace(2).model_copy(update={"truncated": "maybe"})
    outcome = contract_store.traces.insert([replace(stored(1), trace=trace), replace(stored(2), trace=bad)])
    assert (outcome.stored, len(outcome.rejected)) == (1, 1)
    (found,) = contract_store.traces.get("t-000001")
    assert (found.trace.truncated, found.trace.lossy) == (False, True)
    # A row that was refused has not fixed its trace's event time.
    assert contract_store.lookup([stored(2).key]) == {}


@pytest.mark.parametrize("text", NASTY)
def test_texts_are_values_and_never_sql(contract_store: Store, text: str) -> None:
    trace_id = text or "empty"
    trace = Trace(
        trace_id=trace_id,
        app=text or "app",
        environment=text or "environment",
        version=text,
        event_time=START,
        query=text,
        category=text,
        user_id=text,
        tags={text: text},
    )
    one = StoredTrace(trace=trace, signals={"x": text}, ingested_at=START)
    contract_store.traces.insert([one, stored(1)])
    contract_store.scores.insert(
        [make_score(0, trace_id=trace_id, app=trace.app, environment=trace.environment, category=text, stratum=text)]
    )
    assert contract_store.traces.get(trace_id) == [one]
    assert contract_store.lookup([one.key])[one.key].settled == {"lexical@000000000000"}
    where = TraceFilter(
        app=trace.app, environment=trace.environment, category=text, trace_ids=(trace_id,), user_id=text
    )
    assert contract_store.traces.count(where) == 1
    assert contract_store.traces.count(replace(where, contains=text)) == 1
    query = replace(DAY, app=trace.app, environment=trace.environment, category=text, group_by=("category", "app"))
    (row,) = contract_store.scores.buckets(query)
    assert row.group == {"category": text, "app": trace.app}
    (found,) = contract_store.scores.since(None, until=LATER, limit=9)
    assert contract_store.scores.since(Cursor(found.judged_at, trace_id), until=LATER, limit=9) == []
    assert contract_store.traces.count(TraceFilter()) == 2


def test_lone_surrogates_are_replaced_and_do_not_lose_the_batch(contract_store: Store) -> None:
    contract_store.scores.insert([make_score(0, feedback="a\ud800b"), make_score(1)])
    first, _ = sorted(_folded(contract_store), key=lambda score: score.trace_id)
    assert first.feedback == "a\ufffdb"


def test_event_times_over_many_days_go_in_at_once(contract_store: Store) -> None:
    numbers = [day * 86_400 for day in range(-120, 0)]
    outcome = contract_store.traces.insert([replace(stored(number), offset=1) for number in numbers])
    assert outcome.stored == 120
    for table in ("traces", "trace_index"):
        contract_store.optimize(table)
    # Retention counts from when a row was stored: a backfill of last year's answers does not vanish.
    assert contract_store.traces.count(TraceFilter()) == 120
    (found,) = contract_store.traces.get(stored(-120 * 86_400).trace.trace_id)
    assert found.trace.query


def test_an_event_time_no_column_holds_is_rejected(contract_store: Store) -> None:
    far = make_trace(1).model_copy(update={"event_time": datetime(9999, 1, 1, tzinfo=UTC)})
    old = make_trace(2).model_copy(update={"event_time": datetime(1, 1, 1, tzinfo=UTC)})
    outcome = contract_store.traces.insert([replace(stored(1), trace=t) for t in (far, old)] + [stored(3)])
    assert [reject.reason for reject in outcome.rejected] == ["out_of_range", "out_of_range"]
    assert outcome.stored == 1


def test_a_second_store_sees_what_the_first_stored(contract_store: Store, contract_url: str) -> None:
    contract_store.traces.insert([stored(1)])
    with open_store(contract_url) as other:
        other.check_schema()
        assert other.migrate() == []
        assert other.traces.count(TraceFilter()) == 1
        assert abs(other.now() - contract_store.now()) < timedelta(minutes=1)
    assert contract_store.traces.count(TraceFilter()) == 1


def test_a_server_is_tested_where_one_is_named(server_databases: Databases) -> None:
    """Skipped, with the reason, where the suite above ran on the embedded store alone."""
    url = server_databases.take()
    with open_store(url) as store:
        assert store.version()
    server_databases.give_back(url)


def test_texts_expire_a_month_after_they_were_stored_and_the_rest_stays(contract_store: Store) -> None:
    history = [{"role": "user", "content": "hi"}]
    contract_store.traces.insert([stored(1, history=history, tags={"k": "v"}), stored(2)])
    contract_store.command(
        "ALTER TABLE traces UPDATE stored_at = now64(3) - INTERVAL 40 DAY WHERE trace_id = 't-000001' "
        "SETTINGS mutations_sync = 1"
    )
    contract_store.optimize("traces")
    (expired,) = contract_store.traces.get("t-000001")
    assert (expired.trace.query, expired.trace.response) == ("", None)
    assert [(node.node_id, node.text, node.score) for node in expired.trace.source_nodes] == [("n-1", None, 0.9)]
    assert [(turn.role, turn.content) for turn in expired.trace.history] == [("user", "")]
    assert expired.trace.tags == {"k": "v"}
    assert expired.texts_expired
    (fresh,) = contract_store.traces.get("t-000002")
    assert fresh == stored(2)
    assert not fresh.texts_expired
    contract_store.traces.insert([stored(3, query="", response=None, source_nodes=())])
    (empty,) = contract_store.traces.get("t-000003")
    assert not empty.texts_expired, "it never had any"
    contract_store.traces.insert([stored(1, history=history, tags={"k": "v"})])
    (again,) = contract_store.traces.get("t-000001")
    assert (again.trace.query, again.texts_expired) == (make_trace(1).query, False), (
        "delivered again, it has them again"
    )


def test_of_two_event_times_of_one_new_trace_the_first_stored_stands_for_both_writers(contract_store: Store) -> None:
    """The second had looked before the first wrote."""
    index = contract_store.traces._index
    really_find, looks = index.find, iter(range(100))

    def find(keys: Sequence[TraceKey]) -> dict[TraceKey, datetime]:
        found = really_find(keys)
        if next(looks) == 0:
            contract_store.traces.insert([stored(n) for n in range(50)])  # somebody else, at this very moment
        return found

    index.find = find  # type: ignore[method-assign]
    earlier = [replace(stored(n), trace=make_trace(n, event_time=START - timedelta(hours=1))) for n in range(50)]
    contract_store.traces.insert(earlier)
    index.find = really_find  # type: ignore[method-assign]
    rows = [row for batch in contract_store.traces.stream(TraceFilter()) for row in batch]
    assert len(rows) == 50, "one row a trace, and so one key for its scores"
    assert [row.trace.event_time for row in rows] == [make_trace(n).event_time for n in range(50)]
    known = contract_store.lookup([row.key for row in rows])
    assert {known[row.key].event_time == row.trace.event_time for row in rows} == {True}
