"""Evaluators that are not ours run behind the same guard, and their results are read strictly."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

import numpy as np
import pytest
from llama_index.core.evaluation.base import BaseEvaluator, EvaluationResult
from llama_index.core.llms.mock import MockLLM

from tests.support.panels import Sleeps, make_panel, make_task, make_tasks
from tracejudge.errors import SettingsError, StoreUnavailable
from tracejudge.judging import JudgeSpec, NothingSpent, RunCaps
from tracejudge.judging.calls.client import Completion
from tracejudge.judging.calls.failures import CallError
from tracejudge.judging.evaluators.base import FixedPrompts
from tracejudge.judging.registry import make_completer
from tracejudge.scores import Decision, Outcome, Spend
from tracejudge.testing import ManualClock, make_trace
from tracejudge.testing.judges import HANG, ScriptedJudge

HERE = __name__
STOCK = "llama_index.core.evaluation"


def unchecked(**fields: Any) -> EvaluationResult:
    return EvaluationResult.model_construct(**fields)


class Scripted(FixedPrompts, BaseEvaluator):
    """Returns, or raises, what its option says."""

    def __init__(self, result: str = "fine") -> None:
        self._result = result
        self.evaluated = 0

    async def aevaluate(
        self,
        query: str | None = None,
        response: str | None = None,
        contexts: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> EvaluationResult:
        self.evaluated += 1
        results = {
            "fine": EvaluationResult(passing=True, score=0.9, feedback="well put"),
            "only a score": EvaluationResult(score=0.4),
            "only a verdict": EvaluationResult(passing=False),
            "of five": EvaluationResult(score=4.0),
            "nothing": EvaluationResult(),
            "invalid": EvaluationResult(invalid_result=True, invalid_reason="could not parse", feedback="raw"),
            "nan": EvaluationResult(passing=True, score=float("nan")),
            "inf": EvaluationResult(passing=True, score=float("inf")),
            "too high": EvaluationResult(passing=True, score=1.5),
            "verdict in words": unchecked(passing="no", score=None, feedback=""),
            "score in words": unchecked(passing=None, score="0.2", feedback=""),
            "odd feedback": unchecked(passing=False, score=0.2, feedback={"a": "\ud800"}),
            "numpy": unchecked(passing=np.bool_(False), score=np.float32(0.5), feedback=None),
        }
        if self._result == "cancels":
            raise asyncio.CancelledError
        if self._result == "exits":
            sys.exit(3)
        if self._result == "raises":
            raise RuntimeError("no idea")
        if self._result == "hangs":
            await asyncio.Event().wait()
        if self._result == "busy" and self.evaluated < 3:
            raise CallError("HTTP 429", status=429)
        if self._result == "no result":
            return "YES"  # type: ignore[return-value]
        return results.get(self._result, results["fine"])


class Asking(FixedPrompts, BaseEvaluator):
    """Asks the model it was given, twice."""

    def __init__(self, llm: Any) -> None:
        self._llm = llm

    async def aevaluate(
        self,
        query: str | None = None,
        response: str | None = None,
        contexts: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> EvaluationResult:
        first = await self._llm.acomplete(f"first {response}")
        second = await self._llm.acomplete(f"second {response}")
        return EvaluationResult(passing=first.text == second.text, feedback=second.text)


class Spoiling(FixedPrompts, BaseEvaluator):
    """Passes what has passages and its own answer, and spoils what it was given."""

    async def aevaluate(self, *args: Any, **kwargs: Any) -> EvaluationResult:
        raise NotImplementedError

    async def aevaluate_response(
        self, query: str | None = None, response: Any = None, **kwargs: Any
    ) -> EvaluationResult:
        passing = bool(response.source_nodes) and response.response != "spoilt"
        response.source_nodes.clear()
        response.metadata.clear()
        response.response = "spoilt"
        return EvaluationResult(passing=passing)


class Narrow(FixedPrompts, BaseEvaluator):
    """Takes what it reads and nothing else."""

    async def aevaluate(  # type: ignore[override]
        self, query: str | None = None, response: str | None = None, contexts: Sequence[str] | None = None
    ) -> EvaluationResult:
        return EvaluationResult(passing=bool(response))


class Leaving(Scripted):
    """Ends the process when it is made."""

    def __init__(self) -> None:
        sys.exit("no licence")


class OnlySync(BaseEvaluator):
    """An evaluator as a beginner writes it."""

    def evaluate(self, *args: Any, **kwargs: Any) -> EvaluationResult:
        return EvaluationResult(passing=True)


def spec(result: str = "fine", **fields: Any) -> JudgeSpec:
    return JudgeSpec.model_validate(
        {"name": "own", "kind": f"{HERE}:Scripted", "options": {"result": result}, **fields}
    )


def stock(name: str, **fields: Any) -> JudgeSpec:
    values = {"name": "stock", "kind": f"{STOCK}:{name}", "base_url": "http://127.0.0.1:9/v1", "model": "m"}
    return JudgeSpec.model_validate({**values, "max_calls_per_h": 1000, **fields})


@pytest.mark.parametrize(
    ("result", "outcome", "score"),
    [
        ("fine", Outcome.PASSED, 0.9),
        ("only a score", Outcome.FAILED, 0.4),
        ("only a verdict", Outcome.FAILED, 0.0),
        ("odd feedback", Outcome.FAILED, 0.2),
        ("numpy", Outcome.FAILED, 0.5),
    ],
)
async def test_an_own_class_is_a_judge(result: str, outcome: Outcome, score: float) -> None:
    (row,) = (await make_panel(spec(result)).evaluate([make_task(0, "own")])).scores
    assert (row.outcome, row.score) == (outcome, score)
    assert row.flags == ()


async def test_a_threshold_of_the_spec_wins_over_the_class_s_own_verdict() -> None:
    (row,) = (await make_panel(spec("fine", threshold=0.95)).evaluate([make_task(0, "own")])).scores
    assert row.outcome is Outcome.FAILED


async def test_scores_on_another_scale_are_mapped() -> None:
    (row,) = (await make_panel(spec("of five", scale=(1, 5))).evaluate([make_task(0, "own")])).scores
    assert row.score == 0.75


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        ("nothing", "unparsable"),
        ("invalid", "judge_error"),
        ("nan", "out_of_range"),
        ("inf", "out_of_range"),
        ("too high", "out_of_range"),
        ("raises", "judge_error"),
        ("no result", "judge_error"),
        ("verdict in words", "unparsable"),
        ("score in words", "unparsable"),
        ("exits", "judge_error"),
        ("cancels", "judge_error"),
        ("hangs", "judge_timeout"),
    ],
)
async def test_b08_what_is_no_verdict_is_invalid_and_never_zero(result: str, reason: str) -> None:
    panel = make_panel(spec(result, timeout_s=0.05, max_attempts=2))
    (row,) = (await panel.evaluate([make_task(0, "own")])).scores
    assert (row.outcome, row.score, row.reason) == (Outcome.INVALID, None, reason)


async def test_what_is_no_verdict_says_which_field_is_what() -> None:
    (row,) = (await make_panel(spec("verdict in words")).evaluate([make_task(0, "own")])).scores
    assert row.feedback == "passing is 'no' (str): it must be True, False or None"


async def test_a_class_that_takes_no_further_keywords_judges_traces_with_a_reference_too() -> None:
    narrow = JudgeSpec.model_validate({"name": "own", "kind": f"{HERE}:Narrow", "calls_model": False})
    tasks = [make_task(make_trace(0, reference=None), "own"), make_task(make_trace(1, reference="ten"), "own")]
    result = await make_panel(narrow).evaluate(tasks)
    assert [row.outcome for row in result.scores] == [Outcome.PASSED] * 2


async def test_a_judge_that_cancels_itself_is_no_endpoint_that_is_away() -> None:
    cancelling = spec("cancels", calls_model=False, repeats=5)
    result = await make_panel(cancelling, patience_s=300.0).evaluate(make_tasks(range(7), "own"))
    assert [(row.outcome, row.reason) for row in result.scores] == [(Outcome.INVALID, "judge_error")] * 7
    assert (result.ledger, result.gone) == ((), ())


async def test_the_repeats_of_one_trace_that_times_out_are_no_five_traces() -> None:
    hanging = spec("hangs", calls_model=False, repeats=7, timeout_s=0.02, max_attempts=1)
    result = await make_panel(hanging).evaluate([make_task(0, "own")])
    assert [(row.outcome, row.reason) for row in result.scores] == [(Outcome.INVALID, "judge_timeout")]
    assert (result.ledger, result.gone) == ((), ())


async def test_a_judge_that_ends_the_process_ends_nothing_and_the_others_judge_on() -> None:
    judges = [spec("exits", name="leaver", calls_model=False), spec("fine", calls_model=False)]
    result = await make_panel(judges).evaluate(make_tasks(range(2), "leaver", "own"))
    assert {(row.judge_name, row.outcome) for row in result.scores} == {
        ("leaver", Outcome.INVALID),
        ("own", Outcome.PASSED),
    }
    assert "called sys.exit(3)" in next(row.feedback for row in result.scores if row.judge_name == "leaver")


def test_a_class_that_ends_the_process_when_it_is_made_is_a_fault_of_the_settings() -> None:
    with pytest.raises(SettingsError, match="Leaving does not take these options: no licence"):
        make_panel(JudgeSpec.model_validate({"name": "own", "kind": f"{HERE}:Leaving", "calls_model": False}))


def test_a_class_without_what_llamaindex_asks_for_is_named_with_what_it_lacks() -> None:
    with pytest.raises(SettingsError, match="OnlySync lacks _get_prompts, _update_prompts, aevaluate, which LlamaInd"):
        make_panel(JudgeSpec.model_validate({"name": "own", "kind": f"{HERE}:OnlySync", "calls_model": False}))


async def test_transient_errors_of_an_own_class_are_tried_again() -> None:
    (row,) = (await make_panel(spec("busy")).evaluate([make_task(0, "own")])).scores
    assert row.outcome is Outcome.PASSED


async def test_an_own_class_that_changes_what_it_is_given_changes_no_other_verdict() -> None:
    judges = [
        JudgeSpec.model_validate({"name": name, "kind": f"{HERE}:Spoiling", "calls_model": False, "repeats": 3})
        for name in ("first", "second")
    ]
    result = await make_panel(judges).evaluate(make_tasks(range(2), "first", "second"))
    assert [(score.outcome, score.score) for score in result.scores] == [(Outcome.PASSED, 1.0)] * 4


async def test_what_an_own_class_needs_is_said_in_its_spec() -> None:
    trace = make_trace(0, source_nodes=[], query="")
    assert len((await make_panel(spec()).evaluate([make_task(trace, "own")])).scores) == 1
    needy = await make_panel(spec(needs=("context",))).evaluate([make_task(trace, "own")])
    assert [(row.decision, row.reason) for row in needy.ledger] == [(Decision.NOT_APPLICABLE, "no_context")]


async def test_each_evaluation_of_a_capped_own_class_counts_as_a_call() -> None:
    result = await make_panel(spec(max_calls_per_h=3)).evaluate(make_tasks(range(5), "own"))
    assert len(result.scores) == len(result.calls) == 3
    assert {row.decision for row in result.ledger} == {Decision.OVER_BUDGET}


async def test_what_an_own_class_calls_by_itself_is_counted_and_of_unknown_cost() -> None:
    priced = spec(usd_per_million_input_tokens=1.0, usd_per_million_output_tokens=1.0)
    result = await make_panel(priced).evaluate([make_task(0, "own")])
    assert [call.cost_usd for call in result.calls] == [None]
    assert result.scores[0].usage.cost_usd is None
    free = await make_panel(spec(calls_model=False)).evaluate([make_task(0, "own")])
    assert free.calls == ()
    assert free.scores[0].usage.cost_usd == 0.0


async def test_a_store_that_is_away_is_no_timeout_of_an_own_class() -> None:
    clock = ManualClock(datetime(2026, 1, 1, 12, 59, tzinfo=timezone.utc))

    class Away(NothingSpent):
        asked = 0

        def spent(self, judge_name: str, since: datetime) -> Spend:
            self.asked += 1
            if 1 < self.asked < 4:
                raise StoreUnavailable("down")
            return super().spent(judge_name, since)

    class StuckOnce(Sleeps):
        async def __call__(self, seconds: float) -> None:
            await super().__call__(seconds)
            if len(self.waits_s) == 1:
                await asyncio.Event().wait()

    def script(prompt: str) -> str:
        if judge.calls == 1:
            clock.advance(120)
        return "the same"

    judge, sleeps = ScriptedJudge(script), StuckOnce()
    values = {"base_url": "http://127.0.0.1:9/v1", "model": "m", "max_calls_per_h": 9, "timeout_s": 0.05}
    asking = JudgeSpec.model_validate({"name": "own", "kind": f"{HERE}:Asking", "max_attempts": 1, **values})
    panel = make_panel(asking, judge, clock=clock, spend=Away(), sleep=sleeps)
    (row,) = (await panel.evaluate([make_task(0, "own")])).scores
    assert row.outcome is Outcome.PASSED
    assert len(sleeps.waits_s) == 2


async def test_every_call_of_an_own_class_to_the_judge_s_model_is_recorded_and_capped() -> None:
    asking = JudgeSpec.model_validate(
        {
            "name": "own",
            "kind": f"{HERE}:Asking",
            "base_url": "http://127.0.0.1:9/v1",
            "model": "m",
            "max_calls_per_h": 5,
            "concurrency": 1,
        }
    )
    judge = ScriptedJudge("the same")
    result = await make_panel(asking, judge).evaluate(make_tasks(range(4), "own"))
    assert judge.calls == len(result.calls) == 5
    assert [score.usage.calls for score in result.scores] == [2, 2]
    assert [row.decision for row in result.ledger] == [Decision.OVER_BUDGET] * 2


@pytest.mark.parametrize("kind", [f"{HERE}:Asking", f"{STOCK}:RelevancyEvaluator"])
async def test_the_model_that_answered_a_class_that_is_not_ours_is_on_the_score(kind: str) -> None:
    asking = JudgeSpec.model_validate({"name": "own", "kind": kind, "base_url": "http://127.0.0.1:9/v1", "model": "m"})
    (row,) = (await make_panel(asking, ScriptedJudge("YES")).evaluate([make_task(0, "own")])).scores
    assert (row.outcome, row.model_reported) == (Outcome.PASSED, "scripted")


def test_a_class_and_a_model_that_do_not_fit_are_told_apart() -> None:
    values = {"name": "own", "kind": f"{HERE}:Asking", "calls_model": False}
    with pytest.raises(SettingsError, match="argument: 'llm'; give base_url and model, or llm"):
        make_panel(JudgeSpec.model_validate(values))
    model = {"kind": f"{HERE}:Scripted", "base_url": "http://127.0.0.1:9/v1", "model": "m", "calls_model": True}
    with pytest.raises(SettingsError, match="llm is among them, since the judge names a model: remove that"):
        make_panel(JudgeSpec.model_validate({**values, **model}))


async def test_the_call_a_timed_out_evaluation_was_waiting_for_has_its_row_too() -> None:
    asking = JudgeSpec.model_validate(
        {
            "name": "own",
            "kind": f"{HERE}:Asking",
            "base_url": "http://127.0.0.1:9/v1",
            "model": "m",
            "timeout_s": 0.05,
            "max_attempts": 1,
        }
    )
    result = await make_panel(asking, ScriptedJudge(["fine", HANG])).evaluate([make_task(0, "own")])
    assert [score.reason for score in result.scores] == ["judge_timeout"]
    assert len(result.calls) == 2
    assert result.calls[0].status == "ok"
    assert result.calls[1].status in {"cancelled", "timeout"}


@pytest.mark.parametrize("kind", [f"{HERE}:Asking", f"{STOCK}:FaithfulnessEvaluator"])
async def test_the_rest_of_a_filtered_reply_is_no_verdict_of_a_class_that_is_not_ours(kind: str) -> None:
    asking = JudgeSpec.model_validate({"name": "own", "kind": kind, "base_url": "http://127.0.0.1:9/v1", "model": "m"})
    filtered = Completion(text="YES", finish_reason="content_filter", refusal=True, input_tokens=9, output_tokens=1)
    result = await make_panel(asking, ScriptedJudge(filtered)).evaluate([make_task(0, "own")])
    assert [(score.outcome, score.reason) for score in result.scores] == [(Outcome.INVALID, "bad_request")]
    assert [call.status for call in result.calls] == ["ok"]


async def test_an_own_class_finds_a_gone_model_too() -> None:
    asking = JudgeSpec.model_validate(
        {"name": "own", "kind": f"{HERE}:Asking", "base_url": "http://127.0.0.1:9/v1", "model": "m"}
    )
    judge = ScriptedJudge(CallError("HTTP 401", status=401))
    result = await make_panel(asking, judge).evaluate(make_tasks(range(30), "own"))
    assert judge.calls <= 5
    assert (len(result.scores), len(result.ledger), len(result.gone)) == (0, 30, 1)


@pytest.mark.parametrize("name", ["FaithfulnessEvaluator", "RelevancyEvaluator"])
async def test_b01_a_stock_pass_on_a_no_does_not_get_through(name: str) -> None:
    for reply, outcome in (
        ("NO. The sheet only covers yesterday's prices.", Outcome.FAILED),
        ("NO - eyes are not mentioned", Outcome.FAILED),
        ("NO, the yesteryear data is off", Outcome.FAILED),
        ("YES", Outcome.PASSED),
        ("I'm sorry, I cannot say yes.", Outcome.INVALID),
    ):
        (row,) = (await make_panel(stock(name), ScriptedJudge(reply)).evaluate([make_task(0, "stock")])).scores
        assert row.outcome is outcome, reply


@pytest.mark.parametrize("name", ["FaithfulnessEvaluator", "RelevancyEvaluator"])
async def test_b14_a_template_given_as_text_reaches_a_stock_evaluator(name: str) -> None:
    judge = ScriptedJudge("YES")
    template = "STRICT-V2 {query_str} || {context_str}"
    await make_panel(stock(name, options={"eval_template": template}), judge).evaluate([make_task(0, "stock")])
    assert judge.prompts[0].startswith("STRICT-V2 ")


@pytest.mark.parametrize(
    ("reply", "outcome", "score"),
    [
        ("4.5\nclose to the reference", Outcome.PASSED, 0.875),
        ("2.0\nwrong", Outcome.FAILED, 0.25),
        ("\n4.5\nfine", Outcome.PASSED, 0.875),
        ("4.5", Outcome.PASSED, 0.875),
        ("4.0 looks right", Outcome.PASSED, 0.75),
        ("3.9\nnearly", Outcome.FAILED, 0.725),
        ("Score: 4\nok", Outcome.PASSED, 0.75),
        ("4/5\nok", Outcome.PASSED, 0.75),
        ("**4.0**\nok", Outcome.PASSED, 0.75),
        ("```\n4.0\nfine\n```", Outcome.PASSED, 0.75),
        ("4,5\ngut", Outcome.PASSED, 0.875),
        ("9\ngreat", Outcome.INVALID, None),
        ("nan", Outcome.INVALID, None),
        ("about 4", Outcome.INVALID, None),
        ("   ", Outcome.INVALID, None),
    ],
)
async def test_b03_a_stock_score_is_read_by_our_rules_and_raises_nothing(
    reply: str, outcome: Outcome, score: float | None
) -> None:
    trace = make_trace(0, reference="The limit is ten.")
    panel = make_panel(stock("CorrectnessEvaluator"), ScriptedJudge(reply))
    (row,) = (await panel.evaluate([make_task(trace, "stock")])).scores
    assert row.outcome is outcome
    assert row.score == pytest.approx(score)
    assert row.raw_reply == reply or not reply.strip()


@pytest.mark.parametrize(
    ("reply", "outcome"),
    [
        ('```json\n{"passing": true, "feedback": "ok"}\n```', Outcome.PASSED),
        ('{"passing": "false", "feedback": "it guesses"}', Outcome.FAILED),
        ("{'passing': True, 'feedback': 'ok'}", Outcome.INVALID),
        ("passing: true", Outcome.INVALID),
        ('{"passing": tr', Outcome.INVALID),
    ],
)
async def test_b03_a_stock_guideline_verdict_is_read_by_our_rules(reply: str, outcome: Outcome) -> None:
    (row,) = (
        await make_panel(stock("GuidelineEvaluator"), ScriptedJudge(reply)).evaluate([make_task(0, "stock")])
    ).scores
    assert row.outcome is outcome
    assert row.raw_reply == reply


@pytest.mark.parametrize(
    ("name", "reply", "outcome", "score"),
    [
        ("AnswerRelevancyEvaluator", "It is about plans.\n[RESULT] 2", Outcome.PASSED, 1.0),
        ("AnswerRelevancyEvaluator", "[RESULT] 0", Outcome.FAILED, 0.0),
        ("AnswerRelevancyEvaluator", "Good.\n[RESULT] 10", Outcome.INVALID, None),
        ("ContextRelevancyEvaluator", "Good.\n[RESULT] 3", Outcome.PASSED, 0.75),
        ("ContextRelevancyEvaluator", "Good.\n[RESULT] ...", Outcome.INVALID, None),
        ("ContextRelevancyEvaluator", "Good.\n[RESULT] 3.5.1", Outcome.INVALID, None),
        ("ContextRelevancyEvaluator", "[RESULT] 1\n[RESULT] 4", Outcome.INVALID, None),
    ],
)
async def test_stock_points_are_read_whole_or_not_at_all(
    name: str, reply: str, outcome: Outcome, score: float | None
) -> None:
    (row,) = (await make_panel(stock(name), ScriptedJudge(reply)).evaluate([make_task(0, "stock")])).scores
    assert (row.outcome, row.score) == (outcome, score)


async def test_a_stock_evaluator_may_be_named_without_its_path() -> None:
    short = stock("RelevancyEvaluator", kind="RelevancyEvaluator")
    assert short == stock("RelevancyEvaluator")
    (row,) = (await make_panel(short, ScriptedJudge("YES")).evaluate([make_task(0, "stock")])).scores
    assert row.outcome is Outcome.PASSED


async def test_stock_correctness_without_a_reference_is_not_applicable() -> None:
    judge = ScriptedJudge("4.5\nfine")
    result = await make_panel(stock("CorrectnessEvaluator"), judge).evaluate([make_task(0, "stock")])
    assert [(row.decision, row.reason) for row in result.ledger] == [(Decision.NOT_APPLICABLE, "no_reference")]
    assert judge.calls == 0


def test_a_run_s_limit_of_money_is_refused_where_spending_cannot_be_seen() -> None:
    with pytest.raises(SettingsError, match="limit the calls"):
        make_panel(spec(), caps=RunCaps(max_usd=1.0))
    make_panel(spec(calls_model=False), caps=RunCaps(max_usd=1.0))


class Picky(MockLLM):
    """Takes no text for a key."""

    api_key: int = 0


def test_what_a_class_says_of_its_options_is_shown_without_their_values() -> None:
    fields = {"name": "f", "kind": "faithfulness", "llm": f"{HERE}:Picky", "api_key_env": "KEY"}
    with pytest.raises(SettingsError, match="api_key") as caught:
        make_completer(JudgeSpec.model_validate(fields), environ={"KEY": "hunter2"})
    assert "hunter2" not in str(caught.value)


def test_options_a_class_does_not_take_are_a_fault_of_the_settings() -> None:
    with pytest.raises(SettingsError, match="does not take these options"):
        make_panel(spec(options={"strictness": 3}))
