"""The panel: through BatchEvalRunner, every (task, judge) in exactly one row, whatever happens to its neighbours."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import Any

import pytest
from llama_index.core.evaluation import BatchEvalRunner

from tests.support.panels import NO, YES, lexical_spec, llm_spec, make_panel, make_task, make_tasks
from tracejudge.errors import SettingsError
from tracejudge.judging import JudgeTask, NothingSpent, Panel, PanelResult, evaluator_for
from tracejudge.judging.responses import TraceResponse
from tracejudge.judging.runner import EvalRunner
from tracejudge.scores import Decision, LedgerRow, Outcome, Score
from tracejudge.testing import ManualClock, make_trace
from tracejudge.testing.judges import HANG, ScriptedJudge

NO_CONTEXT: list[list[dict[str, Any]]] = [
    [],
    [{"node_id": "n", "text": ""}],
    [{"node_id": "n", "text": "   "}],
    [{"node_id": "image", "text": None, "metadata": {"type": "image"}}],
]


@pytest.mark.parametrize("source_nodes", NO_CONTEXT)
@pytest.mark.parametrize("response", ["I don't know.", "Empty Response", "The limit is ten users."])
async def test_b20_without_a_passage_with_text_no_context_judge_says_anything(
    source_nodes: list[dict[str, Any]], response: str
) -> None:
    judge = ScriptedJudge(YES)
    panel = make_panel([llm_spec(), lexical_spec()], judge)
    trace = make_trace(0, source_nodes=source_nodes, response=response)
    result = await panel.evaluate([make_task(trace, "faithful", "lexical")])
    assert result.scores == ()
    # Passages whose texts were not logged are another thing than none: somebody may know them.
    reason = "no_passage_text" if source_nodes and source_nodes[0]["text"] is None else "no_context"
    assert [(row.judge_name, row.decision, row.reason) for row in result.ledger] == [
        ("faithful", Decision.NOT_APPLICABLE, reason),
        ("lexical", Decision.NOT_APPLICABLE, reason),
    ]
    assert judge.calls == 0


@pytest.mark.parametrize(
    ("fields", "decision", "reason"),
    [
        ({"response": None}, Decision.NOT_APPLICABLE, "no_response"),
        ({"response": " \n"}, Decision.NOT_APPLICABLE, "no_response"),
        ({"status": "error", "error": "boom"}, Decision.NOT_APPLICABLE, "status_error"),
        ({"status": "error", "response": None, "error": "boom"}, Decision.NOT_APPLICABLE, "status_error"),
        ({"status": "error", "response": None}, Decision.NOT_APPLICABLE, "no_response"),
        ({"status": "incomplete"}, Decision.INCOMPLETE, "status_incomplete"),
    ],
)
async def test_what_is_no_answer_is_not_judged(fields: dict[str, Any], decision: Decision, reason: str) -> None:
    judge = ScriptedJudge(YES)
    panel = make_panel([llm_spec(), lexical_spec()], judge)
    result = await panel.evaluate([make_task(make_trace(0, **fields), "faithful", "lexical")])
    assert {(row.decision, row.reason) for row in result.ledger} == {(decision, reason)}
    assert len(result.ledger) == 2
    assert judge.calls == 0


async def test_a_claim_without_a_question_is_judged_all_the_same() -> None:
    result = await make_panel(llm_spec(), ScriptedJudge(YES)).evaluate([make_task(make_trace(0, query=""))])
    assert [score.outcome for score in result.scores] == [Outcome.PASSED]


async def test_every_task_and_judge_ends_in_exactly_one_row() -> None:
    judge = ScriptedJudge(lambda prompt: NO if "plan 3?" in prompt else "hm" if "plan 4?" in prompt else YES)
    tasks = [
        make_task(0, "faithful", "lexical"),
        make_task(1, "lexical"),
        make_task(make_trace(2, source_nodes=[]), "faithful", "lexical"),
        make_task(3, "faithful"),
        make_task(4, "faithful"),
        JudgeTask(
            trace=(t := make_trace(5)), judge_names=frozenset(), inclusion_probability={}, event_time=t.event_time
        ),
    ]
    result = await make_panel([llm_spec(), lexical_spec()], judge).evaluate(tasks)
    rows = [(score.trace_id, score.judge_name) for score in result.scores]
    rows += [(row.trace_id, row.judge_name) for row in result.ledger]
    assert sorted(rows) == sorted((task.trace.trace_id, name) for task in tasks for name in task.judge_names)
    outcomes = {(score.trace_id, score.judge_name): score.outcome for score in result.scores}
    assert outcomes == {
        ("t-000000", "faithful"): Outcome.PASSED,
        ("t-000000", "lexical"): Outcome.PASSED,
        ("t-000001", "lexical"): Outcome.PASSED,
        ("t-000003", "faithful"): Outcome.FAILED,
        ("t-000004", "faithful"): Outcome.INVALID,
    }


async def test_an_empty_batch_is_an_empty_result() -> None:
    result = await make_panel([llm_spec(), lexical_spec()], ScriptedJudge(YES)).evaluate([])
    assert (result.scores, result.ledger, result.calls, result.gone) == ((), (), (), ())


async def test_the_same_trace_twice_in_a_batch_gives_two_rows() -> None:
    result = await make_panel(llm_spec(), ScriptedJudge(YES)).evaluate([make_task(0), make_task(0)])
    assert len(result.scores) == 2


async def test_results_are_paired_with_their_traces_whatever_order_they_come_in() -> None:
    """The first trace answers last, and each verdict quotes the trace it is about."""
    events = [asyncio.Event() for _ in range(6)]

    class Backwards(ScriptedJudge):
        async def complete(self, messages: Any) -> Any:
            number = next(n for n in range(6) if f"plan {n}?" in messages[-1].content)
            if number < 5:
                await events[number + 1].wait()
            events[number].set()
            return await super().complete(messages)

    def reply(prompt: str) -> str:
        number = next(n for n in range(6) if f"plan {n}?" in prompt)
        return f"{'NO' if number % 2 else 'YES'}. About {number}"

    panel = make_panel(llm_spec(concurrency=6), Backwards(reply))
    await panel.evaluate([make_task(5)])
    for event in events:
        event.clear()
    result = await panel.evaluate(make_tasks(range(6)))
    assert [score.feedback for score in result.scores] == [f"About {number}" for number in range(6)]
    assert [score.outcome is Outcome.PASSED for score in result.scores] == [True, False] * 3


async def test_a_score_carries_what_the_trace_the_task_and_the_judge_say() -> None:
    clock = ManualClock()
    clock.advance(0.123456)
    trace = make_trace(7, category="billing", truncated=True, model="Org/JUDGE")
    stored = trace.event_time - timedelta(hours=1)
    task = JudgeTask(
        trace=trace,
        judge_names=frozenset({"faithful"}),
        stratum="rare",
        inclusion_probability={"faithful": 0.25},
        event_time=stored,
    )
    panel = make_panel(llm_spec(), ScriptedJudge(NO), clock=clock)
    (score,) = (await panel.evaluate([task], run_id="replay-1")).scores
    assert (score.environment, score.app, score.version, score.category) == ("production", "shop", "v1", "billing")
    assert (score.trace_id, score.event_time, score.run_id) == ("t-000007", stored, "replay-1")
    assert (score.judge_name, score.judge_id) == ("faithful", panel.judge_ids["faithful"])
    assert (score.outcome, score.score, score.reason) == (Outcome.FAILED, 0.0, "")
    assert score.feedback == "Not supported: The limit is twelve."
    assert score.raw_reply == NO
    assert (score.stratum, score.inclusion_probability) == ("rare", 0.25)
    assert score.model_reported == "scripted"
    assert score.flags == ("same_model", "truncated_trace")
    assert score.judged_at.microsecond == 123_456
    assert score.usage.calls == 1


async def test_calls_of_other_runs_and_judges_are_told_apart() -> None:
    panel = make_panel([llm_spec("one"), llm_spec("two")], ScriptedJudge(YES))
    result = await panel.evaluate(make_tasks(range(3), "one", "two"), run_id="replay-1")
    assert sorted((call.judge_name, call.trace_id) for call in result.calls) == sorted(
        (name, f"t-{number:06d}") for name in ("one", "two") for number in range(3)
    )
    assert {call.run_id for call in result.calls} == {"replay-1"}


async def test_judge_and_generator_of_one_model_are_warned_about_once(caplog: pytest.LogCaptureFixture) -> None:
    panel = make_panel(llm_spec(), ScriptedJudge(YES))
    with caplog.at_level(logging.WARNING):
        await panel.evaluate([make_task(make_trace(n, model="judge")) for n in range(5)])
        await panel.evaluate([make_task(make_trace(9, model="another"))])
    assert len([record for record in caplog.records if "same model" in record.getMessage()]) == 1


async def test_lexical_scores_say_that_they_are_heuristic_and_cost_nothing() -> None:
    (score,) = (await make_panel(lexical_spec()).evaluate([make_task(0, "lexical")])).scores
    assert score.flags == ("heuristic",)
    assert (score.usage.calls, score.usage.cost_usd) == (0, 0.0)


async def test_b10_a_model_judge_runs_in_a_stock_runner_without_losing_a_batch() -> None:
    judge = ScriptedJudge(lambda prompt: "hm" if "plan 1?" in prompt else YES)
    runner = BatchEvalRunner({"faithful": evaluator_for(llm_spec(), make_completer=lambda spec: judge)}, workers=8)
    traces = [make_trace(0), make_trace(1), make_trace(2, source_nodes=[])]
    results = await runner.aevaluate_responses(
        queries=[trace.query for trace in traces], responses=[TraceResponse(trace) for trace in traces]
    )
    found = results["faithful"]
    assert [result.passing for result in found] == [True, None, None]
    assert [result.invalid_reason for result in found] == [
        None,
        "unparsable: the reply has none of the documented shapes",
        "not_applicable: no_context",
    ]
    assert judge.calls == 2


async def test_an_evaluator_of_one_s_own_runner_closes_its_connections() -> None:
    closed: list[str] = []

    class Closing(ScriptedJudge):
        async def close(self) -> None:
            closed.append("faithful")

    await evaluator_for(llm_spec(), make_completer=lambda spec: Closing("YES")).close()
    await evaluator_for(lexical_spec()).close()
    assert closed == ["faithful"]


def test_b13_one_panel_serves_one_event_loop_after_the_other() -> None:
    judge = ScriptedJudge(YES)
    panel = make_panel(llm_spec(concurrency=1), judge)
    for _ in range(3):
        result = asyncio.run(panel.evaluate(make_tasks(range(6))))
        assert len(result.scores) == 6
        assert {score.outcome for score in result.scores} == {Outcome.PASSED}
    assert judge.calls == 18


async def test_overlapping_batches_do_not_mix() -> None:
    judge = ScriptedJudge(lambda prompt: YES if "plan 1?" in prompt else NO)
    panel = make_panel([llm_spec(), lexical_spec()], judge)
    first, second = await asyncio.gather(
        panel.evaluate([make_task(1, "faithful", "lexical")] * 10), panel.evaluate([make_task(2, "faithful")] * 10)
    )
    assert {(score.trace_id, score.judge_name) for score in first.scores} == {
        ("t-000001", "faithful"),
        ("t-000001", "lexical"),
    }
    assert [score.outcome for score in second.scores] == [Outcome.FAILED] * 10


async def test_each_result_is_handed_on_as_it_comes_however_slow_its_neighbours_are() -> None:
    judge = ScriptedJudge(lambda prompt: HANG if "Plan 3" in prompt else YES)
    panel = make_panel([llm_spec(), lexical_spec()], judge)
    tasks = [make_task(make_trace(n, query=f"Plan {n}?"), "faithful", "lexical") for n in range(6)]
    told: list[tuple[int, str]] = []

    def on_result(place: int, result: PanelResult) -> None:
        (score,) = result.scores
        assert score.trace_id == tasks[place].trace.trace_id
        assert result.served == ({("faithful", ""): 1} if score.judge_name == "faithful" else {})
        told.append((place, score.judge_name))

    judging = asyncio.ensure_future(panel.evaluate_each(tasks, on_result))
    expected = {(n, name) for n in range(6) for name in ("faithful", "lexical")} - {(3, "faithful")}
    for _ in range(1_000):
        await asyncio.sleep(0)
        if len(told) == len(expected):
            break
    assert set(told) == expected
    assert len(told) == len(expected)
    assert not judging.done()
    judging.cancel()
    with pytest.raises(asyncio.CancelledError):
        await judging


async def test_each_of_a_batch_ends_in_the_rows_it_has_by_itself() -> None:
    specs = [llm_spec(), lexical_spec()]
    tasks = [
        make_task(make_trace(0), "faithful", "lexical"),
        make_task(make_trace(1, response=None), "faithful"),
        make_task(make_trace(2), "faithful"),
    ]
    script = [YES, "nonsense"]
    whole = await make_panel(specs, ScriptedJudge(script)).evaluate(tasks)
    apart: list[PanelResult] = []
    await make_panel(specs, ScriptedJudge(script)).evaluate_each(tasks, lambda _, result: apart.append(result))
    assert all(len(one.scores) + len(one.ledger) == 1 for one in apart)

    def rows(results: list[PanelResult]) -> set[tuple[str, str, str, str]]:
        scores = {
            (row.trace_id, row.judge_name, row.outcome.value, row.reason) for one in results for row in one.scores
        }
        return scores | {
            (row.trace_id, row.judge_name, row.decision.value, row.reason) for one in results for row in one.ledger
        }

    assert rows(apart) == rows([whole])
    assert sum(len(one.calls) for one in apart) == len(whole.calls) == 2


async def test_what_the_listener_raises_ends_the_batch() -> None:
    def on_result(place: int, result: PanelResult) -> None:
        raise LookupError("no room for this")

    with pytest.raises(LookupError, match="no room for this"):
        await make_panel(llm_spec(), ScriptedJudge(YES)).evaluate_each(make_tasks(range(3)), on_result)


async def test_what_the_listener_raises_ends_the_other_judges_too() -> None:
    def on_result(place: int, result: PanelResult) -> None:
        raise LookupError("no room for this")

    judge, before = ScriptedJudge(HANG), asyncio.all_tasks()
    panel = make_panel([llm_spec(), lexical_spec()], judge)
    with pytest.raises(LookupError):
        await panel.evaluate_each([make_task(0, "faithful", "lexical")], on_result)
    assert asyncio.all_tasks() == before, "a judge is asked for nobody"


async def test_a_judge_that_our_fault_ends_ends_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    original = EvalRunner.aevaluate_responses

    async def broken(self: EvalRunner, **kwargs: Any) -> Any:
        if "lexical" in self.evaluators:
            raise LookupError("a fault of ours")
        return await original(self, **kwargs)

    monkeypatch.setattr(EvalRunner, "aevaluate_responses", broken)
    before = asyncio.all_tasks()
    panel = make_panel([llm_spec(), lexical_spec()], ScriptedJudge(HANG))
    with pytest.raises(LookupError):
        await panel.evaluate([make_task(0, "faithful", "lexical"), make_task(1, "faithful")])
    assert asyncio.all_tasks() == before, "a judge is asked for nobody"


@pytest.mark.parametrize("each", [False, True])
async def test_a_batch_that_is_cancelled_asks_nobody_any_more(each: bool) -> None:
    before = asyncio.all_tasks()
    panel, tasks = make_panel([llm_spec(), lexical_spec()], ScriptedJudge(HANG)), make_tasks(range(3))
    judging: asyncio.Future[Any] = asyncio.ensure_future(
        panel.evaluate_each(tasks, lambda _, __: None) if each else panel.evaluate(tasks)
    )
    for _ in range(20):
        await asyncio.sleep(0)
    judging.cancel()
    with pytest.raises(asyncio.CancelledError):
        await judging
    assert asyncio.all_tasks() == before, "a judge is asked for nobody"


async def test_what_a_judge_on_trial_says_is_never_among_live_scores() -> None:
    specs = [llm_spec(shadow=True), lexical_spec()]
    tasks = [make_task(0, "faithful", "lexical"), make_task(make_trace(1, response=None), "faithful", "lexical")]
    for run_id, of_trial in (("live", "shadow"), ("release-2", "release-2")):
        result = await make_panel(specs, ScriptedJudge(YES)).evaluate(tasks, run_id=run_id)
        rows: list[Score | LedgerRow] = [*result.scores, *result.ledger]
        assert {(row.judge_name, row.run_id) for row in rows} == {("faithful", of_trial), ("lexical", run_id)}
        assert len(rows) == 4
        assert {call.run_id for call in result.calls} == {of_trial}


async def test_within_a_batch_what_was_served_later_is_judged_later() -> None:
    """Detectors fold scores in the order of judging, and are not to see a fall with its traces shuffled."""
    result = await make_panel(llm_spec(), ScriptedJudge(YES)).evaluate(make_tasks([3, 1, 4, 0, 2]))
    in_order = sorted(result.scores, key=lambda score: score.judged_at)
    assert [score.trace_id for score in in_order] == [f"t-{number:06d}" for number in range(5)]
    assert len({score.judged_at for score in in_order}) == 5


async def test_judging_goes_through_batch_eval_runner(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    original = EvalRunner.aevaluate_responses

    async def counted(self: EvalRunner, **kwargs: Any) -> Any:
        seen.append(len(kwargs["responses"]))
        return await original(self, **kwargs)

    assert issubclass(EvalRunner, BatchEvalRunner)
    monkeypatch.setattr(EvalRunner, "aevaluate_responses", counted)
    await make_panel([llm_spec(), lexical_spec()], ScriptedJudge(YES)).evaluate(
        [make_task(0, "faithful", "lexical"), make_task(1, "lexical")]
    )
    assert sorted(seen) == [1, 2]


async def test_a_result_for_another_trace_is_our_fault_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    original = EvalRunner.aevaluate_responses

    async def swapped(self: EvalRunner, **kwargs: Any) -> Any:
        return {name: results[::-1] for name, results in (await original(self, **kwargs)).items()}

    monkeypatch.setattr(EvalRunner, "aevaluate_responses", swapped)
    with pytest.raises(RuntimeError, match="came back for another trace"):
        await make_panel(llm_spec(), ScriptedJudge(YES)).evaluate(make_tasks(range(2)))


async def test_a_task_for_an_absent_judge_or_without_a_probability_is_refused() -> None:
    panel = make_panel(lexical_spec())
    with pytest.raises(ValueError, match="not on this panel"):
        await panel.evaluate([make_task(0, "faithful")])
    trace = make_trace(0)
    for probabilities in ({}, {"lexical": 0.0}, {"lexical": 1.5}):
        task = JudgeTask(
            trace=trace,
            judge_names=frozenset({"lexical"}),
            inclusion_probability=probabilities,
            event_time=trace.event_time,
        )
        with pytest.raises(ValueError, match="inclusion probability"):
            await panel.evaluate([task])


def test_b17_a_rebuilt_response_holds_the_trace_s_nodes_in_their_order() -> None:
    trace = make_trace(
        0,
        source_nodes=[
            {"node_id": "a", "text": "one", "score": 0.5, "metadata": {"page": 3}},
            {"node_id": "", "text": None, "score": None},
        ],
    )
    response = TraceResponse(trace)
    assert [(node.node.node_id, node.node.get_content(), node.score) for node in response.source_nodes] == [
        ("a", "one", 0.5),
        ("t-000000#1", "", None),
    ]
    assert response.source_nodes[0].node.metadata == {"page": 3}
    assert response.metadata is not None
    assert response.metadata["trace_id"] == "t-000000"


def test_all_faults_of_a_panel_are_said_at_once() -> None:
    specs = [
        llm_spec("a", api_key_env="NO_SUCH_KEY"),
        lexical_spec("b"),
        lexical_spec("b"),
        lexical_spec("c", kind="no_such_package.judges:Polite"),
        lexical_spec("d", kind="json:JSONDecoder"),
    ]
    with pytest.raises(SettingsError) as caught:
        Panel(specs, clock=ManualClock(), spend=NothingSpent(), environ={})
    said = "\n".join(caught.value.faults)
    assert len(caught.value.faults) == 4
    for words in ("NO_SUCH_KEY, which is not set", "used twice", "cannot import", "not a subclass"):
        assert words in said
