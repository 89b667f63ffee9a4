"""Checks without a model: time, refusals, length, regular expressions. Each says why."""

from __future__ import annotations

import re
from typing import Final, Literal

from tracejudge.judging.evaluators.base import Facts, FactsEvaluator
from tracejudge.judging.replies.judgement import Judgement, invalid
from tracejudge.scores import InvalidReason
from tracejudge.signals.refusal import is_refusal

REGEX_CHARS: Final = 20_000
"""As much of a response as a pattern sees: a bound on the time that a hostile text can take, which for many a pattern
grows with its square."""


class LatencyEvaluator(FactsEvaluator):
    """Passing when the answer took at most `max_ms` milliseconds, as the app reported it."""

    needs = ("latency_ms",)

    def __init__(self, *, max_ms: float) -> None:
        self._max_ms = max_ms

    async def judge(self, facts: Facts) -> Judgement:
        took = facts.latency_ms if facts.latency_ms is not None else 0.0
        return _checked(took <= self._max_ms, f"{took:,.0f} ms, at most {self._max_ms:,.0f} ms allowed")


class RefusalEvaluator(FactsEvaluator):
    """Passing when the response does not begin by declining to answer: a heuristic, by phrases of ten languages."""

    needs = ("response",)

    async def judge(self, facts: Facts) -> Judgement:
        refuses = is_refusal(facts.response)
        result = _checked(not refuses, "declines to answer" if refuses else "no phrase of a refusal at its start")
        return result.but(flags=("heuristic",))


class LengthEvaluator(FactsEvaluator):
    """Passing when the response has from `min` to `max` characters or words, both passing."""

    needs = ("response",)

    def __init__(
        self,
        *,
        min: int | None = None,  # noqa: A002 - the names of the settings
        max: int | None = None,  # noqa: A002
        unit: Literal["characters", "words"] = "characters",
    ) -> None:
        self._min = min
        self._max = max
        self._unit = unit

    async def judge(self, facts: Facts) -> Judgement:
        size = len(facts.response) if self._unit == "characters" else len(facts.response.split())
        short, long = self._min is not None and size < self._min, self._max is not None and size > self._max
        bounds = [f"at least {self._min}"] if self._min is not None else []
        bounds += [f"at most {self._max}"] if self._max is not None else []
        return _checked(not short and not long, f"{size} {self._unit}; {' and '.join(bounds)} wanted")


class RegexEvaluator(FactsEvaluator):
    """Passing when the response holds (or, with `must_not_match`, does not hold) a match of `pattern`; invalid where a
    longer response than is searched holds none in what is."""

    needs = ("response",)

    def __init__(self, *, pattern: str, must_not_match: bool = False, ignore_case: bool = False) -> None:
        self._pattern = re.compile(pattern, re.IGNORECASE if ignore_case else 0)
        self._must_not_match = must_not_match

    async def judge(self, facts: Facts) -> Judgement:
        found = self._pattern.search(facts.response[:REGEX_CHARS])
        if found is None and len(facts.response) > REGEX_CHARS:
            return invalid(
                InvalidReason.BAD_REQUEST,
                f"no match in the first {REGEX_CHARS} of {len(facts.response)} characters, and no more are searched",
            )
        told = f"no match of {self._pattern.pattern!r}" if found is None else f"holds {found[0][:200]!r}"
        return _checked((found is None) is self._must_not_match, told)


def _checked(passing: bool, feedback: str) -> Judgement:
    return Judgement(passing=passing, score=float(passing), feedback=feedback)
