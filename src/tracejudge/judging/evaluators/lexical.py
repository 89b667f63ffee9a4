"""Faithfulness by words alone: how much of each sentence stands in the passages. A heuristic, and says so.

Score = P(supported), a logistic regression on the six features of `signals.lexical.Match`, fitted on seven sets of
human labels by tests/bench/fit_lexical.py. On an app it never saw, expect an AUC of about 0.76 and a balanced accuracy
of about 0.67. It sees answers that are not from the passages; it is blind to wrong relations, negations and changed
attributes made of the passages' own words. Languages without spaces between words, and a response in another script
than its passages, are not applicable.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import Final

from tracejudge.judging.evaluators.base import Facts, FactsEvaluator
from tracejudge.judging.replies.judgement import FEEDBACK_CHARS, Judgement, not_applicable
from tracejudge.signals.lexical import Match, can_split, main_script, match

# Weights of: mean and minimum word share, mean and minimum pair share, unmatched numbers, unmatched names. Shares were
# held to raise the score and counts to lower it; the minima then say nothing that the means do not, and get zero.
WEIGHTS: Final = (3.971, 0.0, 0.894, 0.0, -0.061, -0.222)
INTERCEPT: Final = -2.480

_LONG_CHARS: Final = 200_000
"""From here on (some 10 ms of work) judging moves to a thread, so that calls in flight do not wait for it."""


class LexicalEvaluator(FactsEvaluator):
    """Passing when the score is at least `threshold`; no model, no cost, about a third of a millisecond."""

    needs = ("response", "context")

    def __init__(self, *, threshold: float = 0.5) -> None:
        self._threshold = threshold

    async def judge(self, facts: Facts) -> Judgement:
        if len(facts.response) + sum(map(len, facts.passages)) > _LONG_CHARS:
            return await asyncio.to_thread(self._judge, facts.response, facts.passages)
        return self._judge(facts.response, facts.passages)

    def _judge(self, response: str, passages: Sequence[str]) -> Judgement:
        if not can_split(response) or not all(map(can_split, passages)):
            return not_applicable("language", "a script without spaces between words")
        scripts = {main_script(response), main_script(" ".join(passages))} - {""}
        if len(scripts) > 1:
            return not_applicable("language", "response and passages are in different scripts")
        found = match(response, passages)
        if found is None:
            return not_applicable("nothing_to_check", "the response has no content word")
        score = probability(found)
        passing = score >= self._threshold
        said = f"{in_words(score, threshold=self._threshold)} {explain(found)}"[:FEEDBACK_CHARS]
        return Judgement(passing=passing, score=score, feedback=said, flags=("heuristic",))


def probability(found: Match) -> float:
    """P(supported) = 1 / (1 + exp(-(intercept + weights . features)))."""
    logit = INTERCEPT + sum(weight * value for weight, value in zip(WEIGHTS, found.features, strict=True))
    return 1.0 / (1.0 + math.exp(-logit)) if logit > -700.0 else 0.0


def in_words(score: float, *, threshold: float) -> str:
    """Why it passes or not: two answers of which the same is to be said may lie on both sides of the threshold."""
    passing = score >= threshold
    shown = f"{score:.2f}"
    if (float(shown) >= threshold) is not passing:  # rounded, it would lie on the other side
        shown = f"{score:.6g}"
    return f"Score {shown}, {'at least' if passing else 'below'} the threshold {threshold:g}."


def explain(found: Match) -> str:
    """The least supported sentence and what no passage holds, in plain words."""
    least = min(found.sentences, key=lambda sentence: (sentence.word_share, sentence.pair_share))
    if least.word_share == 1.0:
        parts = ["Every content word occurs in the passages."]
    else:
        missing = ", ".join(dict.fromkeys(least.unmatched_words))
        parts = [f'Least supported: "{least.text}" ({least.word_share:.0%} of its words; in no passage: {missing}).']
    if found.unmatched_numbers:
        parts.append(f"Numbers in no passage: {', '.join(found.unmatched_numbers)}.")
    if found.unmatched_names:
        parts.append(f"Names in no passage: {', '.join(found.unmatched_names)}.")
    return " ".join(parts)[:FEEDBACK_CHARS]
