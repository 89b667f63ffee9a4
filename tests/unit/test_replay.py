"""Plans, selections and the place of a run, without a store."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from tests.support.panels import llm_spec
from tracejudge.errors import JudgeGone
from tracejudge.judging import Estimate, PanelResult
from tracejudge.replay import Selection, SourceFile, makespan_s, plan_judge
from tracejudge.replay.progress import Answered, Behind, OpenPage, Progress
from tracejudge.replay.report import report_of
from tracejudge.replay.selection import other_times
from tracejudge.scores import Decision, JudgeCall, JudgeId, LedgerRow, Outcome
from tracejudge.store import Draw, TraceFilter
from tracejudge.testing import make_score
from tracejudge.testing.builders import START


def cost(calls: int) -> Estimate:
    return Estimate(
        judge_name="faithful", traces=calls, calls=calls, input_tokens=900 * calls, output_tokens=80, usd=1.0
    )


def test_a_steady_judge_takes_its_calls_in_rounds() -> None:
    assert makespan_s(100, [200.0], 8) == 13 * 0.2
    assert makespan_s(0, [200.0], 8) == 0.0
    assert makespan_s(3, [200.0], 8) == 0.2


def test_list_scheduling_lies_between_the_ideal_and_its_known_bound() -> None:
    chance = random.Random(3)
    for _ in range(50):
        latencies = [chance.lognormvariate(5.0, 1.0) for _ in range(chance.randint(1, 60))]
        workers = chance.randint(1, 9)
        calls = len(latencies)
        ideal = max(sum(latencies) / workers, max(latencies)) / 1000.0
        assert ideal - 1e-9 <= makespan_s(calls, latencies, workers) <= 2 * ideal + 1e-9  # Graham 1966


def test_a_long_run_is_planned_at_the_mean_beyond_what_is_simulated() -> None:
    assert abs(makespan_s(1_000_000, [100.0, 300.0], 10) - 20_000.0) < 1.0


def test_a_rate_limit_is_the_least_a_plan_can_take() -> None:
    plan = plan_judge(llm_spec(concurrency=8, max_requests_per_min=60.0), cost(600), [100.0])
    assert {one.seconds for one in plan.expected} == {600.0}
    assert plan.expected[0].workers == 8
    slow = plan_judge(llm_spec(concurrency=8), cost(600), [])
    assert (slow.measured_calls, slow.median_ms, slow.expected[0].seconds) == (0, 2000.0, 150.0)


def test_a_selection_survives_its_manifest_and_is_named_by_what_it_asks() -> None:
    where = TraceFilter(
        start=START,
        app="shop",
        also=(("tags.tier", "gold"),),
        draw=Draw(seed=7, at_most=2**64 - 5),
        trace_ids=("a", "b"),
    )
    one = Selection(where=where, files=(SourceFile(path="a.jsonl", sha256="0" * 64),), sample=10, seed=7)
    again = Selection.from_dict(one.as_dict())
    assert again == one
    assert again.digest == one.digest
    moved = Selection(where=where, files=(SourceFile(path="b.jsonl", sha256="0" * 64),), sample=10, seed=7)
    assert moved.digest == one.digest  # the same content elsewhere
    assert moved.asks_as(Selection(where=where, files=one.files, sample=10, seed=7))
    later = Selection(where=TraceFilter(start=START + timedelta(days=1), app="shop"))
    assert later.digest != Selection(where=TraceFilter(start=START, app="shop")).digest
    assert later.asks_as(Selection(where=TraceFilter(start=START, app="shop")))
    assert not later.asks_as(Selection(where=TraceFilter(start=START, app="desk")))


def test_a_run_that_goes_on_is_asked_for_its_own_times() -> None:
    begun, now = START, START + timedelta(days=2)
    since, until = begun - timedelta(days=30), begun
    known = TraceFilter(start=since, end=until)

    def told(start: datetime | None = None, end: datetime | None = None) -> str:
        return other_times(known, TraceFilter(start=start, end=end), begun_at=begun, now=now)

    assert told() == ""
    assert told(start=since) == ""
    assert told(start=now - timedelta(days=30, seconds=-3)) == ""  # "30d", typed again
    assert "starts at" in told(start=now - timedelta(days=7))
    assert "ends at" in told(end=now - timedelta(days=1))
    assert other_times(TraceFilter(end=until), TraceFilter(start=since), begun_at=begun, now=now).startswith(
        "goes back"
    )


def judged() -> PanelResult:
    return PanelResult(scores=(make_score(),), ledger=(), calls=(), gone=())


def cut_off() -> PanelResult:
    row = LedgerRow(
        environment="production", app="shop", version="", category="", trace_id="t", event_time=START,
        judge_name="j", judge_id=JudgeId("j@0"), decision=Decision.OVER_BUDGET, decided_at=START,
    )  # fmt: skip
    return PanelResult(scores=(), ledger=(row,), calls=(), gone=())


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=12), st.randoms(use_true_random=False))
def test_the_place_never_moves_over_a_page_that_is_not_done(
    pages: list[tuple[int, bool]], chance: random.Random
) -> None:
    """Whatever the order of answers: the place is the end of the longest prefix of pages that are done."""
    progress = Progress(Behind())
    opened = [OpenPage(place={"n": n}, counts=Behind(traces=1)) for n in range(len(pages))]
    for page in opened:
        progress.begin(page)
    events = [(n, False) for n, (questions, _) in enumerate(pages) for _ in range(questions)]
    events += [(n, True) for n in range(len(pages))]
    for page, (questions, _) in zip(opened, pages, strict=True):
        page.left += questions
    chance.shuffle(events)
    settled = [0] * len(pages)
    for n, asked_all in events:
        if not asked_all:
            answered = Answered()
            answered.add(cut_off() if pages[n][1] else judged())
            opened[n].take(answered)
        progress.settle(opened[n])
        settled[n] += 1
        whole = 0
        while (
            whole < len(pages) and settled[whole] == pages[whole][0] + 1 and not (pages[whole][1] and pages[whole][0])
        ):
            whole += 1
        assert progress.behind.traces == whole
        assert progress.behind.place == (None if whole == 0 else {"n": whole - 1})


def test_a_report_counts_each_outcome_reason_decision_and_call() -> None:
    calls = [
        JudgeCall(
            call_id=str(number), environment="production", app="shop", trace_id="t", judge_name="j",
            judge_id=JudgeId("j@0"), status=status, cost_usd=0.5, started_at=START,
        )
        for number, status in enumerate(["ok", "timeout", "ok"])
    ]  # fmt: skip
    passed, failed, invalid = (make_score(n) for n in range(3))
    failed = replace(failed, outcome=Outcome.FAILED, score=0.0)
    invalid = replace(invalid, outcome=Outcome.INVALID, score=None, reason="refused")
    gone = JudgeGone("j", "bad_key", "the key is refused")
    report = report_of(
        "again", scores=[passed, failed, invalid, passed], ledger=cut_off().ledger, calls=calls, gone=[gone, gone]
    )
    assert (report.passed, report.failed, report.invalid, report.invalid_reasons) == (2, 1, 1, {"refused": 1})
    assert report.decisions == {Decision.OVER_BUDGET: 1}
    assert (report.calls, report.failed_calls, report.cost_usd) == (3, 1, 1.5)
    assert report.gone == (str(gone),)
    unpriced = report_of("again", scores=[], ledger=[], calls=[replace(calls[0], cost_usd=None)], gone=[])
    assert unpriced.cost_usd is None
