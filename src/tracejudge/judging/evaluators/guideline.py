"""A user's own rules in plain words, kept by the response or not."""

from __future__ import annotations

from tracejudge.judging.evaluators.asking import ModelEvaluator
from tracejudge.judging.model import JudgeModel
from tracejudge.judging.options import GuidelineOptions
from tracejudge.judging.spec import JudgeSpec


class GuidelineEvaluator(ModelEvaluator):
    """Passing when every guideline is kept, else failing with those that are broken.

    Over parts: every part of the response must keep them.
    """

    def __init__(self, model: JudgeModel, spec: JudgeSpec) -> None:
        options = spec.kind_options
        if not isinstance(options, GuidelineOptions):
            raise ValueError(f"kind {spec.kind!r} has no guidelines")
        # Before the window is measured: the rules take their part of it.
        self._rules = "\n".join(f"{number}. {text}" for number, text in enumerate(options.guidelines, start=1))
        super().__init__(model, spec)

    def plain(self) -> dict[str, str]:
        return {"guidelines": self._rules}
