"""The laws of epochs and governors: the budget is kept, what has a rate keeps a chance, epochs survive storage."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from tracejudge.sampling import Epoch, EpochBook, GovernedRates, SamplingPolicy, VersionKey, epoch_from_json, sample
from tracejudge.sampling.solve import Cell, chances, smoothed, solve
from tracejudge.signals import Signals
from tracejudge.testing import make_trace
from tracejudge_sdk.sampling import TAIL_SALT, keep

START = datetime(2026, 1, 1, tzinfo=timezone.utc)

shares = st.one_of(st.sampled_from([0.0, 1.0, 0.1]), st.floats(0.001, 1.0))
cells = st.builds(Cell, st.sampled_from(["", "a", "b"]), shares, shares)
traffic = st.dictionaries(cells, st.floats(0.1, 1e5), min_size=1, max_size=6)
floors = st.dictionaries(st.sampled_from(["", "a", "b"]), st.floats(0.1, 500.0), max_size=2)
governed = st.builds(
    lambda scale, rules, floors: GovernedRates(scale=scale, rules=rules, floors=floors),
    st.floats(1e-4, 1.0),
    st.floats(1e-4, 1.0),
    st.dictionaries(st.sampled_from(["", "gold"]), st.floats(0.0, 1.0), max_size=2),
)


@given(traffic, st.floats(1.0, 1e5), floors)
def test_the_budget_is_kept_and_used(per_h: dict[Cell, float], budget: float, wanted: dict[str, float]) -> None:
    """Up to the least that keeps every trace a chance; and all of it is used where the policy asks for so many."""
    rates = solve(per_h, budget, wanted)
    least = chances(per_h, GovernedRates(scale=1e-4, rules=1e-4))
    spent = chances(per_h, rates)
    assert spent <= budget * (1.0 + 1e-6) + least
    most = chances(per_h, GovernedRates(floors=rates.floors))
    assert spent >= min(budget, most) * (1.0 - 1e-3) - least


@given(traffic, st.floats(0.0, 1e5), floors)
def test_what_has_a_rate_keeps_a_chance(per_h: dict[Cell, float], budget: float, wanted: dict[str, float]) -> None:
    rates = solve(per_h, budget, wanted)
    for cell in per_h:
        chance = rates.chance(cell.own, cell.rule, cell.stratum)
        assert (chance > 0.0) == (cell.own > 0.0 or cell.rule > 0.0)
        assert chance <= 1.0


@given(traffic, st.floats(1.0, 1e5), st.floats(1.0, 1e5))
def test_a_larger_budget_lowers_no_chance(per_h: dict[Cell, float], one: float, other: float) -> None:
    low, high = (solve(per_h, budget, {}) for budget in sorted((one, other)))
    for cell in per_h:
        below, above = (rates.chance(cell.own, cell.rule, cell.stratum) for rates in (low, high))
        assert below <= above * (1.0 + 1e-6)


@given(governed, governed)
def test_a_step_is_bounded(wanted: GovernedRates, before: GovernedRates) -> None:
    after = smoothed(wanted, before)
    assert before.scale / 4.0 <= after.scale * (1.0 + 1e-9)
    assert after.scale <= min(1.0, before.scale * 1.5) * (1.0 + 1e-9)


@given(governed, st.datetimes(timezones=st.just(timezone.utc)))
def test_an_epoch_survives_its_json(rates: GovernedRates, first: datetime) -> None:
    epoch = Epoch(number=7, starts_at=START, rates={"g": rates}, first_seen={VersionKey("e", "a", "v"): first})
    assert epoch_from_json(7, START, json.loads(json.dumps(epoch.to_json()))) == epoch


@given(st.lists(st.integers(0, 1000), unique=True, min_size=1), st.integers(-10, 1010))
def test_an_epoch_is_in_force_until_the_next(starts: list[int], at: int) -> None:
    book = EpochBook(Epoch(number=n, starts_at=START + timedelta(minutes=n)) for n in starts)
    found = book.at(START + timedelta(minutes=at))
    assert (None if found is None else found.number) == max((n for n in starts if n <= at), default=None)


@given(
    governed,
    governed,
    shares,
    shares,
    st.sampled_from([None, "gold"]),
    st.sampled_from([1.0, 0.25]),
    st.text("abc0123456789", min_size=1),
)
def test_the_stored_chance_is_the_one_the_hash_was_held_against(
    one: GovernedRates, other: GovernedRates, base: float, raised: float, tier: str | None, head: float, trace_id: str
) -> None:
    """Brute force: of several governors the lowest chance stands, by head x tail, and judges still nest."""
    policy = SamplingPolicy.model_validate(
        {
            "rate": base,
            "strata": [{"name": "gold", "when": {"field": "tags.tier", "is": "gold"}}],
            "rules": [{"name": "errors", "when": {"field": "status", "is": "error"}, "rate": raised}],
            "governors": [
                {"name": "one", "judge": "dear", "max_per_h": 1},
                {"name": "other", "judge": "dear", "app": "shop", "max_per_h": 1},
                {"name": "elsewhere", "judge": "dear", "app": "no such app", "max_per_h": 1},
            ],
        }
    )
    trace = make_trace(trace_id=trace_id, tags={"tier": tier} if tier else {}, status="error", head_probability=head)
    rates = {"one": one, "other": other, "elsewhere": GovernedRates(scale=1e-4, rules=1e-4)}
    epoch = Epoch(number=1, starts_at=START, rates=rates)
    sampled = sample(trace, Signals(), policy, ["dear", "free"], epoch)
    tail = min(rate.chance(base, raised, "gold" if tier else "") for rate in (one, other))
    assert sampled.decisions["dear"].inclusion_probability == head * tail
    assert sampled.decisions["dear"].kept == keep(trace_id, tail, TAIL_SALT)
    plain = sample(trace, Signals(), policy, ["dear", "free"])
    assert sampled.decisions["free"] == plain.decisions["free"]
    if not one.floors and not other.floors and sampled.decisions["dear"].kept:
        assert plain.decisions["dear"].kept, "without floors a governor only ever takes traces away"
