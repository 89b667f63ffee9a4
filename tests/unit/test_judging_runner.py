"""What upstream documents of BatchEvalRunner holds for ours: the same calls, side by side, with the same results.

Upstream's own waiting (4 s between its attempts) keeps its failures out of here; ours are in the last tests.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Sequence
from typing import Any

import pytest
from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.response.schema import Response
from llama_index.core.callbacks import CallbackManager
from llama_index.core.evaluation import BatchEvalRunner
from llama_index.core.evaluation.base import BaseEvaluator, EvaluationResult
from llama_index.core.prompts.mixin import PromptDictType, PromptMixinType
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from tracejudge.judging.runner import EvalRunner

QUERIES = ["q0", "q1", "q2", "q3", "q4"]
TEXTS = ["r0", "r1", "r2", "r3", "r4"]
CONTEXTS = [["c0"], ["c1", "d1"], [], ["c3"], ["c4"]]


class Echo(BaseEvaluator):
    """Says what it was given; later rows answer first."""

    def __init__(self, name: str, poison: str = "") -> None:
        self._name = name
        self._poison = poison
        self.most_in_flight = 0
        self._in_flight = 0

    def _get_prompts(self) -> PromptDictType:
        return {}

    def _update_prompts(self, prompts: PromptDictType) -> None: ...

    async def aevaluate(
        self,
        query: str | None = None,
        response: str | None = None,
        contexts: Sequence[str] | None = None,
        reference: str | None = None,
        **kwargs: Any,
    ) -> EvaluationResult:
        self._in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self._in_flight)
        try:
            for _ in range(9 - int((query or response or "0")[-1])):
                await asyncio.sleep(0)
            if self._poison and query == self._poison:
                raise RuntimeError("429")
            feedback = f"{self._name}/{query}/{response}/{list(contexts or [])}/{reference}"
            return EvaluationResult(query=query, response=response, feedback=feedback, passing=True, score=1.0)
        finally:
            self._in_flight -= 1


class Engine(BaseQueryEngine):
    """Answers every query with itself, in capitals."""

    def __init__(self, poison: str = "") -> None:
        super().__init__(CallbackManager([]))
        self._poison = poison

    def _get_prompt_modules(self) -> PromptMixinType:
        return {}

    def _query(self, query_bundle: QueryBundle) -> Response:
        raise NotImplementedError

    async def _aquery(self, query_bundle: QueryBundle) -> Response:
        if query_bundle.query_str == self._poison:
            raise RuntimeError("no such page")
        return Response(response=query_bundle.query_str.upper(), source_nodes=_nodes(["p"]))


def _nodes(texts: list[str]) -> list[NodeWithScore]:
    return [NodeWithScore(node=TextNode(text=text), score=0.5) for text in texts]


def responses() -> list[Response]:
    return [Response(response=text, source_nodes=_nodes(c)) for text, c in zip(TEXTS, CONTEXTS, strict=True)]


def runners(*, workers: int = 2, **kwargs: Any) -> tuple[BatchEvalRunner, EvalRunner]:
    evaluators: dict[str, BaseEvaluator] = {"a": Echo("a"), "b": Echo("b")}
    return BatchEvalRunner(evaluators, workers, **kwargs), EvalRunner(evaluators, workers, **kwargs)


def told(results: dict[str, list[EvaluationResult]]) -> dict[str, list[tuple[Any, ...]]]:
    return {
        name: [(r.query, r.response, r.feedback, r.passing, r.score) for r in found] for name, found in results.items()
    }


CALLS: list[tuple[str, dict[str, Any]]] = [
    ("response_strs", {"queries": QUERIES, "response_strs": TEXTS, "contexts_list": CONTEXTS}),
    ("response_strs", {"response_strs": TEXTS}),
    ("response_strs", {"queries": QUERIES, "response_strs": TEXTS, "reference": list("vwxyz")}),
    ("response_strs", {"queries": QUERIES, "b": {"reference": list("vwxyz")}}),
    ("response_strs", {"queries": [], "response_strs": []}),
    ("responses", {"queries": QUERIES, "responses": "responses"}),
    ("responses", {"responses": "responses"}),
    ("responses", {"queries": QUERIES, "responses": "responses", "reference": list("vwxyz")}),
    ("responses", {"queries": QUERIES, "responses": "responses", "a": {"reference": list("vwxyz")}}),
    ("queries", {"query_engine": "engine", "queries": QUERIES}),
    ("queries", {"query_engine": "engine", "queries": QUERIES, "reference": list("vwxyz")}),
]


def filled(kwargs: dict[str, Any]) -> dict[str, Any]:
    objects = {"responses": responses(), "engine": Engine()}
    # Upstream changes the dictionaries it is given.
    return {
        key: objects.get(value, value) if isinstance(value, str) else dict(value) if isinstance(value, dict) else value
        for key, value in kwargs.items()
    }


@pytest.mark.parametrize(("method", "kwargs"), CALLS)
async def test_async_calls_give_what_upstream_s_give(method: str, kwargs: dict[str, Any]) -> None:
    theirs, ours = runners()
    expected = await getattr(theirs, f"aevaluate_{method}")(**filled(kwargs))
    found = await getattr(ours, f"aevaluate_{method}")(**filled(kwargs))
    assert told(found) == told(expected)
    assert list(found) == list(expected) == ["a", "b"]


@pytest.mark.parametrize(("method", "kwargs"), CALLS)
def test_sync_calls_give_what_upstream_s_give(method: str, kwargs: dict[str, Any]) -> None:
    theirs, ours = runners()
    expected = getattr(theirs, f"evaluate_{method}")(**filled(kwargs))
    assert told(getattr(ours, f"evaluate_{method}")(**filled(kwargs))) == told(expected)


async def test_a_sync_call_works_inside_a_running_loop() -> None:
    _, ours = runners()
    assert len(ours.evaluate_responses(queries=QUERIES, responses=responses())["a"]) == 5


@pytest.mark.parametrize(
    ("method", "kwargs"),
    [
        ("response_strs", {}),
        ("response_strs", {"queries": QUERIES, "response_strs": TEXTS[:4]}),
        ("response_strs", {"queries": QUERIES, "reference": "one text"}),
        ("responses", {}),
        ("responses", {"queries": QUERIES[:4], "responses": "responses"}),
        ("responses", {"queries": QUERIES, "responses": "responses", "a": {"reference": "one text"}}),
        ("queries", {"query_engine": "engine"}),
    ],
)
async def test_what_upstream_refuses_is_refused(method: str, kwargs: dict[str, Any]) -> None:
    for runner in runners():
        with pytest.raises(ValueError, match=r"."):
            await getattr(runner, f"aevaluate_{method}")(**filled(kwargs))


@pytest.mark.parametrize(
    ("keywords", "says"),
    [
        ({"reference": ["x"]}, "reference: has 1 value for 5 rows"),
        ({"reference": ["x"] * 6}, "reference: has 6 values for 5 rows"),
        ({"b": {"reference": ["x"] * 4}}, "reference: has 4 values for 5 rows"),
        ({"c": {"reference": ["x"] * 5}}, "there is no evaluator 'c'"),
        ({"reference": ["x"] * 5, "b": {"reference": ["x"] * 5}}, "give all as lists, or all by evaluator"),
    ],
)
async def test_keywords_that_do_not_match_the_batch_raise_before_anything_is_called(
    keywords: dict[str, Any], says: str
) -> None:
    evaluator = Echo("a")
    runner = EvalRunner({"a": evaluator, "b": Echo("b")})
    with pytest.raises(ValueError, match=says):
        await runner.aevaluate_responses(queries=QUERIES, responses=responses(), **keywords)
    assert evaluator.most_in_flight == 0


def test_signatures_and_entry_points_are_upstream_s() -> None:
    for name, theirs in inspect.getmembers(BatchEvalRunner, inspect.isfunction):
        if not name.startswith("_") or name == "__init__":
            parameters = list(inspect.signature(getattr(EvalRunner, name)).parameters)
            expected = list(inspect.signature(theirs).parameters)
            assert parameters[: len(expected)] == expected, name
    assert isinstance(runners()[1], BatchEvalRunner)
    assert inspect.signature(EvalRunner).parameters["workers"].default == 2
    assert inspect.signature(EvalRunner).parameters["show_progress"].default is False


@pytest.mark.parametrize("workers", [1, 2, 5])
async def test_workers_bound_the_evaluations_in_flight(workers: int) -> None:
    evaluator = Echo("a")
    await EvalRunner({"a": evaluator}, workers).aevaluate_responses(queries=QUERIES, responses=responses())
    assert evaluator.most_in_flight == workers


@pytest.mark.parametrize("rows", [1, 5])
async def test_each_result_is_told_as_it_comes(rows: int) -> None:
    told: list[tuple[str, int, str | None]] = []
    runner = EvalRunner(
        {"one": Echo("one"), "two": Echo("two", poison="q0")},
        workers=10,
        on_result=lambda name, row, result: told.append((name, row, result.query)),
    )
    results = await runner.aevaluate_response_strs(QUERIES[:rows], TEXTS[:rows], CONTEXTS[:rows])
    assert sorted(told) == [(name, row, QUERIES[row]) for name in ("one", "two") for row in range(rows)]
    assert results["two"][0].invalid_result
    if rows > 1:
        assert told != sorted(told)  # later rows answer first


async def test_rows_that_never_wait_take_no_task_each() -> None:
    tasks: set[asyncio.Task[Any] | None] = set()

    class Instant(Echo):
        async def aevaluate(self, *_: Any, **__: Any) -> EvaluationResult:
            tasks.add(asyncio.current_task())
            return EvaluationResult(passing=True)

    await EvalRunner({"one": Instant("one")}, workers=10).aevaluate_response_strs(QUERIES, TEXTS, CONTEXTS)
    assert len(tasks) == 1


async def test_what_the_listener_raises_is_the_last_that_it_is_told() -> None:
    told: list[int] = []

    class Instant(Echo):
        async def aevaluate(self, *_: Any, **__: Any) -> EvaluationResult:
            return EvaluationResult(passing=True)

    def on_result(_: str, row: int, __: EvaluationResult) -> None:
        told.append(row)
        raise LookupError("no room for this")

    with pytest.raises(LookupError):
        await EvalRunner({"one": Instant("one")}, workers=10, on_result=on_result).aevaluate_response_strs(
            QUERIES, TEXTS, CONTEXTS
        )
    await asyncio.sleep(0)
    assert told == [0]


async def test_progress_is_shown_where_it_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    _, ours = runners(show_progress=True)
    await ours.aevaluate_responses(queries=QUERIES, responses=responses())
    assert "10/10" in capsys.readouterr().err
    _, ours = runners()
    await ours.aevaluate_responses(queries=QUERIES, responses=responses())
    assert capsys.readouterr().err == ""


async def test_b10_a_row_that_raises_is_an_invalid_result_and_loses_no_other() -> None:
    runner = EvalRunner({"a": Echo("a", poison="q2"), "b": Echo("b")})
    results = await runner.aevaluate_responses(queries=QUERIES, responses=responses())
    assert [result.invalid_result for result in results["a"]] == [False, False, True, False, False]
    assert results["a"][2].invalid_reason == "RuntimeError: 429"
    assert (results["a"][2].passing, results["a"][2].score) == (None, None)
    assert [result.passing for result in results["b"]] == [True] * 5


async def test_a_query_that_the_engine_raises_on_loses_no_other() -> None:
    runner = EvalRunner({"a": Echo("a")}, query_workers=3)
    results = await runner.aevaluate_queries(Engine(poison="q1"), queries=QUERIES)
    assert [result.invalid_reason for result in results["a"]] == [None, "RuntimeError: no such page", None, None, None]
    assert results["a"][4].response == "Q4"


def test_b13_one_runner_serves_one_event_loop_after_the_other() -> None:
    runner = EvalRunner({"a": Echo("a")}, workers=1)
    for _ in range(3):
        results = asyncio.run(runner.aevaluate_responses(queries=QUERIES, responses=responses()))
        assert [result.query for result in results["a"]] == QUERIES


async def test_cancellation_ends_every_row() -> None:
    class Hanging(Echo):
        async def aevaluate(self, *args: Any, **kwargs: Any) -> EvaluationResult:
            started.set()
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)  # last words
                ended.append(1)
            raise AssertionError

    started, ended = asyncio.Event(), list[int]()
    running = asyncio.ensure_future(
        EvalRunner({"a": Hanging("a")}, workers=3).aevaluate_responses(queries=QUERIES, responses=responses())
    )
    await started.wait()
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert len(ended) == 3
