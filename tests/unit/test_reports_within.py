"""The difference of two releases within slices: by hand, as the totals' for one slice, and as wide as it promises."""

from __future__ import annotations

import random
from functools import partial
from math import sqrt

import pytest

from tracejudge.comparing.standardised import judge_within
from tracejudge.comparing.unpaired import Verdict, difference, judge_release
from tracejudge.reports.mix import MixShift, Sums, mix_shift
from tracejudge.scores import Bucket
from tracejudge.windows import pass_rate, wilson


def sums(passed: int, judged: int, *, weight: float = 1.0) -> Bucket:
    w2 = weight * weight
    return Bucket(
        n=judged,
        passed=passed,
        sum_w=weight * judged,
        sum_w2=w2 * judged,
        sum_wx=weight * passed,
        sum_w2x=w2 * passed,
    )


def test_by_hand() -> None:
    new = {"a": sums(80, 100), "b": sums(180, 300)}  # shares 1/4 and 3/4; 80 % and 60 %
    old = {"a": sums(270, 300), "b": sums(70, 100)}  # 90 % and 70 %
    seen = judge_within(new, old, allowed_drop=0.02)
    assert seen.compared == 1.0
    assert [(one.value, one.share_new, one.share_old) for one in seen.slices] == [("b", 0.75, 0.25), ("a", 0.25, 0.75)]
    found = seen.result.difference
    assert found is not None
    assert found.value == pytest.approx(0.25 * (0.8 - 0.9) + 0.75 * (0.6 - 0.7))  # -0.10 in both slices: B is 0
    # Q = 0.65 in 400: Q (1 - Q) / V would be more. P = 0.75 in 1 / (1/16/300 + 9/16/100), less than P (1 - P) / V.
    n_old = 1.0 / (0.25**2 / 300 + 0.75**2 / 100)
    variance = 0.25**2 * 0.9 * 0.1 / 300 + 0.75**2 * 0.7 * 0.3 / 100
    n_old = min(n_old, 0.75 * 0.25 / variance)
    new_ends, old_ends = wilson(0.65, 400), wilson(0.75, n_old)
    assert found.low == pytest.approx(-0.10 - sqrt((0.65 - new_ends.low) ** 2 + (old_ends.high - 0.75) ** 2))
    assert found.high == pytest.approx(-0.10 + sqrt((new_ends.high - 0.65) ** 2 + (0.75 - old_ends.low) ** 2))


def test_other_differences_in_other_slices_widen_by_how_well_the_shares_are_known() -> None:
    new = {"a": sums(50, 100), "b": sums(90, 100)}
    old = {"a": sums(90_000, 100_000), "b": sums(50_000, 100_000)}  # known well: what is left is of the new one
    found = judge_within(new, old, allowed_drop=0.02).result.difference
    assert found is not None
    assert found.value == pytest.approx(0.0, abs=1e-12)
    own = wilson(0.7, 200)
    of_shares = 1.959964**2 * 200 * 0.4**2 / 200**2  # d is -0.4 and 0.4, each around 0
    assert found.low == pytest.approx(-sqrt((0.7 - own.low) ** 2 + of_shares), abs=2e-4)


@pytest.mark.parametrize("weight", [1.0, 4.0])
def test_of_one_slice_it_is_the_difference_of_the_totals(weight: float) -> None:
    new, old = sums(930, 1000, weight=weight), sums(2850, 3000, weight=weight)
    ways = {"allowed_drop": 0.02}
    seen = judge_within({"": new}, {"": old}, **ways)
    totals = judge_release(pass_rate({"": new}), pass_rate({"": old}), **ways)
    assert seen.result.difference == difference(pass_rate({"": new}), pass_rate({"": old}))
    assert (seen.result.verdict, seen.result.needed) == (totals.verdict, totals.needed)


def test_slices_with_few_samples_are_left_out_and_below_four_fifths_nothing_is_decided() -> None:
    old = {"a": sums(900, 1000), "b": sums(4, 4), "gone": sums(50, 100)}
    most = judge_within({"a": sums(400, 800), "b": sums(100, 150), "new": sums(0, 50)}, old, allowed_drop=0.02)
    assert most.result.verdict is Verdict.WORSE
    assert most.compared == pytest.approx(0.8)
    assert [(one.value, one.share_new) for one in most.left_out] == [("b", 0.15), ("new", 0.05), ("gone", 0.0)]
    less = judge_within({"a": sums(400, 790), "b": sums(100, 150), "new": sums(0, 60)}, old, allowed_drop=0.02)
    assert less.result.verdict is Verdict.NOT_ENOUGH
    assert less.result.difference is not None
    assert less.result.needed is None  # no number of the same traffic would do
    nothing = judge_within({"new": sums(90, 100)}, old, allowed_drop=0.02)
    assert nothing.result.difference is None
    assert nothing.compared == 0.0


