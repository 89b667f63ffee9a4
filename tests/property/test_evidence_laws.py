"""The laws of evidence: parts of a change add up to it, and intervals cover what they promise."""

from __future__ import annotations

import random
from math import sqrt

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.support.weights import Weighted, bucket_of
from tracejudge.evidence import decompose
from tracejudge.evidence.track_record import poisson_high, poisson_low
from tracejudge.scores import Bucket

names = st.sampled_from(["a", "b", "c", "d", "e"])
weighted = st.tuples(st.floats(1.0, 500.0), st.booleans())
traffic = st.dictionaries(names, st.lists(weighted, min_size=1, max_size=6), min_size=1)


def sums(rows: dict[str, list[Weighted]]) -> dict[str, Bucket]:
    return {name: bucket_of(those) for name, those in rows.items()}


def rate(rows: dict[str, list[Weighted]]) -> float:
    everything = [one for those in rows.values() for one in those]
    return sum(w for w, passed in everything if passed) / sum(w for w, _ in everything)


@settings(max_examples=60)
@given(traffic, traffic)
def test_the_parts_add_up_to_the_change(before: dict[str, list[Weighted]], since: dict[str, list[Weighted]]) -> None:
    parts = decompose(sums(before), sums(since))
    assert parts is not None
    change = rate(since) - rate(before)
    assert parts.change == pytest.approx(change, abs=1e-9)
    assert parts.within.value + parts.mix.value + parts.new_or_gone == pytest.approx(change, abs=1e-9)
    assert parts.within.value + parts.between.value == pytest.approx(change, abs=1e-9)
    assert sum(part.contribution for part in parts.slices) == pytest.approx(change, abs=1e-9)
    assert {part.value for part in parts.slices} == before.keys() | since.keys()
    for one in (parts.within, parts.mix, parts.between):
        assert one.low <= one.value <= one.high


@settings(max_examples=60)
@given(traffic, st.data())
def test_with_the_rates_kept_all_of_the_change_is_mix(before: dict[str, list[Weighted]], data: st.DataObject) -> None:
    scale = {name: data.draw(st.floats(0.01, 100.0), label=name) for name in before}
    since = {name: [(w * scale[name], passed) for w, passed in rows] for name, rows in before.items()}
    parts = decompose(sums(before), sums(since))
    assert parts is not None
    assert parts.within.value == pytest.approx(0.0, abs=1e-9)
    assert parts.mix.value == pytest.approx(parts.change, abs=1e-9)


@settings(max_examples=60)
@given(traffic, traffic)
def test_the_other_way_round_every_part_has_the_other_sign(
    one: dict[str, list[Weighted]], other: dict[str, list[Weighted]]
) -> None:
    there, back = decompose(sums(one), sums(other)), decompose(sums(other), sums(one))
    assert there is not None
    assert back is not None
    returned = {part.value: part for part in back.slices}
    for part in there.slices:
        mirrored = returned[part.value]
        assert part.within == pytest.approx(-mirrored.within, abs=1e-9)
        assert part.mix == pytest.approx(-mirrored.mix, abs=1e-9)
        assert part.new_or_gone == pytest.approx(-mirrored.new_or_gone, abs=1e-9)
    assert there.within.high - there.within.low == pytest.approx(back.within.high - back.within.low, abs=1e-9)
    assert there.mix.high - there.mix.low == pytest.approx(back.mix.high - back.mix.low, abs=1e-9)


def test_nothing_on_one_side_is_no_change() -> None:
    assert decompose({}, {"a": bucket_of([(1.0, True)])}) is None
    assert decompose({"a": Bucket(invalid=3)}, {"a": bucket_of([(1.0, True)])}) is None


def drawn(rng: random.Random, n: int, shares: dict[str, float], rates: dict[str, float]) -> dict[str, list[Weighted]]:
    rows: dict[str, list[Weighted]] = {}
    for name in rng.choices(list(shares), weights=list(shares.values()), k=n):
        # Failures are sampled ten times less often than they happen here: weights that know about verdicts.
        passed = rng.random() < rates[name]
        rows.setdefault(name, []).append((rng.choice([1.0, 2.0]) if passed else rng.choice([1.0, 4.0]), passed))
    return rows


def test_intervals_are_as_wide_as_chance_makes_the_parts_differ() -> None:
    """Over 400 made-up pairs of periods the parts spread as their intervals say, within a tenth."""
    rng = random.Random(20260101)
    spread: dict[str, list[float]] = {"within": [], "mix": [], "between": []}
    told: dict[str, list[float]] = {"within": [], "mix": [], "between": []}
    for _ in range(400):
        before = drawn(rng, 300, {"a": 0.5, "b": 0.3, "c": 0.2}, {"a": 0.95, "b": 0.8, "c": 0.6})
        since = drawn(rng, 250, {"a": 0.3, "b": 0.3, "d": 0.4}, {"a": 0.9, "b": 0.6, "d": 0.5})
        parts = decompose(sums(before), sums(since))
        assert parts is not None
        for name in spread:
            one = getattr(parts, name)
            spread[name].append(one.value)
            told[name].append((one.high - one.low) / (2 * 1.959964))
    for name, values in spread.items():
        mean = sum(values) / len(values)
        seen = sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))
        assert sum(told[name]) / len(told[name]) == pytest.approx(seen, rel=0.1), name


@settings(max_examples=30)
@given(st.integers(0, 200))
def test_a_poisson_interval_holds_its_count(count: int) -> None:
    low, high = poisson_low(count), poisson_high(count)
    assert low <= count < high
    assume(count > 0)
    assert low > 0.0
