"""Whether the passages that were expected came back, and how early: by their ids, without a model."""

from __future__ import annotations

from collections.abc import Sequence

from tracejudge.judging.evaluators.base import Facts, FactsEvaluator
from tracejudge.judging.replies.judgement import Judgement


class HitRateEvaluator(FactsEvaluator):
    """Passing, score 1, when one of the expected ids is among the first `k` source nodes (all, when None), else 0."""

    needs = ("expected_ids",)

    def __init__(self, *, k: int | None = None) -> None:
        self._k = k

    async def judge(self, facts: Facts) -> Judgement:
        rank = first_rank(facts.node_ids[: self._k], facts.expected_ids or ())
        return Judgement(passing=rank is not None, score=float(rank is not None), feedback=_told(rank, facts, self._k))


class MRREvaluator(FactsEvaluator):
    """Score 1 / rank of the first expected id among the first `k` source nodes, 0 when none is there."""

    needs = ("expected_ids",)

    def __init__(self, *, k: int | None = None, threshold: float = 0.5) -> None:
        self._k = k
        self._threshold = threshold

    async def judge(self, facts: Facts) -> Judgement:
        rank = first_rank(facts.node_ids[: self._k], facts.expected_ids or ())
        score = 0.0 if rank is None else 1.0 / rank
        return Judgement(passing=score >= self._threshold, score=score, feedback=_told(rank, facts, self._k))


def first_rank(found: Sequence[str], expected: Sequence[str]) -> int | None:
    """The place, from 1, of the first id that was expected; None when there is none."""
    wanted = set(expected) - {""}
    return next((rank for rank, node_id in enumerate(found, start=1) if node_id in wanted), None)


def _told(rank: int | None, facts: Facts, k: int | None) -> str:
    looked = len(facts.node_ids[:k])
    if rank is None:
        return f"none of {len(facts.expected_ids or ())} expected passages among {looked} source nodes"
    return f"the first expected passage stands at {rank} of {looked}"
