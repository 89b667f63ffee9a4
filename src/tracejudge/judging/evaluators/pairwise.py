"""Two answers to one question compared by a model, in both orders, since models favour a place."""

from __future__ import annotations

from typing import Literal, NamedTuple

from tracejudge.judging.division import TooLong
from tracejudge.judging.evaluators.asking import Asked, ModelEvaluator, question_sections, too_long
from tracejudge.judging.evaluators.base import Facts
from tracejudge.judging.replies.judgement import Judgement
from tracejudge.judging.replies.verdict import Choice

Winner = Literal["first", "second", "tie"]


class PairwiseEvaluator(ModelEvaluator):
    """Score 1 when the response is better than the other answer, 0.5 for a tie, 0 when it is worse.

    The other answer is `second_response`, else the reference. Both orders are asked: only where they agree is there a
    winner. Where each order favours the same place it is a tie, flagged `position_bias:first` or `position_bias:second`
    by the place; where one order says tie, it is a tie flagged `order_matters`. Answers are not divided.
    """

    async def judge(self, facts: Facts) -> Judgement:
        other = facts.second_response or facts.reference
        history = self.room.pair(facts)
        if isinstance(history, TooLong):
            return too_long(history)
        question = question_sections(facts.query, history)
        asked: list[Asked] = []
        winners: list[Winner] = []
        for a, b, names in (
            (facts.response, other, {"A": "first", "B": "second", "TIE": "tie"}),
            (other, facts.response, {"A": "second", "B": "first", "TIE": "tie"}),
        ):
            found = await self.ask({"query": question, "answer_a": [("ANSWER A", a)], "answer_b": [("ANSWER B", b)]})
            if isinstance(found, Judgement):
                return found
            if not isinstance(found.reading, Choice):
                raise TypeError("pairwise replies with a choice")
            asked.append(found)
            winners.append(names[found.reading.better])  # type: ignore[arg-type]
        score, flags = _outcome(winners)
        said = "\n".join(
            f"{order}: {one.reading.better}. {one.reading.explanation}"
            for order, one in zip(("response as A", "response as B"), asked, strict=True)
            if isinstance(one.reading, Choice)
        )
        passing = score >= self._spec.passing_threshold
        return self.finished(asked, facts, passing=passing, score=score, feedback=said, flags=flags)


class _Outcome(NamedTuple):
    score: float
    flags: tuple[str, ...]


def _outcome(winners: list[Winner]) -> _Outcome:
    forward, swapped = winners
    flags: tuple[str, ...] = ()
    if forward == swapped:
        score = {"first": 1.0, "tie": 0.5, "second": 0.0}[forward]
    else:
        score = 0.5
        if "tie" in winners:
            flags = ("order_matters",)
        else:
            # "first" in the first order and "second" in the swapped one: place A won both times.
            flags = (f"position_bias:{'first' if forward == 'first' else 'second'}",)
    return _Outcome(score, flags)
