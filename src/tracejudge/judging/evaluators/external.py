"""Third-party evaluators, LlamaIndex's own among them: run inside the guard, their results read strictly."""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from llama_index.core.base.response.schema import Response
from llama_index.core.evaluation.base import BaseEvaluator, EvaluationResult

from tracejudge.judging.calls.deadlines import within
from tracejudge.judging.calls.failures import CallTimeout
from tracejudge.judging.calls.guard import Failure, Guard
from tracejudge.judging.calls.meter import Meter
from tracejudge.judging.evaluators.base import FixedPrompts
from tracejudge.judging.evaluators.stock_reply import read_stock, reads
from tracejudge.judging.llama import last_reply
from tracejudge.judging.replies.judgement import FEEDBACK_CHARS, RAW_REPLY_CHARS, Judgement, failed_call, invalid
from tracejudge.judging.replies.verdict import Unreadable, Verdict
from tracejudge.judging.responses import TraceResponse
from tracejudge.judging.specs.spec import JudgeSpec
from tracejudge.scores import InvalidReason
from tracejudge_sdk.json_values import scrub_text


class ExternalEvaluator(FixedPrompts, BaseEvaluator):
    """One evaluation of `inner` is one attempt: it holds a slot, and `timeout_s` bounds it as a whole.

    Its calls are metered one by one where it uses the model we hand it; else each attempt counts as one call of
    unknown cost, unless the spec says that it calls no model and sets no cap.
    """

    def __init__(
        self, inner: BaseEvaluator, *, spec: JudgeSpec, guard: Guard, meter: Meter, counts_attempts: bool
    ) -> None:
        self._inner = inner
        self._spec = spec
        self._guard = guard
        self._meter = meter
        self._counts_attempts = counts_attempts
        self._takes = _keywords(type(inner))
        self._stock = type(inner).__name__ if spec.stock and reads(type(inner).__name__) else ""

    async def aevaluate(
        self,
        query: str | None = None,
        response: str | None = None,
        contexts: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> Judgement:
        more = self._wanted(kwargs)
        return self._read(
            await self._attempts(
                lambda: self._inner.aevaluate(query=query, response=response, contexts=contexts, **more)
            )
        )

    async def aevaluate_response(
        self, query: str | None = None, response: Response | None = None, **kwargs: Any
    ) -> Judgement:
        more = self._wanted(kwargs)

        def evaluate() -> Any:
            given = response.another() if isinstance(response, TraceResponse) else response
            return self._inner.aevaluate_response(query=query, response=given, **more)

        return self._read(await self._attempts(evaluate))

    def _wanted(self, given: dict[str, Any]) -> dict[str, Any]:
        return given if self._takes is None else {key: value for key, value in given.items() if key in self._takes}

    async def _attempts(self, evaluate: Any) -> Any:
        # What the model replied, for stock evaluators, which keep it only at times and raise on what they cannot parse.
        replies: list[str] = []
        token = last_reply.set(replies)
        try:
            result = await self._guard.run(self._attempt(evaluate, replies))
        finally:
            last_reply.reset(token)
        return (
            self._stock_result(replies[-1]) if self._stock and replies and not isinstance(result, Failure) else result
        )

    def _attempt(self, evaluate: Any, replies: list[str]) -> Any:
        async def attempt() -> Any:
            replies.clear()
            try:
                return await once()
            except ValueError as error:
                # pydantic's errors are ValueErrors too: its own parser could not read the reply, and ours may.
                if not (self._stock and replies):
                    raise
                return EvaluationResult(invalid_result=True, invalid_reason=str(error)[:200])

        async def once() -> Any:
            if self._counts_attempts:
                return await self._meter.call(evaluate, input_tokens=0, counted=None)
            while True:
                await self._meter.wait_until_ready()
                try:
                    return await within(evaluate(), self._spec.timeout_s)
                except CallTimeout:
                    # Where an hour turned meanwhile, it was the store that was waited for and not the judge.
                    if self._meter.ready:
                        raise

        return attempt

    def _stock_result(self, reply: str) -> Judgement:
        reading = read_stock(self._stock, reply)
        if isinstance(reading, Unreadable):
            return invalid(reading.reason, reading.detail, raw_reply=reply)
        if isinstance(reading, Verdict):
            passing, score = reading.yes, float(reading.yes)
        else:
            low, high = self._spec.score_scale
            score = (reading.value - low) / (high - low)
            passing = score >= self._spec.passing_threshold
        feedback = reading.explanation or reply
        return Judgement(
            passing=passing, score=score, feedback=feedback[:FEEDBACK_CHARS], raw_reply=reply[:RAW_REPLY_CHARS]
        )

    def _read(self, result: Any) -> Judgement:
        if isinstance(result, Failure):
            return failed_call(result)
        if isinstance(result, Judgement):
            return result
        if not isinstance(result, EvaluationResult):
            return invalid(InvalidReason.JUDGE_ERROR, f"returned a {type(result).__name__}, not an EvaluationResult")
        raw = _text(result.feedback)
        if result.invalid_result:
            reason = _text(result.invalid_reason) or "invalid_result is set"
            return invalid(InvalidReason.JUDGE_ERROR, reason, raw_reply=raw)
        passing, score = result.passing, result.score
        # Both may be anything where a class leaves pydantic's checks out; numpy's own scalars say what they are.
        if passing is not None and not isinstance(passing, (bool, np.bool_)):
            told = f"passing is {_shown(passing)}: it must be True, False or None"
            return invalid(InvalidReason.UNPARSABLE, told, raw_reply=raw)
        if score is not None and not isinstance(score, (int, float, np.integer, np.floating)):
            told = f"score is {_shown(score)}: it must be a number or None"
            return invalid(InvalidReason.UNPARSABLE, told, raw_reply=raw)
        if score is None:
            if passing is None:
                return invalid(InvalidReason.UNPARSABLE, "neither a score nor a verdict came back", raw_reply=raw)
            score = float(passing)
        else:
            low, high = self._spec.score_scale
            if not math.isfinite(score) or not low <= score <= high:
                return invalid(
                    InvalidReason.OUT_OF_RANGE,
                    f"score {score} is not in [{low:g}, {high:g}]: set scale to the class's worst and best score",
                    raw_reply=raw,
                )
            score = (float(score) - low) / (high - low)
        if passing is None or self._spec.threshold is not None:
            passing = score >= self._spec.passing_threshold
        return Judgement(
            passing=bool(passing), score=score, feedback=raw[:FEEDBACK_CHARS], raw_reply=raw[:RAW_REPLY_CHARS]
        )


def _keywords(evaluator: type[BaseEvaluator]) -> frozenset[str] | None:
    """The keywords that it takes, None for any: one without `**kwargs` would be invalid on every trace that happens to
    have a reference, and on no other."""
    own_response = evaluator.aevaluate_response is not BaseEvaluator.aevaluate_response
    method = evaluator.aevaluate_response if own_response else evaluator.aevaluate
    taken = inspect.signature(method).parameters
    return None if any(one.kind is one.VAR_KEYWORD for one in taken.values()) else frozenset(taken)


def _text(value: Any) -> str:
    """What a class says beside its verdict; no verdict is lost over it."""
    if value is None:
        return ""
    return scrub_text(value if isinstance(value, str) else _shown(value))


def _shown(value: Any) -> str:
    return f"{scrub_text(repr(value))[:200]} ({type(value).__name__})"