def test_it_says_how_many_more_would_decide() -> None:
    old = {"a": sums(9000, 10_000), "b": sums(7000, 10_000)}
    new = {"a": sums(90, 100), "b": sums(70, 100)}
    needed = judge_within(new, old, allowed_drop=0.02).result.needed
    assert needed is not None
    times = 1 + needed // 200 + 1
    more = {name: sums(times * one.passed, times * one.n) for name, one in new.items()}
    assert judge_within(more, old, allowed_drop=0.02).result.verdict is Verdict.NO_WORSE
    fewer = {name: sums(times // 2 * one.passed, times // 2 * one.n) for name, one in new.items()}
    assert judge_within(fewer, old, allowed_drop=0.02).result.verdict is Verdict.NOT_ENOUGH


def test_many_values_named_at_most_twenty_times() -> None:
    new = {str(k): sums(1, 1) for k in range(100)}
    seen = judge_within(new, new, allowed_drop=0.02)
    assert (len(seen.left_out), seen.left_out_slices, seen.slices) == (20, 100, ())


def shift_of(new: dict[str, Bucket], old: dict[str, Bucket], *, allowed_drop: float = 0.02) -> MixShift | None:
    judge = partial(judge_within, allowed_drop=allowed_drop)
    totals = difference(*(pass_rate(side) for side in (new, old)))
    assert totals is not None
    fields = {"category": Sums({"": sum(new.values(), Bucket())}, {"": sum(old.values(), Bucket())})}
    return mix_shift({**fields, "tags.tenant": Sums(new, old)}, totals, allowed_drop=allowed_drop, judge=judge)


def test_a_mix_is_told_where_it_explains_a_quarter_beyond_chance() -> None:
    old = {"a": sums(760, 800), "b": sums(150, 200)}
    shift = shift_of({"a": sums(285, 300), "b": sums(525, 700)}, old)
    assert shift is not None
    assert (shift.field, shift.value) == ("tags.tenant", "a")
    assert shift.explained == pytest.approx(-0.10)
    # A fall of ten points in both, and 2 points of mix.
    assert shift_of({"a": sums(595, 700), "b": sums(195, 300)}, old) is None
    # A tenth of the mix: 0.4 points, which nobody asked about who would accept a drop of 2, and half of one of 0.2.
    slight = {"a": sums(7410, 7800), "b": sums(1650, 2200)}
    many = {"a": sums(7600, 8000), "b": sums(1500, 2000)}
    assert shift_of(slight, many) is None
    assert shift_of(slight, many, allowed_drop=0.002) is not None
    # The first mix again, seen in so few traces that chance does as much.
    few = {"a": sums(15, 16), "b": sums(9, 12)}
    assert shift_of({"a": sums(10, 11), "b": sums(12, 16)}, few) is None


def test_values_that_come_or_go_are_a_part_of_the_mix() -> None:
    shift = shift_of({"a": sums(1710, 1800), "new": sums(40, 200)}, {"a": sums(1900, 2000)})
    assert shift is not None
    assert (shift.value, shift.share_old, shift.share_new) == ("a", 1.0, 0.9)
    assert shift.within.result.difference is not None
    assert shift.within.result.difference.value == pytest.approx(0.0)
    assert [one.value for one in shift.within.left_out] == ["new"]


@pytest.mark.parametrize(
    ("shares", "rates"),
    [
        (([0.3, 0.7], [0.8, 0.2]), ([0.95, 0.70], [0.95, 0.70])),  # the mix alone
        (([0.3, 0.7], [0.8, 0.2]), ([0.95, 0.60], [0.95, 0.90])),  # a fall in one slice
        (([1.0] * 20, [1.0 + k / 5 for k in range(20)]), ([0.97] * 20, [0.97] * 20)),  # many small slices
    ],
)
@pytest.mark.parametrize("kept", [1.0, 0.4])
def test_the_interval_covers_the_truth(
    shares: tuple[list[float], list[float]], rates: tuple[list[float], list[float]], kept: float
) -> None:
    """400 seeded draws: at least 92.5 % of the intervals hold the true difference (95 % promised; three standard errors
    are 3.3 points). Passed ones are judged at `kept`."""
    rng = random.Random(11)
    truth = sum(b * (q - p) for b, q, p in zip(shares[0], *rates, strict=True)) / sum(shares[0])
    held = 0
    for _ in range(400):
        new, old = (draw(rng, one, of, kept=kept) for one, of in zip(shares, rates, strict=True))
        found = judge_within(new, old, allowed_drop=0.02).result.difference
        assert found is not None
        held += found.low <= truth <= found.high
    assert held >= 0.925 * 400, held


def draw(rng: random.Random, shares: list[float], rates: list[float], *, kept: float) -> dict[str, Bucket]:
    found: dict[str, Bucket] = {}
    tallies: dict[tuple[int, bool], int] = {}
    for place in rng.choices(range(len(shares)), weights=shares, k=round(400 / kept)):
        passed = rng.random() < rates[place]
        if not passed or rng.random() < kept:
            tallies[place, passed] = tallies.get((place, passed), 0) + 1
    for (place, passed), n in tallies.items():
        one = sums(n if passed else 0, n, weight=1.0 / kept if passed else 1.0)
        found[str(place)] = found.get(str(place), Bucket()) + one
    return found
