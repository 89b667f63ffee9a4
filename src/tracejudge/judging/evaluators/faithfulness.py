"""Faithfulness by a model: is every statement of the response supported by the passages?"""

from __future__ import annotations

from tracejudge.judging.evaluators.asking import ModelEvaluator


class FaithfulnessEvaluator(ModelEvaluator):
    """Score 1 and passing when the model finds every statement supported, else 0 with the unsupported statements.

    Over parts: every part of the response must be supported, each statement by some part of the passages; a statement
    that only two parts together support counts as unsupported.
    """
