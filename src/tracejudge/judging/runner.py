"""LlamaIndex's BatchEvalRunner with its faults mended: same names, order, keywords and entry points.

Upstream repeats whatever an evaluator raises three times, 4 s apart, and then loses every other result of the batch;
its semaphore belongs to one event loop; each row costs a task and a retry object, a third of a millisecond; and a list
of keyword values that is longer than the batch is cut without a word. Here

- a row whose evaluator (or query) raises gives an EvaluationResult with `invalid_result` set, at once, and the others
  keep theirs. Repeating is the business of the guard inside our evaluators, which know what an error means;
- `workers` tasks pull rows from one iterator, in any event loop, one after the other. A row that never has to wait
  needs no task of its own: others are begun when the first one waits for something;
- each result can be handed on as it comes, so that whoever waits for one row waits for no other;
- values that do not match the batch, or an evaluator that is not here, raise ValueError before anything is called.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, cast

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.response.schema import RESPONSE_TYPE, Response
from llama_index.core.evaluation import BatchEvalRunner
from llama_index.core.evaluation.base import BaseEvaluator, EvaluationResult
from tqdm.auto import tqdm  # what llama-index-core shows progress with

from tracejudge.counted import counted
from tracejudge.judging.calls.failures import describe
from tracejudge.together import ended

Job = Callable[[BaseEvaluator, int, dict[str, Any]], Awaitable[EvaluationResult]]
Keywords = Mapping[str, Mapping[str, Sequence[Any]]]
OnResult = Callable[[str, int, EvaluationResult], None]
"""Called with the evaluator's name, the row's place in the batch and its result. What it raises ends the batch."""


class EvalRunner(BatchEvalRunner):
    """Runs evaluators over batches. `workers` bounds the evaluations in flight of one call; `query_workers`, the
    queries to an engine in flight (as many as `workers` by default). `on_result` is told each result as it comes, in
    no order; all of them are returned as well."""

    def __init__(
        self,
        evaluators: dict[str, BaseEvaluator],
        workers: int = 2,
        show_progress: bool = False,
        *,
        query_workers: int | None = None,
        on_result: OnResult | None = None,
    ) -> None:
        # Not BatchEvalRunner's own: it makes a semaphore that belongs to one event loop.
        if workers < 1:
            raise ValueError(f"workers: {workers!r} is below 1")
        self.evaluators = evaluators
        self.workers = workers
        self.show_progress = show_progress
        self.query_workers = workers if query_workers is None else query_workers
        self.on_result = on_result

    async def aevaluate_response_strs(
        self,
        queries: list[str] | None = None,
        response_strs: list[str] | None = None,
        contexts_list: list[list[str]] | None = None,
        **eval_kwargs_lists: Any,
    ) -> dict[str, list[EvaluationResult]]:
        """Evaluates questions, responses and passages given as texts: results by evaluator, in the order of the input.

        Further keywords are lists of one value a row (`reference=[...]`), or such lists by evaluator
        (`correctness={"reference": [...]}`). Raises ValueError where anything does not match the batch.
        """
        questions, texts, contexts = self._validate_and_clean_inputs(queries, response_strs, contexts_list)
        keywords = self._keywords(eval_kwargs_lists, len(questions))

        def job(evaluator: BaseEvaluator, row: int, more: dict[str, Any]) -> Awaitable[EvaluationResult]:
            return evaluator.aevaluate(query=questions[row], response=texts[row], contexts=contexts[row], **more)

        return await self._evaluate(questions, texts, keywords, job)

    async def aevaluate_responses(
        self,
        queries: list[str] | None = None,
        responses: list[Response] | None = None,
        **eval_kwargs_lists: Any,
    ) -> dict[str, list[EvaluationResult]]:
        """Evaluates Response objects; otherwise like `aevaluate_response_strs`."""
        questions, given = self._validate_and_clean_inputs(queries, responses)
        keywords = self._keywords(eval_kwargs_lists, len(questions))

        def job(evaluator: BaseEvaluator, row: int, more: dict[str, Any]) -> Awaitable[EvaluationResult]:
            return evaluator.aevaluate_response(query=questions[row], response=given[row], **more)

        return await self._evaluate(questions, given, keywords, job)

    async def aevaluate_queries(
        self, query_engine: BaseQueryEngine, queries: list[str] | None = None, **eval_kwargs_lists: Any
    ) -> dict[str, list[EvaluationResult]]:
        """Asks `query_engine` each query, then evaluates its responses like `aevaluate_responses`.

        A query that the engine raises on is an invalid result of every evaluator.
        """
        if queries is None:
            raise ValueError("`queries` must be provided")
        keywords = self._keywords(eval_kwargs_lists, len(queries))
        responses: list[RESPONSE_TYPE | Exception] = [Response(response=None)] * len(queries)

        async def ask(row: int) -> None:
            try:
                responses[row] = await query_engine.aquery(queries[row])
            except Exception as error:  # noqa: BLE001 - one question that the engine cannot answer loses no other
                responses[row] = error

        await _pool((partial(ask, row) for row in range(len(queries))), self.query_workers, len(queries))

        def job(evaluator: BaseEvaluator, row: int, more: dict[str, Any]) -> Awaitable[EvaluationResult]:
            response = responses[row]
            if isinstance(response, Exception):
                raise response
            return evaluator.aevaluate_response(query=queries[row], response=cast(Response, response), **more)

        return await self._evaluate(queries, responses, keywords, job)

    async def _evaluate(
        self,
        queries: Sequence[Any],
        responses: Sequence[Any],
        keywords: Keywords,
        job: Job,
    ) -> dict[str, list[EvaluationResult]]:
        rows = len(queries)
        results: dict[str, list[EvaluationResult]] = {
            name: cast("list[EvaluationResult]", [None] * rows) for name in self.evaluators
        }
        on_result = self.on_result
        # Even one that shows nothing costs a tenth of judging one answer.
        bar = tqdm(total=rows * len(results)) if self.show_progress else None

        async def evaluate(name: str, evaluator: BaseEvaluator, row: int) -> None:
            more = {key: values[row] for key, values in keywords[name].items()} if name in keywords else {}
            try:
                result = await job(evaluator, row, more)
            except Exception as error:  # noqa: BLE001 - anybody's evaluator: its error is this row's result
                result = _invalid(error, queries[row], responses[row])
            results[name][row] = result
            if on_result is not None:
                on_result(name, row, result)
            if bar is not None:
                bar.update()

        if rows == 1 and len(results) == 1:  # one trace for one judge: nothing to pool
            ((name, evaluator),) = self.evaluators.items()
            try:
                await evaluate(name, evaluator, 0)
            finally:
                if bar is not None:
                    bar.close()
            return results
        jobs = (
            partial(evaluate, name, evaluator, row)
            for row in range(rows)
            for name, evaluator in self.evaluators.items()
        )
        try:
            await _pool(jobs, self.workers, rows * len(results))
        finally:
            if bar is not None:
                bar.close()
        return results

    def _keywords(self, given: Mapping[str, Any], rows: int) -> Keywords:
        """The keyword values by evaluator. Raises ValueError where they are not one for each row."""
        nested = [isinstance(value, Mapping) for value in given.values()]
        if any(nested) and not all(nested):
            raise ValueError("keywords: give all as lists, or all by evaluator as {keyword: list}")
        if not any(nested):
            given = dict.fromkeys(self.evaluators, given) if given else {}
        for name, lists in given.items():
            if name not in self.evaluators:
                raise ValueError(f"keywords: there is no evaluator {name!r}, only {sorted(self.evaluators)}")
            for key, values in lists.items():
                if isinstance(values, (str, bytes)) or not isinstance(values, Sequence):
                    raise ValueError(f"{key}: must be a list of {rows} values, not a {type(values).__name__}")
                if len(values) != rows:
                    raise ValueError(f"{key}: has {counted(len(values), 'value')} for {counted(rows, 'row')}")
        return given


def _invalid(error: Exception, query: Any, response: Any) -> EvaluationResult:
    text = response if isinstance(response, str) else getattr(response, "response", None)
    return EvaluationResult(
        query=query if isinstance(query, str) else None,
        response=text if isinstance(text, str) else None,
        invalid_result=True,
        invalid_reason=describe(error),
    )


async def _pool(jobs: Iterator[Callable[[], Awaitable[None]]], workers: int, count: int) -> None:
    """Runs the jobs, at most `workers` at once. A cancellation, or what a job raises, ends the others."""
    begun = 0

    async def work() -> None:
        nonlocal begun
        for job in jobs:
            begun += 1
            await job()

    if count <= 1 or workers == 1:
        await work()
        return
    tasks = [asyncio.ensure_future(work())]
    try:
        # Until here again, the first has done every job up to one that waits. Answers of a cache, or of a judge that
        # asks nobody, so cost no task each.
        await asyncio.sleep(0)
        if begun < count and not tasks[0].done():  # done before its end: it has raised
            tasks += [asyncio.ensure_future(work()) for _ in range(min(workers - 1, count - begun))]
        await asyncio.gather(*tasks)
    except BaseException:  # a cancellation too: no judge is asked for a caller that has left
        await ended(tasks)
        raise
