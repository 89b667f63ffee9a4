"""The outermost evaluator, which BatchEvalRunner sees: it never raises, and its result knows its trace."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from llama_index.core.base.response.schema import Response
from llama_index.core.evaluation.base import BaseEvaluator

from tracejudge.clock import Clock
from tracejudge.judging.cache import CacheKey, VerdictCache
from tracejudge.judging.calls.failures import describe
from tracejudge.judging.evaluation import Evaluation, current
from tracejudge.judging.evaluators.base import (
    LACKING,
    Facts,
    FactsEvaluator,
    FixedPrompts,
    facts_of,
    facts_of_response,
    texts_of,
    trace_of,
)
from tracejudge.judging.replies.judgement import Judgement, invalid, not_applicable
from tracejudge.judging.responses import TraceResponse
from tracejudge.judging.specs.spec import JudgeSpec
from tracejudge.scores import Decision, InvalidReason
from tracejudge_sdk.trace import Trace

_LOG: Final = logging.getLogger(__name__)


class GuardedEvaluator(FixedPrompts, BaseEvaluator):
    """Returns not_applicable for what `inner` cannot judge, and turns any exception of `inner` into an invalid result.

    With a `cache`, a judge that calls a model is asked once for equal content.
    """

    def __init__(
        self,
        inner: BaseEvaluator,
        *,
        spec: JudgeSpec,
        clock: Clock,
        cache: VerdictCache | None = None,
        closes: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._inner = inner
        self._cache = cache if spec.calls_model else None
        self._closes = closes
        self._judge_id = spec.judge_id()
        self._timed_by_calls = spec.asks_model
        self._spec = spec
        self._required = spec.required
        self._clock = clock
        # Looked up once: LlamaIndex's evaluators are abstract classes, which are slow to be asked about.
        self._facts_inner = inner if isinstance(inner, FactsEvaluator) else None
        self._reads_texts = type(inner).aevaluate_response is BaseEvaluator.aevaluate_response

    async def close(self) -> None:
        """Closes the connections of its model, in the event loop in which it was asked."""
        if self._closes is not None:
            await self._closes()

    async def aevaluate(
        self,
        query: str | None = None,
        response: str | None = None,
        contexts: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> Judgement:
        facts = facts_of(query, response, contexts, kwargs)
        lacking = self._lacking(facts)
        if lacking is not None:
            return lacking
        if self._facts_inner is not None:
            return await self._judge(self._facts_inner.judge(facts), trace=None)
        evaluation = self._inner.aevaluate(query=query, response=response, contexts=contexts, **kwargs)
        return await self._judge(evaluation, trace=None)

    async def aevaluate_response(
        self, query: str | None = None, response: Response | None = None, **kwargs: Any
    ) -> Judgement:
        trace = trace_of(response)
        if trace is not None and trace.reference is not None:
            kwargs.setdefault("reference", trace.reference)
        facts = facts_of_response(query, response, kwargs)
        lacking = _status(trace) or self._lacking(facts, trace)
        if lacking is not None:
            return lacking.but(trace_id=trace.trace_id) if trace is not None else lacking
        given = response if isinstance(response, TraceResponse) else None
        background = given is not None and given.background
        if self._cache is None or given is None or given.fresh or not _is_the_trace_s_own(given.trace, query, kwargs):
            evaluation = self._evaluation(query, response, facts, kwargs)
            return await self._judge(evaluation, trace=trace, background=background)

        def judge() -> Awaitable[Judgement]:
            return self._judge(self._evaluation(query, response, facts, kwargs), trace=trace, background=background)

        digest = given.digest if self._facts_inner is not None else given.whole_digest
        result = await self._cache.judged(CacheKey(digest, self._judge_id), judge, background=background)
        return result.but(trace_id=given.trace.trace_id) if result.served else result

    def _evaluation(self, query: str | None, response: Response | None, facts: Facts, more: dict[str, Any]) -> Any:
        if self._facts_inner is not None:
            return self._facts_inner.judge(facts)
        if self._reads_texts:
            # What BaseEvaluator.aevaluate_response does, without building a node for each text.
            text = response.response if response is not None else None
            return self._inner.aevaluate(query=query, response=text, contexts=texts_of(response), **more)
        return self._inner.aevaluate_response(query=query, response=response, **more)

    async def _judge(self, evaluation: Any, *, trace: Trace | None, background: bool = False) -> Judgement:
        running = Evaluation(background=background)
        token = current.set(running)
        start = 0.0 if self._timed_by_calls else self._clock.monotonic()
        try:
            result = await evaluation
        except Exception as error:  # noqa: BLE001 - BatchEvalRunner would wait 8 s, repeat, and lose the whole batch
            _LOG.error(
                "judge %r raised %s on trace %r",
                self._spec.name,
                type(error).__name__,
                trace.trace_id if trace is not None else "",
                extra={"trace_id": trace.trace_id if trace is not None else "", "judge": self._spec.name},
            )
            result = invalid(InvalidReason.JUDGE_ERROR, describe(error))
        finally:
            current.reset(token)
        if not isinstance(result, Judgement):
            result = invalid(InvalidReason.JUDGE_ERROR, f"returned a {type(result).__name__}")
        calls = running.calls
        if calls or self._timed_by_calls:
            latency_ms = sum([call.latency_ms for call in calls])
        else:
            latency_ms = 1000.0 * (self._clock.monotonic() - start)
        # An evaluator that is not ours does not say which model its replies came from; its calls do.
        answered = [call.model_reported for call in calls if call.model_reported]
        return result.but(
            trace_id=trace.trace_id if trace is not None else "",
            model_reported=result.model_reported or (answered[-1] if answered else ""),
            calls=tuple(calls),
            latency_ms=latency_ms,
        )

    def _lacking(self, facts: Facts, trace: Trace | None = None) -> Judgement | None:
        for need in self._required:
            if facts.lacks(need):
                if need == "context" and trace is not None and _ids_only(trace):
                    return not_applicable("no_passage_text", "no passage text: the source nodes came as ids only")
                return not_applicable(f"no_{need}", LACKING[need])
        return None


def _ids_only(trace: Trace) -> bool:
    return bool(trace.source_nodes) and all(node.text is None for node in trace.source_nodes)


def _is_the_trace_s_own(trace: Trace, query: str | None, more: dict[str, Any]) -> bool:
    """False where the caller gave a question or keywords that the trace's hash knows nothing of."""
    return query == trace.query and all(key == "reference" and more[key] == trace.reference for key in more)


def _status(trace: Trace | None) -> Judgement | None:
    """A failed or broken-off answer is no answer to judge: what there is of it is not what was meant to be said."""
    if trace is None or trace.status == "ok":
        return None
    if trace.status == "incomplete":
        return not_applicable("status_incomplete", "the answer was broken off", decision=Decision.INCOMPLETE)
    if trace.response is None and not trace.error:
        # A line that only lacks a response counts as an error too, but no app has reported one.
        return not_applicable("no_response", LACKING["response"])
    return not_applicable("status_error", "the app reported an error instead of an answer")
