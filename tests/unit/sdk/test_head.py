"""Head sampling with traces that are always kept, and the chance that is recorded in each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tracejudge_sdk import ConfigError, TraceClient, keep
from tracejudge_sdk.head import HeadSampling
from tracejudge_sdk.sampling import HEAD_SALT
from tracejudge_sdk.testing import MemoryTransport, traces_of
from tracejudge_sdk.trace import Trace

KEPT = next(f"t{number}" for number in range(1000) if keep(f"t{number}", 0.1, HEAD_SALT))
LEFT_OUT = next(f"t{number}" for number in range(1000) if not keep(f"t{number}", 0.1, HEAD_SALT))
RULES = HeadSampling(0.1, always_keep_errors=True, always_keep_tags={"tier": ["paid", "trial"], "beta": "*", "n": "5"})


@pytest.mark.parametrize(
    ("fields", "always"),
    [
        ({}, False),
        ({"status": "ok"}, False),
        ({"status": "error"}, True),
        ({"status": "incomplete", "error": "CancelledError"}, False),
        ({"error": ValueError("x")}, True),
        ({"tags": {"tier": "paid"}}, True),
        ({"tags": {"tier": "free"}}, False),
        ({"tags": {"beta": ""}}, True),
        ({"tags": {"beta": None}}, False),
        ({"tags": {"n": 5}}, True),
        ({"tier": "trial"}, True),
        ({"tags": ["tier", "paid"]}, False),
        ({"tags": "paid"}, False),
    ],
)
def test_errors_and_chosen_tags_are_always_kept_with_chance_one(fields: Mapping[str, Any], always: bool) -> None:
    assert RULES.decide(LEFT_OUT, fields) == (1.0 if always else None)
    # The chance is what it would have been whatever the hash, also where the hash keeps it.
    assert RULES.decide(KEPT, fields) == (1.0 if always else 0.1)


def test_errors_are_kept_only_where_that_is_asked_for() -> None:
    assert HeadSampling(0.1).decide(LEFT_OUT, {"status": "error"}) is None
    assert HeadSampling(0.0, always_keep_errors=True).decide("t", {"status": "error"}) == 1.0
    assert HeadSampling(0.0, always_keep_errors=True).decide("t", {}) is None


def test_weights_give_back_the_whole_traffic() -> None:
    """Horvitz-Thompson: the sum of 1 / chance over what was kept estimates what was logged, within four deviations."""
    rules = HeadSampling(0.2, always_keep_errors=True)
    kept = [
        chance
        for number in range(20_000)
        if (chance := rules.decide(f"trace-{number}", {"status": "error" if number % 10 == 0 else "ok"})) is not None
    ]
    assert kept.count(1.0) == 2_000
    deviation = (18_000 * (1 - 0.2) / 0.2) ** 0.5
    assert sum(1 / chance for chance in kept) == pytest.approx(20_000, abs=4 * deviation)


def test_a_client_records_the_chance_of_each_trace() -> None:
    transport = MemoryTransport()
    client = TraceClient(app="shop", transport=transport, head_probability=0.1, always_keep_tags={"tier": ["paid"]})
    client.log(trace_id=LEFT_OUT, query="left out")
    client.log(trace_id=KEPT, query="by chance")
    client.log(trace_id=f"{LEFT_OUT}", query="error", status="error", error="x")
    client.log(trace_id=LEFT_OUT, query="tag", tags={"tier": "paid"})
    with pytest.raises(KeyError), client.trace(query="raised", trace_id=LEFT_OUT):
        raise KeyError
    built = _built()
    client.log_trace(built.model_copy(update={"status": "error"}))
    client.log_trace(built)
    assert client.close(30)
    assert [(trace.query, trace.head_probability) for trace in traces_of(transport)] == [
        ("by chance", 0.1),
        ("error", 1.0),
        ("tag", 1.0),
        ("raised", 1.0),
        ("built", 1.0),
    ]
    assert client.stats().sampled_out == 2


def _built() -> Trace:
    return Trace.model_validate(
        {"trace_id": LEFT_OUT, "app": "shop", "query": "built", "event_time": "2026-01-01T00:00:00Z"}
    )


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"always_keep_errors": "yes"}, "always_keep_errors: 'yes' is neither"),
        ({"always_keep_tags": ["tier"]}, "always_keep_tags: list is not a mapping"),
        ({"always_keep_tags": {"tier": 5}}, "always_keep_tags: 'tier': 5 is not a text"),
        ({"always_keep_tags": {"tier": [5]}}, "always_keep_tags: 'tier': [5] is not a text"),
    ],
)
def test_rules_that_cannot_work_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        TraceClient(app="shop", transport=MemoryTransport(), **settings)
    assert words in str(refused.value)
