"""What judging will take, said before anything is called, is what it takes at most: parts counted."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.kinds import kind_spec
from tests.support.panels import make_panel, make_task
from tracejudge.judging import JudgeSpec, estimate
from tracejudge.judging.calls.cost import TYPICAL_REPLY_TOKENS
from tracejudge.scores import InvalidReason, Outcome, Score
from tracejudge.testing import make_trace
from tracejudge.testing.judges import ScriptedJudge
from tracejudge_sdk.trace import Trace

NO = '{"unsupported": ["The limit is twelve."], "verdict": "NO"}'
YES = '{"verdict": "YES"}'
LONG = " ".join(f"word{i}." for i in range(500))


def spec_of(kind: str, **fields: Any) -> JudgeSpec:
    return kind_spec(kind, context_window_tokens=2_048, max_tokens=256, max_calls_per_trace=50, **fields)


def trace_of(**fields: Any) -> Trace:
    return make_trace(0, **{"reference": "Ten.", **fields})


async def judged(spec: JudgeSpec, trace: Trace, judge: ScriptedJudge) -> Score:
    (score,) = (await make_panel(spec, judge).evaluate([make_task(trace, spec.name)])).scores
    return score


async def test_the_calls_of_all_parts_of_the_passages_are_counted() -> None:
    spec = spec_of("faithfulness")
    trace = trace_of(source_nodes=[{"text": LONG}, {"text": LONG}])
    judge = ScriptedJudge(NO)
    await judged(spec, trace, judge)
    (cost,) = estimate([spec], traces=[trace])
    assert judge.calls > 1
    assert cost.calls == judge.calls
    assert cost.output_tokens == judge.calls * TYPICAL_REPLY_TOKENS


@pytest.mark.parametrize(
    ("kind", "reply"),
    [("faithfulness", NO), ("guideline", YES), ("relevancy", NO), ("context_relevancy", NO), ("answer_relevancy", NO)],
)
async def test_no_trace_takes_more_calls_or_tokens_than_were_foreseen(kind: str, reply: str) -> None:
    spec = spec_of(kind)
    for fields in ({}, {"response": LONG}, {"source_nodes": [{"text": LONG}]}, {"response": LONG, "query": LONG[:900]}):
        trace, judge = trace_of(**fields), ScriptedJudge(reply)
        await judged(spec, trace, judge)
        (cost,) = estimate([spec], traces=[trace])
        sent = sum(len(message.content) for request in judge.requests for message in request)
        assert 0 < judge.calls <= cost.calls
        assert sent / 3.6 <= cost.input_tokens


@pytest.mark.parametrize("kind", ["correctness", "pairwise"])
async def test_what_is_not_divided_and_too_long_costs_nothing_and_is_invalid(kind: str) -> None:
    spec = spec_of(kind)
    fits, too_long = trace_of(), trace_of(response=4 * LONG)
    (one,), (none,) = estimate([spec], traces=[fits]), estimate([spec], traces=[too_long])
    assert (one.calls, none.calls, none.input_tokens) == (spec.usual_calls, 0, 0)
    judge = ScriptedJudge(YES)
    score = await judged(spec, too_long, judge)
    assert (judge.calls, score.outcome, score.reason) == (0, Outcome.INVALID, InvalidReason.BAD_REQUEST.value)


def test_repeats_and_traces_multiply_parts_too() -> None:
    trace = trace_of(source_nodes=[{"text": LONG}, {"text": LONG}])
    (once,) = estimate([spec_of("faithfulness")], traces=[trace])
    (thrice,) = estimate([spec_of("faithfulness", repeats=3)], traces=[trace])
    (some,) = estimate([spec_of("faithfulness")], traces=[trace] * 2)
    assert (thrice.calls, thrice.input_tokens) == (3 * once.calls, 3 * once.input_tokens)
    assert (some.calls, some.input_tokens) == (2 * once.calls, 2 * once.input_tokens)
