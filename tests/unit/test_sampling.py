"""How strata, rules and rates of a policy become the decision of each judge."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tracejudge.sampling import SamplingDecision, SamplingPolicy, sample
from tracejudge.signals import Signals
from tracejudge.testing import make_trace
from tracejudge_sdk.sampling import TAIL_SALT, keep, position

SIGNALS = Signals()
POLICY = SamplingPolicy.model_validate(
    {
        "rate": 0.5,
        "judges": {"faithfulness": 0.1},
        "strata": [
            {"name": "gold", "when": {"field": "tags.tier", "is": "gold"}, "rates": {"faithfulness": 0.3}},
            {"name": "bulk", "when": {"field": "category", "is": "bulk"}, "rate": 0.02, "judges": ["faithfulness"]},
            {"name": "test", "when": {"field": "app", "is": "test"}, "rate": 0.0},
        ],
        "rules": [
            {"name": "errors", "when": {"field": "status", "is": "error"}, "rate": 1.0},
            {"name": "slow", "when": {"field": "latency_ms", "above": 800}, "rate": 0.2, "judges": ["faithfulness"]},
            {"name": "pings", "when": {"field": "query", "matches": "ping*"}, "never": True},
            {"name": "staff", "when": {"field": "user_id", "is": "u1"}, "never": True, "judges": ["faithfulness"]},
        ],
    }
)


def decide(policy: SamplingPolicy = POLICY, **fields: Any) -> dict[str, SamplingDecision]:
    return dict(sample(make_trace(**fields), SIGNALS, policy, ["lexical", "faithfulness"]).decisions)


@pytest.mark.parametrize(
    ("fields", "stratum", "lexical", "faithfulness", "rule"),
    [
        ({}, "", 0.5, 0.1, "base rate 0.1"),
        ({"tags": {"tier": "gold"}}, "gold", 0.5, 0.3, "stratum 'gold': rate 0.3"),
        ({"category": "bulk"}, "bulk", 0.5, 0.02, "stratum 'bulk': rate 0.02"),
        # The first stratum that matches is the one.
        ({"tags": {"tier": "gold"}, "category": "bulk"}, "gold", 0.5, 0.3, "stratum 'gold': rate 0.3"),
        ({"app": "test"}, "test", 0.0, 0.0, "stratum 'test': rate 0"),
        ({"latency_ms": 900}, "", 0.5, 0.2, "rule 'slow': rate 0.2"),
        # A rule raises and never lowers.
        ({"latency_ms": 900, "tags": {"tier": "gold"}}, "gold", 0.5, 0.3, "stratum 'gold': rate 0.3"),
        ({"latency_ms": 900, "status": "error"}, "", 1.0, 1.0, "rule 'errors': rate 1"),
        ({"app": "test", "status": "error"}, "test", 1.0, 1.0, "rule 'errors': rate 1"),
        ({"head_probability": 0.25}, "", 0.125, 0.025, "base rate 0.1, of the 0.25 that the service sent"),
    ],
)
def test_the_chance_is_the_largest_rate_that_speaks_for_the_trace(
    fields: dict[str, Any], stratum: str, lexical: float, faithfulness: float, rule: str
) -> None:
    sampled = sample(make_trace(**fields), SIGNALS, POLICY, ["lexical", "faithfulness"])
    assert sampled.stratum == stratum
    assert sampled.decisions["lexical"].inclusion_probability == pytest.approx(lexical)
    assert sampled.decisions["faithfulness"].inclusion_probability == pytest.approx(faithfulness)
    assert sampled.decisions["faithfulness"].rule == rule
    assert not any(decision.filtered for decision in sampled.decisions.values())


def test_a_never_rule_wins_over_every_rate() -> None:
    for decision in decide(query="ping 1", status="error", tags={"tier": "gold"}).values():
        assert decision == SamplingDecision(
            kept=False, filtered=True, inclusion_probability=0.0, rule="rule 'pings': never"
        )


def test_a_never_rule_for_one_judge_leaves_the_others_alone() -> None:
    decisions = decide(user_id="u1", status="error")
    assert decisions["faithfulness"].filtered
    assert decisions["lexical"].kept


def test_an_empty_policy_keeps_everything() -> None:
    for number in range(50):
        for decision in decide(SamplingPolicy(), number=number).values():
            assert decision == SamplingDecision(
                kept=True, filtered=False, inclusion_probability=1.0, rule="base rate 1"
            )


def test_the_judges_that_see_the_trace_are_those_that_keep_it() -> None:
    sampled = sample(make_trace(status="error", user_id="u1"), SIGNALS, POLICY, ["lexical", "faithfulness"])
    assert sampled.judge_names == {"lexical"}


def test_judges_without_a_model_see_everything_unless_they_have_a_rate() -> None:
    policy = SamplingPolicy(rate=0.1, judges={"overlap": 0.2}).with_full_rate(["lexical", "overlap"])
    assert [policy.base_rate(name) for name in ("lexical", "overlap", "faithfulness")] == [1.0, 0.2, 0.1]


def test_b23_shares_hold_and_nest_for_sequential_ids() -> None:
    ids = [f"t-{number:06d}" for number in range(1, 1001)]
    policy = SamplingPolicy(judges={"a": 0.1, "b": 0.2, "none": 0.0, "all": 1.0})

    def kept(judge: str) -> set[str]:
        return {
            trace_id
            for trace_id in ids
            if judge in sample(make_trace(trace_id=trace_id), SIGNALS, policy, ["a", "b", "none", "all"]).judge_names
        }

    # Two consumers, run twice: the same decision everywhere and every time.
    assert kept("a") == kept("a") == {trace_id for trace_id in ids if keep(trace_id, 0.1, TAIL_SALT)}
    assert kept("a") < kept("b")
    assert 70 <= len(kept("a")) <= 130
    assert kept("none") == set()
    assert kept("all") == set(ids)


@pytest.mark.parametrize(
    ("table", "place", "said"),
    [
        ({"rate": 1.5}, ("rate",), "from 0 to 1"),
        ({"rate": True}, ("rate",), "is not a number"),
        ({"rate": "0.5"}, ("rate",), "is not a number"),
        ({"rate": float("nan")}, ("rate",), "from 0 to 1"),
        ({"judges": {"a": 1e-9}}, ("judges", "a"), "write 0 for none"),
        ({"strata": [{"name": "s", "when": {"field": "app", "is": "a"}, "judges": ["a"]}]}, ("strata", 0), "add it"),
        ({"rules": [{"name": "r", "when": {"field": "app", "is": "a"}}]}, ("rules", 0), "either a rate or never"),
        (
            {"rules": [{"name": "r", "when": {"field": "app", "is": "a"}, "rate": 1, "never": True}]},
            ("rules", 0),
            "either a rate or never",
        ),
        ({"rules": [{"name": "r", "when": {"field": "app", "is": "a"}, "rate": 1}] * 2}, ("rules",), "one name each"),
        (
            {"rules": [{"name": "r", "when": {"field": "ap", "is": "a"}, "rate": 1}]},
            ("rules", 0, "when", "field"),
            "app",
        ),
        ({"rat": 1}, ("rat",), "not permitted"),
    ],
)
def test_a_wrong_policy_names_the_place_and_the_remedy(
    table: dict[str, Any], place: tuple[str | int, ...], said: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        SamplingPolicy.model_validate(table)
    fault = caught.value.errors()[0]
    assert fault["loc"] == place
    assert said in fault["msg"]


def test_the_policy_says_whom_it_names() -> None:
    assert POLICY.judge_names() == {"faithfulness"}
    policy = SamplingPolicy.model_validate(
        {
            "judges": {"a": 1.0},
            "strata": [
                {"name": "s", "when": {"field": "app", "is": "a"}, "rate": 1, "judges": ["b"], "rates": {"c": 1}}
            ],
            "rules": [{"name": "r", "when": {"field": "app", "is": "a"}, "rate": 1, "judges": ["d"]}],
        }
    )
    assert policy.judge_names() == {"a", "b", "c", "d"}


def test_the_fingerprint_changes_with_every_word_and_survives_a_round_trip() -> None:
    table = json.loads(POLICY.model_dump_json(by_alias=True))
    assert SamplingPolicy.model_validate(table).fingerprint() == POLICY.fingerprint()
    assert len(POLICY.fingerprint()) == 12
    table["strata"][0]["when"]["is"] = "silver"
    assert SamplingPolicy.model_validate(table).fingerprint() != POLICY.fingerprint()
    assert SamplingPolicy(rate=1.0).fingerprint() == SamplingPolicy().fingerprint()
    # Golden: stored decisions name the policy they were made by.
    assert SamplingPolicy(rate=0.1, judges={"a": 0.5}).fingerprint() == "cfa0e4ab38dc"


def test_other_processes_decide_alike_whatever_their_hash_seed() -> None:
    script = (
        "import json, sys; from tests.unit.test_sampling import POLICY, SIGNALS; "
        "from tracejudge.sampling import sample; from tracejudge.testing import make_trace; "
        "print(json.dumps([[one.kept, one.inclusion_probability] for n in range(200) for one in "
        "sample(make_trace(n, latency_ms=n * 10), SIGNALS, POLICY, ['lexical', 'faithfulness']).decisions.values()]))"
    )
    here = [
        [one.kept, one.inclusion_probability]
        for n in range(200)
        for one in sample(
            make_trace(n, latency_ms=n * 10), SIGNALS, POLICY, ["lexical", "faithfulness"]
        ).decisions.values()
    ]
    for seed in ("0", "17"):
        done = subprocess.run(
            [sys.executable, "-c", script],
            capture_output=True,
            text=True,
            check=True,
            cwd=Path(__file__).parents[2],
            env={**os.environ, "PYTHONHASHSEED": seed},
        )
        assert json.loads(done.stdout) == here


def test_a_trace_is_kept_from_just_above_its_place_on() -> None:
    """Of the ids whose place is a float exactly: every implementation of the hash must cut there alike."""
    trace_id = next(name for n in range(100_000) if position(name := f"t-{n}", TAIL_SALT) % 2**11 == 0)
    place = position(trace_id, TAIL_SALT) / 2**64
    assert not keep(trace_id, place, TAIL_SALT)
    assert keep(trace_id, math.nextafter(place, 1.0), TAIL_SALT)
