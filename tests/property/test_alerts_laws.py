"""Laws of the detectors and the engine, beside slow direct computations."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import dataclass

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.support.verdicts import minute, row
from tracejudge.alerts import AlertEvent, Engine, MinimumRule, SeriesSnapshot
from tracejudge.alerts.detecting.bets import ODDS, PRIOR, Bets, hypothetical_rates
from tracejudge.alerts.detecting.detector import DropDetector
from tracejudge.alerts.detecting.recovery import RecoveryDetector
from tracejudge.alerts.detecting.sums import Place, Sums
from tracejudge.alerts.detecting.weights import WeightScale
from tracejudge.scores import Score
from tracejudge.testing.builders import START

NOWHERE = Place(START, Sums())
RULES = (
    MinimumRule(name="low", judge="lexical", minimum=0.8, false_alarms="1 per 1d", min_effective_samples=5),
    MinimumRule(name="high", judge="lexical", minimum=0.95, false_alarms="1 per 1d", group_by=("category",)),
)


@dataclass(frozen=True)
class Verdict:
    passed: bool
    weight: float
    hours: float


verdict_lists = st.lists(
    st.builds(
        Verdict,
        passed=st.booleans(),
        weight=st.sampled_from([0.2, 1.0, 1.0, 3.7]),
        hours=st.sampled_from([0.0, 0.02, 0.5, 7.0]),
    ),
    max_size=60,
)


@given(verdicts=verdict_lists, boundary=st.sampled_from([0.05, 0.5, 0.8, 0.95, 0.99]), deff=st.sampled_from([1.0, 1.8]))
@settings(deadline=None)
def test_evidence_is_the_sum_over_all_components_and_starting_times(
    verdicts: list[Verdict], boundary: float, deff: float
) -> None:
    detector = DropDetector(Bets(boundary))
    for verdict in verdicts:
        detector.observe(passed=verdict.passed, weight=verdict.weight, deff=deff, hours=verdict.hours, place=NOWHERE)
        assume(max(detector.hours) < 1e12)  # the ceiling, far above any alarm level
    fail = 1 - boundary
    total = 0.0
    for odds, prior in zip(ODDS, PRIOR, strict=True):
        o = odds * fail / boundary
        lam = (o / (1 + o) - fail) / (fail * boundary * deff)
        factors = [1 + min(lam * verdict.weight, 0.98 / fail) * (boundary - verdict.passed) for verdict in verdicts]
        for start, verdict in enumerate(verdicts):
            total += prior * verdict.hours * math.prod(factors[start:])
    assert detector.evidence_hours == pytest.approx(total, rel=1e-9)


@given(boundary=st.floats(0.02, 0.99))
@settings(deadline=None)
def test_unweighted_factors_are_the_likelihood_ratios(boundary: float) -> None:
    detector = DropDetector(Bets(boundary))
    for passed in (True, False):
        factors = detector.bets.factors(passed=passed)
        for rate, factor in zip(hypothetical_rates(boundary), factors, strict=True):
            ratio = rate / boundary if passed else (1 - rate) / (1 - boundary)
            assert factor == pytest.approx(max(ratio, 1 - 0.98), rel=1e-9)


@pytest.mark.parametrize("boundary", [0.3, 0.8, 0.95])
@pytest.mark.parametrize(("pi_suspicious", "excess"), [(1.0, 0.0), (1.0, 0.04), (0.5, 0.04)])
def test_the_expected_factor_is_one_at_the_boundary_exactly_whatever_the_sampling(
    boundary: float, pi_suspicious: float, excess: float
) -> None:
    """E[L] <= 1, enumerated: a tenth of the traffic is suspicious, fails more and is sampled more."""
    share, pi_plain = 0.1, 0.25
    traffic = {  # stratum: (share, inclusion probability, pass rate); the traffic's rate is the boundary
        "suspicious": (share, pi_suspicious, boundary - excess * (1 - share)),
        "plain": (1 - share, pi_plain, boundary + excess * share),
    }
    sampled = sum(part * pi for part, pi, _ in traffic.values())
    mean_weight = sum(part for part, _, _ in traffic.values()) / sampled
    outcomes = [
        (part * pi / sampled * (rate if passed else 1 - rate), (1 / pi) / mean_weight, passed)
        for part, pi, rate in traffic.values()
        for passed in (True, False)
    ]
    deff = sum(p * w * w for p, w, _ in outcomes)
    detector = DropDetector(Bets(boundary))
    for j in range(len(ODDS)):
        clipped = any(
            (boundary - hypothetical_rates(boundary)[j]) / ((1 - boundary) * boundary * deff) * w
            >= 0.98 / (1 - boundary)
            for _, w, _ in outcomes
        )
        if clipped:
            continue  # the claim is about the clipped weights there
        expected = sum(p * detector.bets.factors(passed=passed, weight=w, deff=deff)[j] for p, w, passed in outcomes)
        assert expected == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("rate", [0.8, 0.85, 0.95])
def test_evidence_minus_time_is_a_supermartingale_at_or_above_the_boundary(rate: float) -> None:
    """E[M_n] <= hours passed, over all 2^10 sequences of verdicts."""
    gaps = [0.1, 0.0, 2.0, 0.5, 0.3, 0.0, 0.1, 1.0, 0.2, 0.1]
    expected = 0.0
    for sequence in itertools.product((True, False), repeat=len(gaps)):
        detector = DropDetector(Bets(0.8))
        for passed, hours in zip(sequence, gaps, strict=True):
            detector.observe(passed=passed, weight=1.0, deff=1.0, hours=hours, place=NOWHERE)
        passes = sum(sequence)
        expected += rate**passes * (1 - rate) ** (len(gaps) - passes) * detector.evidence_hours
    assert expected <= sum(gaps) * (1 + 1e-9)
    if rate == 0.8:
        assert expected == pytest.approx(sum(gaps), rel=1e-9)


@pytest.mark.parametrize("weights", [(1.0, 1.0), (1.0, 4.0)])
def test_the_recovery_factor_is_one_at_the_half_way_point(weights: tuple[float, float]) -> None:
    recovery = RecoveryDetector(boundary=0.8, fallen_to=0.6)
    r = recovery.target
    assert r == pytest.approx(0.7)
    mean = sum(weights) / 2
    expected = 0.0
    for weight, passed in itertools.product(weights, (True, False)):
        one = RecoveryDetector(boundary=0.8, fallen_to=0.6)
        one.observe(passed=passed, weight=weight / mean, deff=1.5, hours=1.0, place=NOWHERE)
        expected += 0.5 * (r if passed else 1 - r) * one.hours
    assert expected == pytest.approx(1.0, rel=1e-12)


@given(verdicts=verdict_lists)
@settings(deadline=None)
def test_the_estimated_start_is_where_the_log_factors_sum_to_the_most(verdicts: list[Verdict]) -> None:
    detector = DropDetector(Bets(0.8))
    sums = Sums()
    logs: list[list[float]] = []
    for number, verdict in enumerate(verdicts):
        place = Place(minute(number), sums)
        detector.observe(passed=verdict.passed, weight=verdict.weight, deff=1.0, hours=verdict.hours, place=place)
        logs.append([math.log(f) for f in detector.bets.factors(passed=verdict.passed, weight=verdict.weight)])
        sums = sums.plus(passed=verdict.passed, weight=1.0)
    start = detector.start
    tails = [math.fsum(log[detector.leading] for log in logs[k:]) for k in range(len(logs))]
    best = max(tails, default=0.0)
    if start is None:
        assert best <= 1e-9
    else:
        assert tails[start.before.n] == pytest.approx(best, abs=1e-9)


@given(past=st.lists(st.floats(1, 19), min_size=1, max_size=30), own=st.floats(0.1, 50), factor=st.floats(0.5, 2))
@settings(deadline=None)
def test_a_weight_never_enters_its_own_scale(past: list[float], own: float, factor: float) -> None:
    a, b = WeightScale(), WeightScale()
    for weight in past:
        a.next(weight)
        b.next(weight)
    one, other = a.next(own), b.next(own * factor)
    assert other.weight == pytest.approx(one.weight * factor)
    assert one.deff == other.deff
    assert one.weight == pytest.approx(own / (math.fsum(past) / len(past)))
    assert one.deff == pytest.approx(
        max(1.0, math.fsum(w * w for w in past) * len(past) / math.fsum(past) ** 2), rel=1e-6
    )


# ------------------------------------------------------------------ the engine


@st.composite
def score_streams(draw: st.DrawFn) -> list[Score]:
    """Stretches of good and bad minutes in two apps and two categories, with invalid, late and weighted rows."""
    rows: list[Score] = []
    for _ in range(draw(st.integers(1, 6))):
        length = draw(st.integers(1, 40))
        pattern = draw(st.lists(st.sampled_from([True, True, False, None]), min_size=1, max_size=8))
        app = draw(st.sampled_from(["shop", "bank"]))
        category = draw(st.sampled_from(["a", "b"]))
        step = draw(st.sampled_from([0.2, 10.0, 600.0]))
        probability = draw(st.sampled_from([1.0, 0.25]))
        begin = (rows[-1].judged_at - START).total_seconds() / 60 + 1 if rows else 0.0
        for k in range(length):
            at = begin + k * step
            served = at - draw(st.sampled_from([0.0, 0.0, 0.0, 30.0, 6000.0]))
            rows.append(
                row(
                    len(rows),
                    passed=pattern[k % len(pattern)],
                    app=app,
                    category=category,
                    event_time=minute(served),
                    judged_at=minute(at),
                    inclusion_probability=probability,
                    content_hash=draw(st.sampled_from(["", "", "", "a", "b"])),
                )
            )
    return rows


def folded(rows: list[Score]) -> list[AlertEvent]:
    return Engine(RULES).fold(rows)


@given(rows=score_streams(), cuts=st.lists(st.integers(0, 240), max_size=6))
@settings(max_examples=60, deadline=None)
def test_the_same_rows_in_any_batches_give_the_same_events(rows: list[Score], cuts: list[int]) -> None:
    engine = Engine(RULES)
    events: list[AlertEvent] = []
    edges = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    for begin, end in itertools.pairwise(edges):
        events += engine.fold(rows[begin:end])
    assert events == folded(rows)


@given(rows=score_streams())
@settings(max_examples=60, deadline=None)
def test_the_order_between_apps_does_not_matter(rows: list[Score]) -> None:
    by_app = sorted(rows, key=lambda score: score.app)  # stable: within an app the order stays
    ours, theirs = folded(rows), folded(by_app)
    assert sorted(ours, key=lambda e: e.event_id) == sorted(theirs, key=lambda e: e.event_id)


@given(rows=score_streams(), cut=st.integers(0, 240))
@settings(max_examples=60, deadline=None)
def test_a_snapshot_through_json_continues_exactly(rows: list[Score], cut: int) -> None:
    straight, before = Engine(RULES), Engine(RULES)
    expected = straight.fold(rows)
    events = before.fold(rows[:cut])
    taken = [
        SeriesSnapshot(snapshot.name, json.loads(json.dumps(snapshot.state, allow_nan=False)))
        for snapshot in before.snapshot()
    ]
    after = Engine(RULES)
    assert after.restore(taken) == []
    assert events + after.fold(rows[cut:]) == expected
    assert after.status() == straight.status()
    assert sorted(after.snapshot(), key=str) == sorted(straight.snapshot(), key=str)


@given(rows=score_streams())
@settings(max_examples=60, deadline=None)
def test_a_row_never_both_fires_and_resolves_and_the_two_alternate(rows: list[Score]) -> None:
    engine = Engine(RULES)
    is_open: dict[object, bool] = {}
    seen: set[str] = set()
    for score in rows:
        events = [event for event in engine.fold([score]) if event.kind in ("firing", "resolved")]
        assert len({event.series for event in events}) == len(events)
        for event in events:
            assert event.event_id not in seen
            seen.add(event.event_id)
            assert is_open.get(event.series, False) == (event.kind == "resolved")
            is_open[event.series] = event.kind == "firing"


@given(rows=score_streams(), cut=st.integers(0, 240))
@settings(max_examples=40, deadline=None)
def test_snapshots_of_what_changed_add_up_to_the_whole(rows: list[Score], cut: int) -> None:
    engine = Engine(RULES)
    kept: dict[str, SeriesSnapshot] = {}
    for part in (rows[:cut], rows[cut:]):
        engine.fold(part)
        kept |= {snapshot.name: snapshot for snapshot in engine.snapshot(changed_only=True)}
    assert kept == {snapshot.name: snapshot for snapshot in engine.snapshot()}
    assert engine.snapshot(changed_only=True) == []
