"""Relevancy by a model: of the response to the question, of the passages to it, and of both together."""

from __future__ import annotations

from tracejudge.judging.evaluators.asking import ModelEvaluator


class RelevancyEvaluator(ModelEvaluator):
    """Passing when the response answers the question, in line with the passages.

    Over parts: some part of the passages must bear each part of the response.
    """


class ContextRelevancyEvaluator(ModelEvaluator):
    """Passing when the passages hold at least a part of the answer; the response is not looked at.

    Over parts: one part of the passages that does is enough.
    """


class AnswerRelevancyEvaluator(ModelEvaluator):
    """Passing when the response addresses the question, true or not; the passages are not looked at.

    Over parts: one part of the response that does is enough.
    """
