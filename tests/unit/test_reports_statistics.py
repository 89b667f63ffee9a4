"""Comparisons of judges and releases agree with the reference libraries; their intervals cover what they promise."""

from __future__ import annotations

import random

import pytest
from scipy.stats import binomtest
from sklearn.metrics import balanced_accuracy_score, cohen_kappa_score, recall_score
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.inter_rater import cohens_kappa as reference_kappa
from statsmodels.stats.proportion import confint_proportions_2indep, proportion_confint

from tracejudge.comparing.accuracy import LabelCounts, accuracy
from tracejudge.comparing.paired import PairedCounts, cohens_kappa, mcnemar_p, paired_difference, share
from tracejudge.comparing.unpaired import Verdict, difference, judge_release
from tracejudge.scores import Bucket
from tracejudge.windows import PassRate, pass_rate

TABLES = [(40, 5, 7, 30), (412, 31, 9, 88), (3, 1, 0, 2), (900, 0, 41, 59), (10, 20, 30, 40)]


def counts_of(table: tuple[int, int, int, int]) -> PairedCounts:
    both, only_a, only_b, neither = table
    return PairedCounts(both_passed=both, only_a_passed=only_a, only_b_passed=only_b, both_failed=neither)


def verdicts_of(table: tuple[int, int, int, int]) -> tuple[list[int], list[int]]:
    both, only_a, only_b, neither = table
    a = [1] * (both + only_a) + [0] * (only_b + neither)
    b = [1] * both + [0] * only_a + [1] * only_b + [0] * neither
    return a, b


def rate_of(passed: int, judged: int) -> PassRate:
    bucket = Bucket(n=judged, passed=passed, sum_w=judged, sum_w2=judged, sum_wx=float(passed), sum_w2x=float(passed))
    result = pass_rate({"": bucket})
    assert result is not None
    return result


@pytest.mark.parametrize("table", TABLES)
def test_mcnemar_is_that_of_statsmodels(table: tuple[int, int, int, int]) -> None:
    both, only_a, only_b, neither = table
    expected = mcnemar([[both, only_a], [only_b, neither]], exact=True).pvalue
    assert mcnemar_p(counts_of(table)) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("table", TABLES)
def test_kappa_and_its_interval_are_those_of_the_libraries(table: tuple[int, int, int, int]) -> None:
    kappa = cohens_kappa(counts_of(table))
    assert kappa is not None
    assert kappa.value == pytest.approx(cohen_kappa_score(*verdicts_of(table)), rel=1e-9, abs=1e-12)
    both, only_a, only_b, neither = table
    expected = reference_kappa([[both, only_a], [only_b, neither]])
    assert kappa.low == pytest.approx(max(-1.0, expected.kappa_low), rel=1e-9)
    assert kappa.high == pytest.approx(min(1.0, expected.kappa_upp), rel=1e-9)


def test_nothing_flipped_and_one_verdict_throughout_have_no_test_and_no_kappa() -> None:
    alike = PairedCounts(both_passed=50)
    assert mcnemar_p(alike) is None
    assert cohens_kappa(alike) is None
    assert cohens_kappa(PairedCounts()) is None
    assert paired_difference(PairedCounts()) is None


def test_the_paired_difference_reproduces_newcombes_published_example() -> None:
    # Newcombe 1998, Statistics in Medicine 17:2635, table II, method 10: 36/12/2/0 of 50 gives 0.0569 to 0.3404.
    seen = paired_difference(PairedCounts(both_passed=36, only_b_passed=12, only_a_passed=2, both_failed=0))
    assert seen is not None
    assert seen.value == pytest.approx(0.20)
    assert (round(seen.low, 4), round(seen.high, 4)) == (0.0569, 0.3404)


