"""The same question several times: the majority decides, the agreement is kept, nothing settles by a minority."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from tests.support.kinds import kind_spec
from tests.support.panels import make_panel, make_task, make_tasks
from tracejudge.judging.calls.client import Completion
from tracejudge.judging.calls.failures import CallError
from tracejudge.scores import Decision, Outcome, Score
from tracejudge.testing import make_trace
from tracejudge.testing.judges import ScriptedJudge

YES, NO = '{"verdict": "YES"}', '{"verdict": "NO"}'


async def repeated(kind: str, replies: list[str | Completion | BaseException], repeats: int = 3) -> Score:
    spec = kind_spec(kind, repeats=repeats, max_attempts=1)
    judge = ScriptedJudge(replies)
    task = make_task(make_trace(0, reference="Ten."), spec.name)
    (score,) = (await make_panel(spec, judge).evaluate([task])).scores
    assert judge.calls == score.usage.calls == repeats * (spec.built_in.calls if spec.built_in else 1)
    return score


@pytest.mark.parametrize(
    ("replies", "outcome", "score", "flag"),
    [
        ([YES, YES, YES], Outcome.PASSED, 1.0, "agreement:3/3"),
        ([YES, NO, YES], Outcome.PASSED, 2 / 3, "agreement:2/3"),
        ([NO, NO, YES], Outcome.FAILED, 1 / 3, "agreement:2/3"),
        ([NO, "hm", NO], Outcome.FAILED, 0.0, "agreement:2/3"),
    ],
)
async def test_more_than_half_decide_and_the_share_is_the_score(
    replies: list[str], outcome: Outcome, score: float, flag: str
) -> None:
    row = await repeated("faithfulness", list(replies))
    assert row.outcome is outcome
    assert row.score == pytest.approx(score)
    assert row.flags == (flag,)
    assert all(reply in row.raw_reply for reply in replies)


@pytest.mark.parametrize(
    ("replies", "reason"),
    [([YES, NO, "hm"], "unparsable"), ([YES, "", CallError("HTTP 500", status=500)], "empty_reply")],
)
async def test_without_a_majority_of_all_there_is_no_verdict(replies: list[str | BaseException], reason: str) -> None:
    row = await repeated("relevancy", list(replies))
    assert (row.outcome, row.score, row.reason) == (Outcome.INVALID, None, reason)


async def test_the_score_of_numbers_is_their_mean() -> None:
    row = await repeated("correctness", ['{"score": 5}', '{"score": 4}', '{"score": 3}'])
    assert (row.outcome, row.score, row.flags) == (Outcome.PASSED, 0.75, ("agreement:2/3",))


async def test_a_cap_that_ends_within_the_repeats_leaves_the_trace_over_budget() -> None:
    spec = kind_spec("faithfulness", repeats=3, max_calls_per_h=4, concurrency=1)
    result = await make_panel(spec, ScriptedJudge(YES)).evaluate(make_tasks(range(2), "faithfulness"))
    assert len(result.calls) == 4
    assert [row.decision for row in result.ledger] == [Decision.OVER_BUDGET] * len(result.ledger)
    assert len(result.scores) + len(result.ledger) == 2
    assert result.ledger


def test_repeats_are_odd_for_judges_with_a_model_and_part_of_the_id() -> None:
    assert kind_spec("faithfulness", repeats=3).judge_id() != kind_spec("faithfulness").judge_id()
    for kind, repeats, said in (("faithfulness", 2, "odd"), ("regex", 3, "same every time")):
        with pytest.raises(ValidationError, match=said):
            kind_spec(kind, repeats=repeats)
