"""Two judges of known sensitivity and specificity: the comparison recovers what was planted, and claims no more."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from tracejudge.comparing.labelled import settled_labels
from tracejudge.reports import compare, in_words
from tracejudge.scores import Label, Outcome, Score, TraceKey, Usage
from tracejudge.store import Pair
from tracejudge.testing.builders import START, make_score

GOOD_SHARE, TRUTH_A, TRUTH_B = 0.8, (0.95, 0.60), (0.90, 0.85)


def verdict(rng: random.Random, *, good: bool, truth: tuple[float, float]) -> bool:
    sensitivity, specificity = truth
    return rng.random() < (sensitivity if good else 1 - specificity)


def judged(n: int, *, seed: int) -> tuple[list[Pair], dict[TraceKey, bool]]:
    rng = random.Random(seed)
    pairs, labels = [], {}
    for number in range(n):
        good = rng.random() < GOOD_SHARE
        a = make_score(number, passed=verdict(rng, good=good, truth=TRUTH_A), category="even" if number % 2 else "odd")
        b = make_score(number, passed=verdict(rng, good=good, truth=TRUTH_B))
        pairs.append(Pair(key=a.key, a=a, b=b))
        labels[a.key] = good
    return pairs, labels


def test_planted_sensitivity_and_specificity_lie_in_the_intervals_as_often_as_promised() -> None:
    draws, covered = 200, dict.fromkeys(("a.sensitivity", "a.specificity", "b.sensitivity", "b.specificity"), 0)
    for seed in range(draws):
        pairs, labels = judged(300, seed=seed)
        seen = compare(pairs, labels_a=labels, labels_b=labels)
        for name, side, truth in (("a", seen.a, TRUTH_A), ("b", seen.b, TRUTH_B)):
            assert side.labelled is not None
            assert side.labelled.sensitivity is not None
            assert side.labelled.specificity is not None
            covered[f"{name}.sensitivity"] += (
                side.labelled.sensitivity.low <= truth[0] <= side.labelled.sensitivity.high
            )
            covered[f"{name}.specificity"] += (
                side.labelled.specificity.low <= truth[1] <= side.labelled.specificity.high
            )
    # 95 % promised; of 200 draws fewer than 181 would be seen once in 300 tries.
    assert min(covered.values()) >= 181, covered


def test_the_words_claim_a_difference_only_where_the_interval_shows_one() -> None:
    pairs, labels = judged(1500, seed=1)
    seen = compare(pairs, labels_a=labels, labels_b=labels, by="category")
    words = in_words(seen)
    assert words[0].startswith("B passes fewer of these answers than A, by ")
    assert [agreement.counts.n for agreement in seen.slices.values()] == [750, 750]
    assert any("A and B are the same judge" in sentence for sentence in words), "both sides are by make_score's judge"
    few, _ = judged(12, seed=2)
    assert "do not show" in in_words(compare(few))[0]
    assert in_words(compare([])) == ["No comparison is possible: no trace was settled by both."]


def test_which_of_two_agrees_with_people_is_said_only_when_it_can_be_told() -> None:
    labels = {make_score(number).key: number % 2 == 0 for number in range(200)}

    def pairs(*, a_right: int, b_right: int) -> Iterator[Pair]:
        for number in range(200):
            good = number % 2 == 0
            a = make_score(number, passed=good if number < a_right else not good)
            b = make_score(number, passed=good if number < b_right else not good)
            yield Pair(key=a.key, a=a, b=b)

    assert in_words(compare(pairs(a_right=120, b_right=190), labels_a=labels, labels_b=labels))[1].startswith(
        "B agrees"
    )
    assert "do not show" in in_words(compare(pairs(a_right=190, b_right=188), labels_a=labels, labels_b=labels))[1]


def test_what_could_not_be_judged_is_counted_and_in_no_rate() -> None:
    def invalid(number: int) -> Score:
        return make_score(number, outcome=Outcome.INVALID, score=None, reason="judge_timeout")

    pairs = [
        Pair(key=make_score(0).key, a=make_score(0), b=make_score(0)),
        Pair(key=make_score(1).key, a=make_score(1), b=invalid(1)),
        Pair(key=make_score(2).key, a=invalid(2), b=invalid(2)),
    ]
    seen = compare(pairs)
    assert (seen.pairs, seen.agreement.counts.n, seen.a.invalid, seen.b.invalid) == (3, 1, 1, 2)
    assert seen.a.rate is not None
    assert seen.a.rate.judged == 1


def test_cost_is_unknown_as_soon_as_one_price_is() -> None:
    priced = make_score(0, usage=Usage(calls=1, cost_usd=0.25, latency_ms=100.0))
    unpriced = make_score(1, usage=Usage(calls=1, cost_usd=None, latency_ms=300.0))
    free = make_score(1)
    seen = compare([Pair(key=priced.key, a=priced, b=priced), Pair(key=free.key, a=unpriced, b=free)])
    assert (seen.a.cost_usd, seen.a.calls, seen.a.latency_ms) == (None, 2, 200.0)
    assert (seen.b.cost_usd, seen.b.calls, seen.b.latency_ms) == (0.25, 1, 100.0)


@pytest.mark.parametrize(
    ("values", "expected"), [([1.0], True), ([0.0, 1.0, 0.0], False), ([1.0, 0.0], None), ([], None)]
)
def test_labels_of_several_people_go_by_majority_and_an_even_split_says_nothing(
    values: list[float], expected: bool | None
) -> None:
    labels = [
        Label(
            environment="production",
            app="shop",
            trace_id="t",
            criterion="faithfulness",
            value=value,
            source=f"person {number}",
            labelled_at=START,
        )
        for number, value in enumerate(values)
    ]
    assert settled_labels(labels).get(TraceKey("production", "shop", "t")) is expected


def test_copies_of_an_answer_are_one_observation() -> None:
    def copies(passed: bool) -> list[Score]:
        return [make_score(number, passed=passed, content_hash="f" * 32, category="faq") for number in range(40)]

    pairs = [Pair(key=a.key, a=a, b=b) for a, b in zip(copies(True), copies(False), strict=True)]
    pairs += [
        Pair(key=score.key, a=score, b=score)
        for score in (make_score(100 + number, content_hash=f"{number:032x}") for number in range(20))
    ]
    labels = {pair.key: True for pair in pairs}
    seen = compare(pairs, labels_a=labels, labels_b=labels, by="category")
    assert (seen.pairs, seen.settled, seen.agreement.counts.n) == (60, 60, 21)
    assert seen.agreement.mcnemar_p == 1.0, "one flip says nothing, however often the answer was served"
    assert seen.slices["faq"].counts.n == 1
    assert seen.a.labelled is not None
    assert seen.a.labelled.counts.n == 21
    assert seen.correct is not None
    assert seen.correct.counts.n == 21
    assert "do not show" in in_words(seen)[0]
    assert len(seen.flips) == 1


def test_a_copy_that_could_not_be_judged_takes_no_place() -> None:
    invalid = make_score(0, outcome=Outcome.INVALID, score=None, reason="judge_timeout", content_hash="f" * 32)
    settled = make_score(1, content_hash="f" * 32)
    seen = compare([Pair(key=invalid.key, a=invalid, b=invalid), Pair(key=settled.key, a=settled, b=settled)])
    assert (seen.pairs, seen.settled, seen.agreement.counts.n) == (2, 1, 1)


@pytest.mark.parametrize(("pairs", "flips", "told"), [(3, 3, False), (100, 5, False), (100, 6, True)])
def test_words_and_p_agree_where_few_verdicts_flipped(pairs: int, flips: int, told: bool) -> None:
    scores = [(make_score(number), make_score(number, passed=number >= flips)) for number in range(pairs)]
    labels = {a.key: True for a, _ in scores}
    seen = compare([Pair(key=a.key, a=a, b=b) for a, b in scores], labels_a=labels, labels_b=labels)
    assert seen.agreement.difference is not None
    assert seen.agreement.difference.high < 0, "by the interval alone one would claim it"
    assert seen.agreement.mcnemar_p is not None
    assert (seen.agreement.mcnemar_p < 0.05) is told
    words = in_words(seen)
    assert words[0].startswith("B passes fewer") is told
    assert (f"{flips} flips may be chance" in words[0]) is not told
    assert words[1].startswith("A agrees with human labels more often") is told