@pytest.mark.parametrize(("passed", "judged"), [(0, 12), (5, 9), (321, 400), (50, 50)])
def test_shares_have_the_wilson_interval_of_the_libraries(passed: int, judged: int) -> None:
    seen = share(passed, judged)
    assert seen is not None
    scipys = binomtest(passed, judged).proportion_ci(method="wilson")
    assert (seen.low, seen.high) == pytest.approx((scipys.low, scipys.high), rel=1e-9, abs=1e-12)
    models = proportion_confint(passed, judged, method="wilson")
    assert (seen.low, seen.high) == pytest.approx(models, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(("new", "old"), [((45, 82), (40, 82)), ((930, 1000), (2850, 3000)), ((3, 7), (9, 11))])
def test_the_unpaired_difference_is_newcombes(new: tuple[int, int], old: tuple[int, int]) -> None:
    seen = difference(rate_of(*new), rate_of(*old))
    assert seen is not None
    expected = confint_proportions_2indep(*new, *old, method="newcomb", compare="diff")
    assert (seen.low, seen.high) == pytest.approx(tuple(expected), rel=1e-9)


def test_accuracy_against_labels_is_that_of_scikit_learn() -> None:
    rng = random.Random(5)
    labels = [rng.random() < 0.8 for _ in range(400)]
    verdicts = [rng.random() < (0.9 if good else 0.35) for good in labels]
    counts = LabelCounts()
    for good, passed in zip(labels, verdicts, strict=True):
        counts = counts.adding(good=good, passed=passed)
    seen = accuracy(counts)
    assert seen.sensitivity is not None
    assert seen.specificity is not None
    assert seen.balanced is not None
    assert counts.n == 400
    assert seen.sensitivity.value == pytest.approx(recall_score(labels, verdicts), rel=1e-9)
    assert seen.specificity.value == pytest.approx(recall_score(labels, verdicts, pos_label=False), rel=1e-9)
    assert seen.balanced.value == pytest.approx(balanced_accuracy_score(labels, verdicts), rel=1e-9)


def test_accuracy_says_nothing_where_no_label_speaks() -> None:
    seen = accuracy(LabelCounts(good_passed=3, good_failed=1))
    assert seen.sensitivity is not None
    assert seen.specificity is None
    assert seen.balanced is None


def test_intervals_of_differences_cover_the_truth() -> None:
    """1 000 seeded draws of each: at least 93 % of the intervals hold the true difference (95 % promised)."""
    rng = random.Random(20)
    paired = unpaired = balanced = 0
    draws = 1000
    for _ in range(draws):
        cells = [0, 0, 0, 0]
        for _ in range(150):
            cells[rng.choices(range(4), weights=(80, 4, 9, 7))[0]] += 1
        seen = paired_difference(counts_of((cells[0], cells[1], cells[2], cells[3])))
        assert seen is not None
        paired += seen.low <= 0.05 <= seen.high
        new, old = sum(rng.random() < 0.90 for _ in range(120)), sum(rng.random() < 0.95 for _ in range(300))
        other = difference(rate_of(new, 120), rate_of(old, 300))
        assert other is not None
        unpaired += other.low <= -0.05 <= other.high
        passed, failed = sum(rng.random() < 0.9 for _ in range(160)), sum(rng.random() < 0.7 for _ in range(40))
        counts = LabelCounts(good_passed=passed, good_failed=160 - passed, bad_failed=failed, bad_passed=40 - failed)
        mean = accuracy(counts).balanced
        assert mean is not None
        balanced += mean.low <= 0.8 <= mean.high
    assert min(paired, unpaired, balanced) >= 0.93 * draws, (paired, unpaired, balanced)


def test_a_release_is_worse_no_worse_or_undecided() -> None:
    old = rate_of(950, 1000)
    assert judge_release(rate_of(900, 1000), old, allowed_drop=0.02).verdict is Verdict.WORSE
    assert judge_release(rate_of(1900, 2000), rate_of(1900, 2000), allowed_drop=0.02).verdict is Verdict.NO_WORSE
    few = judge_release(rate_of(46, 50), old, allowed_drop=0.02)
    assert few.verdict is Verdict.NOT_ENOUGH


def test_what_is_said_to_be_needed_decides_it_and_one_fewer_does_not() -> None:
    old = rate_of(9500, 10_000)
    new = rate_of(190, 200)
    seen = judge_release(new, old, allowed_drop=0.02)
    assert seen.verdict is Verdict.NOT_ENOUGH
    assert seen.needed is not None
    total = 200 + seen.needed
    just_enough, too_few = -(-total // 20) * 20, total // 20 * 20 - 20  # so that 95 % of them is a whole number
    assert (
        judge_release(rate_of(just_enough * 19 // 20, just_enough), old, allowed_drop=0.02).verdict is Verdict.NO_WORSE
    )
    assert judge_release(rate_of(too_few * 19 // 20, too_few), old, allowed_drop=0.02).verdict is Verdict.NOT_ENOUGH


def test_no_number_is_promised_where_none_would_do() -> None:
    # The old release has 40 traces: whatever comes of the new one, its own interval stays too wide.
    seen = judge_release(rate_of(95, 100), rate_of(38, 40), allowed_drop=0.02)
    assert seen.verdict is Verdict.NOT_ENOUGH
    assert seen.needed is None


def test_too_few_effective_samples_decide_nothing_however_clear_they_look() -> None:
    seen = judge_release(rate_of(0, 6), rate_of(1000, 1000), allowed_drop=0.02)
    assert seen.verdict is Verdict.NOT_ENOUGH
    assert seen.needed == 14


def test_a_side_without_scores_decides_nothing() -> None:
    assert judge_release(None, rate_of(9, 10), allowed_drop=0.02).verdict is Verdict.NOT_ENOUGH
    assert difference(rate_of(9, 10), None) is None


@pytest.mark.parametrize("drop", [0.0, 1.0, -0.1, 2.0])
def test_a_drop_in_points_instead_of_a_share_is_refused(drop: float) -> None:
    with pytest.raises(ValueError, match=r"0\.02 means 2 points"):
        judge_release(rate_of(9, 10), rate_of(9, 10), allowed_drop=drop)


def test_a_judge_of_one_verdict_has_no_kappa_and_full_agreement_on_few_pairs_is_no_certainty() -> None:
    assert cohens_kappa(PairedCounts(both_passed=20, only_a_passed=5)) is None, "A passed everything"
    assert cohens_kappa(PairedCounts(only_b_passed=20, both_failed=5)) is None, "A failed everything"
    few, many = (cohens_kappa(PairedCounts(both_passed=4 * n, both_failed=n)) for n in (1, 400))
    assert few is not None
    assert many is not None
    assert (few.value, few.high, many.value, many.high) == (1.0, 1.0, 1.0, 1.0)
    assert few.low < 0.0 < 0.99 < many.low
