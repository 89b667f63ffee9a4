"""A user's own rules in plain words, kept by the response or not."""

from __future__ import annotations

from tracejudge.judging.evaluators.asking import ModelEvaluator


class GuidelineEvaluator(ModelEvaluator):
    """Passing when every guideline is kept, else failing with those that are broken.

    Over parts: every part of the response must keep them.
    """
