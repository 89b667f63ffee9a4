"""Counting right: each verdict once, in every reader, before and after merges, by weights, strata and runs."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from tests.support.store_rows import DAY, LATER, START, Answers, folded, stored
from tracejudge.scores import JudgeCall, JudgeId, Outcome
from tracejudge.store import (
    Adoption,
    Cursor,
    RateQuery,
    Store,
)
from tracejudge.testing import make_score


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
    assert contract_store.scores.outcomes("live") == {Outcome.PASSED: 1}
    assert contract_store.scores.outcomes("another") == {}
    assert [s.judged_at for s in folded(contract_store)] == [later[1]]


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
        found = [(s.trace_id, s.judge_name) for s in folded(contract_store, limit)]
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
        found = list(folded(contract_store, limit))
        assert [(score.trace_id, score.revision) for score in found] == [
            (score.trace_id, score.revision) for score in (scores[0], scores[5], *moved)
        ]


def test_other_runs_enter_neither_rates_nor_detectors(contract_store: Store) -> None:
    contract_store.scores.insert([make_score(0), make_score(1, run_id="shadow"), make_score(2, run_id="replay")])
    assert [s.trace_id for s in folded(contract_store)] == ["t-000000"]
    (row,) = contract_store.scores.buckets(DAY)
    assert row.bucket.n == 1
    (row,) = contract_store.scores.buckets(replace(DAY, run_id="replay"))
    assert row.bucket.n == 1


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
