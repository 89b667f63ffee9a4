"""Correctness by a model, measured by a reference answer."""

from __future__ import annotations

from tracejudge.judging.evaluators.asking import ModelEvaluator, sections_of
from tracejudge.judging.evaluators.base import Facts
from tracejudge.judging.replies.judgement import Judgement
from tracejudge.judging.replies.verdict import Number

WORST, BEST = 1.0, 5.0


class CorrectnessEvaluator(ModelEvaluator):
    """Score 0 to 1 from the model's 1 to 5; passing from the threshold on (0.75, which is 4).

    An answer is not divided: a part of it cannot be measured by the whole reference.
    """

    async def judge(self, facts: Facts) -> Judgement:
        plan = self.plan(facts)
        if isinstance(plan, Judgement):
            return plan
        asked = await self.ask(sections_of(facts, plan, facts.response, ()))
        if isinstance(asked, Judgement):
            return asked
        if not isinstance(asked.reading, Number):
            raise TypeError("correctness replies with a number")
        score = (asked.reading.value - WORST) / (BEST - WORST)
        passing = score >= self._spec.passing_threshold
        return self.finished([asked], facts, passing=passing, score=score, feedback=asked.reading.explanation)
