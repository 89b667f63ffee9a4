"""The laws of sampling: exact chances, nesting, monotony, independence of head and tail."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tracejudge.sampling import SamplingPolicy, sample
from tracejudge.sampling.policy import concerns
from tracejudge.signals import Signals
from tracejudge.testing import make_trace
from tracejudge_sdk.sampling import HEAD_SALT, TAIL_SALT, keep

JUDGES = ("a", "b", "c")
SIGNALS = Signals()

rates = st.one_of(st.sampled_from([0.0, 1.0, 0.5]), st.floats(0.01, 1.0))
judge_lists = st.lists(st.sampled_from(JUDGES), max_size=2, unique=True)
conditions = st.one_of(
    st.builds(lambda tier: {"field": "tags.tier", "is": tier}, st.sampled_from(["gold", "bulk"])),
    st.just({"field": "status", "is": "error"}),
    st.just({"any": [{"field": "status", "is": "error"}, {"field": "tags.tier", "is_not": "gold"}]}),
    st.just({"field": "latency_ms", "above": 500}),
)
strata = st.lists(
    st.fixed_dictionaries(
        {"when": conditions}, optional={"rate": rates, "rates": st.dictionaries(st.sampled_from(JUDGES), rates)}
    ),
    max_size=3,
)
rules = st.lists(
    st.one_of(
        st.fixed_dictionaries({"when": conditions, "rate": rates, "judges": judge_lists}),
        st.fixed_dictionaries({"when": conditions, "never": st.just(True), "judges": judge_lists}),
    ),
    max_size=4,
)


def _named(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"name": f"n{number}", **item} for number, item in enumerate(items)]


policies = st.builds(
    lambda rate, judges, strata, rules: SamplingPolicy.model_validate(
        {"rate": rate, "judges": judges, "strata": _named(strata), "rules": _named(rules)}
    ),
    rates,
    st.dictionaries(st.sampled_from(JUDGES), rates),
    strata,
    rules,
)
traces = st.builds(
    lambda trace_id, tier, status, latency, head: make_trace(
        trace_id=trace_id,
        tags={} if tier is None else {"tier": tier},
        status=status,
        latency_ms=latency,
        head_probability=head,
    ),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30),
    st.sampled_from([None, "gold", "bulk"]),
    st.sampled_from(["ok", "error"]),
    st.sampled_from([None, 10.0, 900.0]),
    st.sampled_from([1.0, 0.25]),
)


def _slow_chance(policy: SamplingPolicy, trace: Any, judge: str) -> float | None:
    """The tail chance spelt out rule by rule; None when the trace is ruled out."""
    chance = policy.base_rate(judge)
    for stratum in policy.strata:
        if stratum.when.holds(trace, SIGNALS):
            if judge in stratum.rates:
                chance = stratum.rates[judge]
            elif stratum.rate is not None and concerns(stratum.judges, judge):
                chance = stratum.rate
            break
    for rule in policy.rules:
        if concerns(rule.judges, judge) and rule.when.holds(trace, SIGNALS):
            if rule.never:
                return None
            assert rule.rate is not None
            chance = max(chance, rule.rate)
    return chance


@given(policies, traces)
def test_the_recorded_chance_and_the_decision_are_those_of_the_rules_spelt_out(
    policy: SamplingPolicy, trace: Any
) -> None:
    sampled = sample(trace, SIGNALS, policy, JUDGES)
    assert sampled == sample(trace, SIGNALS, policy, reversed(JUDGES))
    for judge, decision in sampled.decisions.items():
        chance = _slow_chance(policy, trace, judge)
        if chance is None:
            assert decision.filtered
            assert not decision.kept
            assert decision.inclusion_probability == 0.0
        else:
            assert not decision.filtered
            assert decision.inclusion_probability == trace.head_probability * chance
            assert decision.kept == keep(trace.trace_id, chance, TAIL_SALT)
            assert not (decision.kept and decision.inclusion_probability == 0.0)


@settings(max_examples=20)
@given(policies, traces)
def test_the_recorded_chance_is_the_share_that_is_kept(policy: SamplingPolicy, trace: Any) -> None:
    """Brute force over ids: the share lies within 4.5 standard errors, and is exact for 0 and 1."""
    count = 1000
    trace = trace.model_copy(update={"head_probability": 1.0})
    kept = dict.fromkeys(JUDGES, 0)
    for number in range(count):
        sampled = sample(trace.model_copy(update={"trace_id": f"s-{number}"}), SIGNALS, policy, JUDGES)
        for judge in sampled.judge_names:
            kept[judge] += 1
    for judge in JUDGES:
        chance = _slow_chance(policy, trace, judge) or 0.0
        error = 4.5 * math.sqrt(chance * (1.0 - chance) / count)
        assert abs(kept[judge] / count - chance) <= error


@given(policies, traces)
def test_judges_nest_in_the_order_of_their_chances(policy: SamplingPolicy, trace: Any) -> None:
    decisions = [each for each in sample(trace, SIGNALS, policy, JUDGES).decisions.values() if not each.filtered]
    decisions.sort(key=lambda decision: decision.inclusion_probability)
    kept = [decision.kept for decision in decisions]
    assert kept == sorted(kept)


@given(traces, rates, rates)
def test_raising_a_rate_only_adds_traces(trace: Any, one: float, other: float) -> None:
    low, high = sorted((one, other))
    before = sample(trace, SIGNALS, SamplingPolicy(rate=low), JUDGES)
    after = sample(trace, SIGNALS, SamplingPolicy(rate=high), JUDGES)
    assert before.judge_names <= after.judge_names


def test_head_and_tail_are_independent() -> None:
    """Of what the head keeps at .1 the tail keeps .1 again, and so .01 of all: recorded as that product."""
    count = 20_000
    policy = SamplingPolicy(rate=0.1)
    seen = both = 0
    for number in range(count):
        trace = make_trace(trace_id=f"t-{number:06d}", head_probability=0.1)
        if keep(trace.trace_id, 0.1, HEAD_SALT):
            seen += 1
            decision = sample(trace, SIGNALS, policy, ["a"]).decisions["a"]
            both += decision.kept
            assert decision.inclusion_probability == 0.1 * 0.1
    assert abs(seen / count - 0.1) <= 4.5 * math.sqrt(0.1 * 0.9 / count)
    assert abs(both / count - 0.01) <= 4.5 * math.sqrt(0.01 * 0.99 / count)


def test_the_weighted_share_is_unbiased_where_the_plain_one_is_not() -> None:
    """Failures are oversampled by a rule; weighting by 1 / recorded chance gives the true rate back."""
    policy = SamplingPolicy.model_validate(
        {"rate": 0.1, "rules": [{"name": "e", "when": {"field": "status", "is": "error"}, "rate": 0.8}]}
    )
    count, passed, weight, plain, judged = 6000, 0.0, 0.0, 0, 0
    for number in range(count):
        failed = number % 10 == 0
        decision = sample(make_trace(number, status="error" if failed else "ok"), SIGNALS, policy, ["a"]).decisions["a"]
        if decision.kept:
            judged += 1
            plain += not failed
            weight += 1.0 / decision.inclusion_probability
            passed += 0.0 if failed else 1.0 / decision.inclusion_probability
    assert abs(passed / weight - 0.9) < 0.02
    assert plain / judged < 0.6
