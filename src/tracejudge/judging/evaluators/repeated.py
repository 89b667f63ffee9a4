"""The same question asked several times: the majority decides, and how many agreed is kept."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from llama_index.core.base.response.schema import Response
from llama_index.core.evaluation.base import BaseEvaluator

from tracejudge.judging.evaluators.base import FixedPrompts
from tracejudge.judging.replies.judgement import FEEDBACK_CHARS, RAW_REPLY_CHARS, Judgement
from tracejudge.together import all_of


class RepeatedEvaluator(FixedPrompts, BaseEvaluator):
    """`inner` asked `repeats` times, at once.

    More than half of all must pass, or must fail; else it is the invalid result of the first that has none. The score
    is the mean of the settled ones (for yes or no: the share that passed), so that agreement can be read from it; the
    flag `agreement:2/3` says how many of how many said what won.
    """

    def __init__(self, inner: BaseEvaluator, *, repeats: int) -> None:
        self._inner = inner
        self._repeats = repeats

    async def aevaluate(
        self,
        query: str | None = None,
        response: str | None = None,
        contexts: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> Judgement:
        return await self._majority(
            lambda: self._inner.aevaluate(query=query, response=response, contexts=contexts, **kwargs)
        )

    async def aevaluate_response(
        self, query: str | None = None, response: Response | None = None, **kwargs: Any
    ) -> Judgement:
        return await self._majority(lambda: self._inner.aevaluate_response(query=query, response=response, **kwargs))

    async def _majority(self, evaluate: Callable[[], Awaitable[Any]]) -> Judgement:
        results = await all_of([evaluate() for _ in range(self._repeats)])
        return majority([result for result in results if isinstance(result, Judgement)], repeats=self._repeats)


def majority(results: Sequence[Judgement], *, repeats: int) -> Judgement:
    """The verdict of `repeats` results on one trace together."""
    settled = [result for result in results if result.passing is not None and result.score is not None]
    passed = [result for result in settled if result.passing]
    failed = [result for result in settled if not result.passing]
    winners = max(passed, failed, key=len)
    if 2 * len(winners) <= repeats:
        # A need that is lacking, a budget or a gone judge is the same for all; an invalid one says why at least.
        others = [result for result in results if result.passing is None]
        decided = [result for result in others if result.decision is not None]
        return (decided or others or list(results))[0]
    first = winners[0]
    flags = dict.fromkeys(flag for result in settled for flag in result.flags)
    raw = "\n===\n".join(result.raw_reply for result in results)
    return first.model_copy(
        update={
            "score": sum(result.score for result in settled if result.score is not None) / len(settled),
            "flags": (*flags, f"agreement:{len(winners)}/{repeats}"),
            "raw_reply": raw[:RAW_REPLY_CHARS],
            "feedback": (first.feedback or "")[:FEEDBACK_CHARS],
        }
    )
