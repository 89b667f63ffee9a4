"""Which of two pipelines a pairwise judge prefers, question by question; and how much of it was the place.

A question is won where both orders name the same answer. The share of won questions that B won has Wilson's interval;
p is the exact sign test of B's wins against A's (ties say nothing either way; Dixon & Mood 1946). Where the same place
wins in both orders the judge went by the place: such questions are ties, and their number is the judge's bias.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from tracejudge.comparing.paired import Estimate, share
from tracejudge.scores import JudgeId, Score

_FIRST: Final = "position_bias:first"
_SECOND: Final = "position_bias:second"
_ORDER: Final = "order_matters"


@dataclass(frozen=True, slots=True, kw_only=True)
class PreferenceCounts:
    """Questions, by what came of them. `tie`: both orders said so; `one_order`: one did and the other named a winner;
    `first_place`, `second_place`: the same place won in both orders."""

    a_better: int = 0
    b_better: int = 0
    tie: int = 0
    one_order: int = 0
    first_place: int = 0
    second_place: int = 0

    @property
    def ties(self) -> int:
        """Number of comparisons without a winner."""
        return self.tie + self.one_order + self.first_place + self.second_place

    @property
    def won(self) -> int:
        return self.a_better + self.b_better

    @property
    def n(self) -> int:
        return self.won + self.ties

    def adding(self, score: Score) -> PreferenceCounts:
        """The counts with one more settled verdict on B's answer against A's."""
        number = 0.5 if score.score is None else score.score
        if number != 0.5:
            name = "b_better" if number > 0.5 else "a_better"
        elif _FIRST in score.flags:
            name = "first_place"
        elif _SECOND in score.flags:
            name = "second_place"
        else:
            name = "one_order" if _ORDER in score.flags else "tie"
        values = {field: getattr(self, field) for field in PreferenceCounts.__slots__}
        return PreferenceCounts(**{**values, name: values[name] + 1})


@dataclass(frozen=True, slots=True, kw_only=True)
class Preferred:
    """Preference measures of a table of counts. `b_share`: of the won questions; `by_place`: share of all that went by
    the place; `place_p`: how surprising the split of those between the two places would be if neither were favoured."""

    counts: PreferenceCounts
    b_share: Estimate | None
    sign_p: float | None
    by_place: Estimate | None
    place_p: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Preference:
    """A and B on the questions that both answered, by one pairwise judge."""

    judge_ids: tuple[JudgeId, ...]
    pairs: int
    invalid: int
    calls: int
    cost_usd: float | None
    all: Preferred
    slices: Mapping[str, Preferred]


def preference(scores: Iterable[Score], *, by: str | None = None) -> Preference:
    """The preference that the verdicts of a pairwise judge on B's answers show. `by` names a field to slice by."""
    counts, slices = PreferenceCounts(), dict[str, PreferenceCounts]()
    ids: set[JudgeId] = set()
    pairs = invalid = calls = 0
    cost: float | None = 0.0
    for score in scores:
        pairs += 1
        ids.add(score.judge_id)
        calls += score.usage.calls
        cost = None if cost is None or score.usage.cost_usd is None else cost + score.usage.cost_usd
        if not score.outcome.settled:
            invalid += 1
            continue
        counts = counts.adding(score)
        if by is not None:
            name = str(getattr(score, by))
            slices[name] = slices.get(name, PreferenceCounts()).adding(score)
    return Preference(
        judge_ids=tuple(sorted(ids)),
        pairs=pairs,
        invalid=invalid,
        calls=calls,
        cost_usd=cost,
        all=preferred(counts),
        slices={name: preferred(table) for name, table in sorted(slices.items())},
    )


def preferred(counts: PreferenceCounts) -> Preferred:
    """The preference measures of a table of counts."""
    placed = counts.first_place + counts.second_place
    return Preferred(
        counts=counts,
        b_share=share(counts.b_better, counts.won),
        sign_p=_even(counts.b_better, counts.won),
        by_place=share(placed, counts.n),
        place_p=_even(counts.first_place, placed),
    )


def preference_in_words(found: Preference, *, a: str = "A", b: str = "B") -> list[str]:
    """The conclusions that the intervals allow, a sentence each."""
    one, counts = found.all, found.all.counts
    if one.b_share is None:
        return [f"No comparison is possible: none of the {counts.n} questions was won by either."]
    low, high = one.b_share.low, one.b_share.high
    of = f"of the {counts.won} questions that were won"
    if low > 0.5 or high < 0.5:
        winner, loser = (b, a) if low > 0.5 else (a, b)
        value = one.b_share.value if winner == b else 1.0 - one.b_share.value
        near, far = (low, high) if winner == b else (1.0 - high, 1.0 - low)
        words = f"{winner}'s answers are preferred to {loser}'s: they win {100 * value:.0f} %"
        said = [f"{words} ({100 * near:.0f} to {100 * far:.0f}) {of}; {counts.ties} are ties."]
    else:
        said = [
            f"These questions do not show whose answers are preferred: {b} wins {100 * one.b_share.value:.0f} % "
            f"({100 * low:.0f} to {100 * high:.0f}) {of}; {counts.ties} are ties."
        ]
    if one.place_p is not None and one.place_p < 0.05:
        place = "first" if counts.first_place > counts.second_place else "second"
        placed, times = counts.first_place + counts.second_place, getattr(counts, f"{place}_place")
        said.append(
            f"The judge favours the answer it reads {place}: on {placed} questions the same place won in both orders, "
            f"{times} times the {place}. They count as ties."
        )
    return said


def _even(part: int, whole: int) -> float | None:
    if whole == 0:
        return None
    from scipy.stats import binomtest  # here: it takes a second to import, and most commands never ask

    return float(binomtest(part, whole, 0.5).pvalue)
