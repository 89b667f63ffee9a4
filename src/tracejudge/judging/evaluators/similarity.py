"""How near the response stands to the reference in an embedding model's space."""

from __future__ import annotations

import math
from collections.abc import Sequence

from llama_index.core.base.embeddings.base import BaseEmbedding

from tracejudge.judging.evaluators.base import Facts, FactsEvaluator
from tracejudge.judging.replies.judgement import Judgement, invalid
from tracejudge.scores import InvalidReason


class SemanticSimilarityEvaluator(FactsEvaluator):
    """Score max(0, cosine) of the two embeddings; passing from `threshold` on.

    Nearness of subject is not agreement: "it is allowed" and "it is not allowed" stand near each other.
    """

    needs = ("response", "reference")

    def __init__(self, *, embed_model: BaseEmbedding, threshold: float = 0.8) -> None:
        self._embed_model = embed_model
        self._threshold = threshold

    async def judge(self, facts: Facts) -> Judgement:
        reference = facts.reference or facts.second_response
        of_response, of_reference = await self._embed_model.aget_text_embedding_batch([facts.response, reference])
        similarity = cosine(of_response, of_reference)
        if similarity is None:
            return invalid(
                InvalidReason.OUT_OF_RANGE, "the embeddings have no cosine: lengths that differ, NaN or zero"
            )
        score = max(0.0, min(1.0, similarity))
        return Judgement(passing=score >= self._threshold, score=score, feedback=f"cosine {similarity:.3f}")


def cosine(a: Sequence[float], b: Sequence[float]) -> float | None:
    """a . b / (|a| |b|), None where that is no number."""
    if len(a) != len(b):
        return None
    norms = math.sqrt(sum(x * x for x in a)) * math.sqrt(sum(x * x for x in b))
    if not math.isfinite(norms) or norms == 0.0:
        return None
    value = sum(x * y for x, y in zip(a, b, strict=True)) / norms
    return value if math.isfinite(value) else None
