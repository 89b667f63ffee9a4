"""The laws of windows: tiles tile, the fast rate is the slow one, and intervals cover what they promise."""

from __future__ import annotations

import random
from datetime import datetime, timedelta, timezone
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.support.weights import Weighted, bucket_of, equal_bucket, slow_rate, slow_stratified_rate
from tracejudge.windows import floor_to, pass_rate, tiles

instants = st.datetimes(datetime(1990, 1, 1), datetime(2050, 1, 1), timezones=st.just(timezone.utc))  # noqa: DTZ001 - bounds are naive by contract
scores = st.lists(st.tuples(st.floats(1.0, 1000.0), st.booleans()), min_size=1, max_size=60)


@given(instants, st.integers(1, 5000), st.integers(1, 900), st.integers(0, 5_000_000))
def test_tiles_cover_every_instant_exactly_once(start: datetime, length_s: int, step_s: int, offset_ms: int) -> None:
    end = start + timedelta(seconds=length_s)
    windows = list(tiles(start, end, step_s=step_s))
    assert (windows[0].start, windows[-1].end) == (start, end)
    assert all(one.end == following.start for one, following in pairwise(windows))
    at = start + timedelta(milliseconds=offset_ms)
    assert sum(at in window for window in windows) == (at < end)


@given(instants, st.integers(1, 100_000))
def test_flooring_is_the_last_step_at_or_before(at: datetime, step_s: int) -> None:
    floor = floor_to(at, step_s=step_s)
    assert floor <= at < floor + timedelta(seconds=step_s)
    assert floor_to(floor, step_s=step_s) == floor


@given(scores, st.integers(0, 5), st.integers(1, 3))
def test_the_rate_from_sums_is_the_rate_from_raw_weights(those: list[Weighted], invalid: int, parts: int) -> None:
    buckets = {str(part): bucket_of(those[part::parts], invalid=invalid if part == 0 else 0) for part in range(parts)}
    rate = pass_rate(buckets)
    assert rate is not None
    slow = slow_rate(those)
    assert rate.estimate == pytest.approx(slow.estimate, abs=1e-9)
    assert rate.n_eff == pytest.approx(slow.n_eff, rel=1e-6)
    assert rate.low == pytest.approx(slow.low, abs=1e-7)
    assert rate.high == pytest.approx(slow.high, abs=1e-7)
    assert rate.low is not None
    assert rate.high is not None
    assert 0.0 <= rate.low <= rate.estimate <= rate.high <= 1.0  # type: ignore[operator]  # approx above: not None
    assert rate.n_eff <= rate.judged == len(those)
    assert rate.invalid == invalid
    assert rate.plain == sum(passed for _, passed in those) / len(those)


@given(scores, scores, st.integers(1, 10_000), st.integers(1, 10_000))
def test_the_stratified_rate_from_sums_is_that_from_raw_weights(
    one: list[Weighted], other: list[Weighted], size_one: int, size_other: int
) -> None:
    # Fewer traces than scores is impossible.
    sizes = {"one": size_one + len(one), "other": size_other + len(other)}
    rate = pass_rate({"one": bucket_of(one), "other": bucket_of(other)}, traces_by_stratum=sizes)
    slow = slow_stratified_rate({"one": one, "other": other}, sizes)
    assert rate is not None
    assert rate.estimate == pytest.approx(slow.estimate, abs=1e-9)
    assert rate.n_eff == pytest.approx(slow.n_eff, rel=1e-6)
    assert rate.low == pytest.approx(slow.low, abs=1e-7)
    assert rate.high == pytest.approx(slow.high, abs=1e-7)


@given(st.integers(1, 80), st.integers(0, 80))
def test_when_everything_was_judged_known_sizes_change_nothing(passed: int, failed: int) -> None:
    buckets = {"one": bucket_of([(1.0, True)] * passed), "other": bucket_of([(1.0, False)] * failed)}
    assume(failed > 0)
    by_weight = pass_rate(buckets)
    by_size = pass_rate(buckets, traces_by_stratum={"one": passed, "other": failed})
    assert by_weight is not None
    assert by_size is not None
    assert by_size.n_eff == pytest.approx(by_weight.n_eff)
    assert by_size.estimate == pytest.approx(by_weight.estimate)


# Traces of two strata: how many, the chance to be judged, the true pass rate; then the least coverage in percent.
DESIGNS = {
    "equal chances": (((1000, 0.2, 0.9), (1000, 0.2, 0.9)), 93),
    "failures oversampled": (((1800, 0.1, 0.98), (200, 0.8, 0.3)), 93),
    "failures undersampled": (((1800, 0.2, 0.98), (200, 0.05, 0.3)), 92),
    "heavy stratum bad": (((1000, 0.05, 0.91), (1000, 0.5, 0.99)), 92),
    "heavy stratum bad, near 1": (((1000, 0.05, 0.982), (1000, 0.5, 0.998)), 92),
    "heavy stratum good": (((1000, 0.05, 0.99), (1000, 0.5, 0.91)), 93),
}


@pytest.mark.parametrize("known_sizes", [False, True])
@pytest.mark.parametrize("design", DESIGNS)
def test_the_interval_covers_the_true_rate(design: str, known_sizes: bool) -> None:
    """600 windows each, seeded; nominal 95 %, whose standard error here is 0.9 points."""
    strata, least = DESIGNS[design]
    everything = sum(size for size, _, _ in strata)
    truth = sum(size * true for size, _, true in strata) / everything
    dice = random.Random(f"{design} {known_sizes}")
    covered, total = 0, 0.0
    repetitions = 600
    for _ in range(repetitions):
        sizes = [0, 0]
        sizes[0] = round(dice.gauss(strata[0][0], (strata[0][0] * (1 - strata[0][0] / everything)) ** 0.5))
        sizes[1] = everything - sizes[0]
        buckets = {}
        for index, (_, chance, true) in enumerate(strata):
            judged = sum(dice.random() < chance for _ in range(sizes[index]))
            passed = sum(dice.random() < true for _ in range(judged))
            buckets[str(index)] = equal_bucket(judged=judged, passed=passed, weight=1.0 / chance)
        known = {str(index): size for index, size in enumerate(sizes)} if known_sizes else None
        rate = pass_rate(buckets, traces_by_stratum=known)
        assert rate is not None
        assert rate.estimate is not None
        assert rate.low is not None
        assert rate.high is not None
        covered += rate.low <= truth <= rate.high
        total += rate.estimate
    assert covered >= repetitions * least / 100
    assert abs(total / repetitions - truth) < 0.005
