"""Panes, tiles, the watermark, and the pass rate at its edges."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from tests.support.weights import bucket_of
from tracejudge.scores import Bucket
from tracejudge.windows import PassRate, Watermark, Window, enough, floor_to, pass_rate, tiles, wilson

NOON = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)


def test_b39_a_window_holds_its_start_and_not_its_end_to_the_millisecond() -> None:
    at = NOON + timedelta(milliseconds=123)
    assert at not in Window(NOON, NOON + timedelta(milliseconds=100))
    assert at in Window(NOON, NOON + timedelta(milliseconds=500))
    assert at in Window(at, at + timedelta(milliseconds=1))
    assert at not in Window(NOON, at)


def test_b38_naive_instants_are_refused_and_others_read_as_utc() -> None:
    india = NOON.astimezone(timezone(timedelta(hours=5, minutes=30)))
    assert Window(india, india + timedelta(minutes=1)).start.tzinfo is timezone.utc
    assert floor_to(india + timedelta(seconds=59), step_s=60) == NOON
    naive = datetime(2026, 1, 1, 12)  # noqa: DTZ001 - the fault under test
    for wrong in (
        lambda: Window(naive, NOON),
        lambda: floor_to(naive, step_s=60),
        lambda: list(tiles(naive, NOON, step_s=60)),
    ):
        with pytest.raises(ValueError, match="has no time zone"):
            wrong()


def test_an_empty_or_reversed_window_is_refused() -> None:
    with pytest.raises(ValueError, match="is not after start"):
        Window(NOON, NOON)


def test_steps_are_aligned_to_the_epoch_before_it_too() -> None:
    assert floor_to(NOON + timedelta(minutes=59), step_s=3600) == NOON
    assert floor_to(datetime(1969, 12, 31, 23, 59, 30, tzinfo=timezone.utc), step_s=60).second == 0
    with pytest.raises(ValueError, match="smallest step"):
        floor_to(NOON, step_s=0)


def test_the_last_tile_may_be_shorter_and_nothing_lies_in_an_empty_range() -> None:
    cut = list(tiles(NOON, NOON + timedelta(seconds=150), step_s=60))
    assert [(window.end - window.start).total_seconds() for window in cut] == [60, 60, 30]
    assert list(tiles(NOON, NOON, step_s=60)) == []


def test_the_watermark_goes_only_forward() -> None:
    mark = Watermark().seen(NOON, arrived_at=NOON)
    assert mark.at == NOON
    assert mark.seen(NOON - timedelta(hours=1), arrived_at=NOON) == mark
    later = mark.seen(NOON + timedelta(minutes=5), arrived_at=NOON)
    assert later.advance_s(mark) == 300.0
    assert mark.advance_s(later) == 0.0
    assert later.advance_s(Watermark()) == 0.0


def test_a_trace_more_than_ten_minutes_ahead_of_its_arrival_moves_nothing() -> None:
    mark = Watermark(NOON)
    ahead = NOON + timedelta(minutes=10, milliseconds=1)
    assert mark.seen(ahead, arrived_at=NOON) == mark
    assert Watermark().seen(ahead, arrived_at=NOON) == Watermark()
    assert mark.seen(NOON + timedelta(minutes=10), arrived_at=NOON).at == NOON + timedelta(minutes=10)
    # A backlog of old traces is late, not wrong.
    assert mark.seen(ahead, arrived_at=NOON + timedelta(days=3)).at == ahead


def test_a_window_closes_when_the_watermark_has_passed_its_end_and_the_lateness() -> None:
    assert not Watermark().closed(NOON)
    assert Watermark(NOON).closed(NOON)
    assert not Watermark(NOON).closed(NOON, lateness_s=30)
    assert Watermark(NOON + timedelta(seconds=30)).closed(NOON, lateness_s=30)


def _rate(*scores: tuple[float, bool], invalid: int = 0) -> PassRate:
    rate = pass_rate({"": bucket_of(scores, invalid=invalid)})
    assert rate is not None
    return rate


def test_no_score_is_no_rate() -> None:
    assert pass_rate({}) is None
    assert pass_rate({"": Bucket()}) is None
    assert not enough(None, 0)


def test_b08_invalid_scores_are_counted_and_never_averaged() -> None:
    rate = _rate((1.0, True), (1.0, True), invalid=2)
    assert (rate.estimate, rate.judged, rate.passed, rate.failed, rate.invalid) == (1.0, 2, 2, 0, 2)


def test_only_invalid_scores_give_counts_and_no_estimate() -> None:
    rate = pass_rate({"": Bucket(invalid=3)})
    assert rate is not None
    assert (rate.estimate, rate.low, rate.high, rate.plain) == (None, None, None, None)
    assert (rate.n_eff, rate.judged, rate.invalid) == (0.0, 0, 3)
    assert not enough(rate, 0)


def test_one_score_says_little() -> None:
    rate = _rate((7.0, True))
    assert rate.estimate == 1.0
    assert rate.n_eff == pytest.approx(1.0)
    assert rate.low == pytest.approx(0.2065, abs=1e-4)
    assert rate.high == 1.0


@pytest.mark.parametrize("passed", [True, False])
def test_all_alike_is_exactly_zero_or_one_whatever_the_weights(passed: bool) -> None:
    rate = _rate(*[(1.0 / (0.1 + 0.007 * number), passed) for number in range(100)])
    assert rate.estimate == float(passed)
    assert rate.n_eff == pytest.approx(60.0, rel=0.3)
    assert (rate.high if passed else rate.low) == float(passed)
    assert rate.low is not None
    assert rate.high is not None
    assert 0.0 <= rate.low < rate.high <= 1.0


def test_with_equal_weights_the_effective_size_is_the_number_of_scores() -> None:
    rate = _rate(*[(10.0, number % 10 != 0) for number in range(200)])
    assert rate.estimate == pytest.approx(0.9)
    assert rate.plain == pytest.approx(0.9)
    assert rate.n_eff == pytest.approx(200.0)
    assert rate.represents == pytest.approx(2000.0)
    # Wilson's interval of 180 in 200, from a table.
    assert rate.low == pytest.approx(0.8506, abs=1e-4)
    assert rate.high == pytest.approx(0.9344, abs=1e-4)


def test_wilson_gives_the_published_example() -> None:
    # Newcombe 1998, table I: 81 of 263 and 1 of 29.
    assert wilson(81 / 263, 263) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert wilson(1 / 29, 29) == pytest.approx((0.0061, 0.1718), abs=5e-5)


def test_the_weighted_rate_stands_beside_the_plain_one() -> None:
    rate = _rate(*[(10.0, True)] * 90, *[(1.0, False)] * 100)
    assert rate.estimate == pytest.approx(900 / 1000)
    assert rate.plain == pytest.approx(90 / 190)


def test_known_sizes_of_strata_replace_the_estimated_ones() -> None:
    buckets = {"a": bucket_of([(10.0, True)] * 9 + [(10.0, False)]), "b": bucket_of([(1.0, True)] * 20)}
    by_weight = pass_rate(buckets)
    by_size = pass_rate(buckets, traces_by_stratum={"a": 80, "b": 20})
    assert by_weight is not None
    assert by_size is not None
    assert by_weight.estimate == pytest.approx((90 + 20) / 120)
    assert by_size.estimate == pytest.approx(0.8 * 0.9 + 0.2)


def test_where_a_stratum_has_no_score_the_weights_decide_alone() -> None:
    buckets = {"a": bucket_of([(10.0, True), (10.0, False)])}
    assert pass_rate(buckets, traces_by_stratum={"a": 20, "b": 5}) == pass_rate(buckets)
    assert pass_rate(buckets, traces_by_stratum={"a": 20, "b": 0}) == pass_rate(buckets, traces_by_stratum={"a": 20})


def test_enough_looks_at_the_effective_size() -> None:
    rate = _rate(*[(100.0, True)], *[(1.0, True)] * 99)
    assert rate.judged == 100
    assert enough(rate, 3)
    assert not enough(rate, 20)


def test_wrong_input_is_said() -> None:
    with pytest.raises(ValueError, match=r"write 0\.95"):
        pass_rate({"": bucket_of([(1.0, True)])}, confidence=95)
    with pytest.raises(ValueError, match="put together wrong"):
        pass_rate({"": Bucket(n=1, passed=1)})
