"""What the operators of a condition hold for, and what a wrong condition is told."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from pydantic import ValidationError

from tracejudge.sampling import Condition
from tracejudge.sampling.fields import FIELD_KINDS, fact
from tracejudge.signals import Signals
from tracejudge.testing import make_trace
from tracejudge_sdk.trace import Trace

TRACE = make_trace(
    status="error",
    latency_ms=900.0,
    category=None,
    tags={"tier": "gold", "retries": "3", "note": "n/a", "a.b": "dotted"},
    expected_ids=["n-1", "n-2"],
    truncated=True,
)
SIGNALS = Signals(query_chars=40, language="de", refusal=True, lexical_overlap=None, retrieval_score_min=0.2)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ({"field": "status", "is": "error"}, True),
        ({"field": "status", "is_not": "ok"}, True),
        ({"field": "status", "in": ["ok", "incomplete"]}, False),
        ({"field": "app", "is": "Shop"}, False),
        ({"field": "latency_ms", "above": 800}, True),
        ({"field": "latency_ms", "above": 900}, False),
        ({"field": "latency_ms", "above": 800, "below": 850}, False),
        ({"field": "latency_ms", "is": 900}, True),
        ({"field": "latency_ms", "in": [1, 900]}, True),
        ({"field": "truncated", "is": True}, True),
        ({"field": "truncated", "is": False}, False),
        ({"field": "head_probability", "below": 1}, False),
        ({"field": "event_time", "above": "2026-01-01T11:59:59Z"}, True),
        ({"field": "event_time", "below": "2026-01-01T13:00:00+01:00"}, False),
        ({"field": "expected_ids", "contains": "n-2"}, True),
        ({"field": "expected_ids", "contains": "n"}, False),
        ({"field": "expected_ids", "present": True}, True),
        ({"field": "query", "contains": "limit of plan"}, True),
        ({"field": "query", "matches": "What * plan *?"}, True),
        ({"field": "query", "matches": "*limit"}, False),
        ({"field": "app", "matches": "shop"}, True),
        ({"field": "app", "matches": "sh*op"}, True),
        ({"field": "app", "matches": "sho*hop"}, False),
        ({"field": "tags.tier", "in": ["gold", "silver"]}, True),
        ({"field": "tags.a.b", "is": "dotted"}, True),
        ({"field": "tags.retries", "above": 2}, True),
        ({"field": "tags.retries", "is": "3"}, True),
        ({"field": "tags.note", "above": 2}, False),
        ({"field": "tags.note", "below": 2}, False),
        ({"field": "tags.absent", "above": 2}, False),
        ({"field": "tags.absent", "is": "x"}, False),
        ({"field": "tags.absent", "is_not": "x"}, True),
        ({"field": "tags.absent", "present": False}, True),
        ({"field": "category", "is": ""}, True),
        ({"field": "category", "present": True}, False),
        ({"field": "signals.language", "is": "de"}, True),
        ({"field": "signals.refusal", "is": True}, True),
        ({"field": "signals.query_chars", "above": 39.5}, True),
        ({"field": "signals.retrieval_score_min", "below": 0.3}, True),
        # A missing number is neither low nor high.
        ({"field": "signals.lexical_overlap", "below": 0.3}, False),
        ({"field": "signals.lexical_overlap", "above": 0.0}, False),
        ({"field": "signals.lexical_overlap", "present": False}, True),
        ({"field": "signals.lexical_overlap", "is_not": 0.5}, True),
        ({"all": [{"field": "app", "is": "shop"}, {"field": "status", "is": "ok"}]}, False),
        ({"any": [{"field": "app", "is": "shop"}, {"field": "status", "is": "ok"}]}, True),
        ({"all": [{"field": "app", "is": "shop"}, {"any": [{"field": "status", "is": "error"}]}]}, True),
    ],
)
def test_operators(condition: dict[str, Any], expected: bool) -> None:
    assert Condition.model_validate(condition).holds(TRACE, SIGNALS) is expected


@pytest.mark.parametrize(
    ("condition", "place", "said"),
    [
        ({"field": "latency", "above": 1}, ("field",), "did you mean latency_ms"),
        ({"field": "tag.tier", "is": "gold"}, ("field",), "did you mean tags.tier?"),
        ({"field": "tags.", "is": "gold"}, ("field",), "tags.NAME"),
        ({"field": "signals.refusals", "is": True}, ("field",), "signals.refusal"),
        ({"field": "source_nodes", "present": True}, ("field",), "signals.node_count"),
        ({"field": "status", "is": "eror"}, ("is",), "use one of ok, error, incomplete"),
        ({"field": "status", "in": ["ok", "broken"]}, ("in",), "'broken' is never a status"),
        ({"field": "app", "is": 5}, ("is",), "put it between quotes"),
        ({"field": "tags.retries", "is": 3}, ("is",), "put it between quotes"),
        ({"field": "latency_ms", "is": "900"}, ("is",), "without quotes"),
        ({"field": "latency_ms", "is": True}, ("is",), "is not a number"),
        ({"field": "truncated", "is": 1}, ("is",), "true or false"),
        ({"field": "truncated", "above": 1}, ("above",), "use is, is_not, in, present"),
        ({"field": "latency_ms", "above": "8"}, ("above",), "finite number"),
        ({"field": "latency_ms", "above": float("nan")}, ("above",), "finite number"),
        ({"field": "latency_ms", "is": float("inf")}, ("is",), "finite number"),
        ({"field": "event_time", "below": "2026-01-01T00:00:00"}, ("below",), "time zone"),
        ({"field": "event_time", "is": "2026-01-01T00:00:00Z"}, ("is",), "use below, above, present"),
        ({"field": "app", "in": []}, ("in",), "list at least one value"),
        ({"field": "query", "contains": ""}, ("contains",), "is empty"),
        ({"field": "latency_ms", "matches": "9*"}, ("matches",), "does not go with latency_ms"),
        ({"field": "app"}, (), "has no operator"),
        ({"is": "a"}, (), "needs a field"),
        ({}, (), "this one has none"),
        ({"all": []}, (), "list at least one condition"),
        ({"field": "app", "is": "a", "any": [{"field": "app", "is": "b"}]}, (), "one of three"),
        ({"field": "app", "equals": "a"}, ("equals",), "not permitted"),
    ],
)
def test_a_wrong_condition_names_the_place_and_the_remedy(
    condition: dict[str, Any], place: tuple[str, ...], said: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        Condition.model_validate(condition)
    fault = caught.value.errors()[0]
    assert fault["loc"] == place
    assert said in fault["msg"]


def test_every_field_of_a_trace_and_every_signal_has_a_name_or_a_reason() -> None:
    left_out = {"schema_version", "kind", "source_nodes", "history", "tags"}  # constants, lists; tags have tags.NAME
    expected = set(Trace.model_fields) - left_out | {f"signals.{field.name}" for field in fields(Signals)}
    expected |= {"version_age_h"}  # which the epoch of a trace knows
    assert set(FIELD_KINDS) == expected
    for name in FIELD_KINDS:
        fact(name, TRACE, SIGNALS)


def test_a_pattern_of_many_stars_takes_no_time_on_a_long_text() -> None:
    pattern = Condition.model_validate({"field": "query", "matches": "*a" * 40 + "*b"})
    assert not pattern.holds(make_trace(query="a" * 200_000), SIGNALS)
