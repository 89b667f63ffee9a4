"""Signals are computed for any text: hostile, odd or huge."""

from __future__ import annotations

import json
import math

from hypothesis import given, settings
from hypothesis import strategies as st

from tracejudge.sampling import Condition, SamplingPolicy, sample
from tracejudge.signals import compute_signals
from tracejudge.testing import make_trace

anything = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=300),
    st.text(st.sampled_from("aA 0.'’*\n\t\u202e\u0000\u0301\u200d漢かحא🙂ß\ufeff"), max_size=200),
    st.builds(
        lambda piece, times: piece * times,
        st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
        st.integers(0, 2000),
    ),
)
nodes = st.lists(
    st.fixed_dictionaries(
        {"text": st.none() | anything, "score": st.none() | st.floats(allow_nan=False, allow_infinity=False)}
    ),
    max_size=4,
)


@settings(deadline=None)
@given(anything, st.none() | anything, nodes)
def test_signals_of_any_text_are_finite_and_in_range(
    query: str, response: str | None, source_nodes: list[dict[str, object]]
) -> None:
    trace = make_trace(query=query, response=response, source_nodes=source_nodes)
    signals = compute_signals(trace)
    assert signals == compute_signals(trace)
    assert json.loads(json.dumps(signals.as_dict(), allow_nan=False)) == signals.as_dict()
    assert signals.query_chars == len(query)
    assert signals.has_context == (signals.text_node_count > 0)
    assert signals.text_node_count <= signals.node_count == len(source_nodes)
    assert signals.lexical_overlap is None or 0.0 <= signals.lexical_overlap <= 1.0
    if signals.retrieval_score_median is not None:
        assert signals.retrieval_score_min is not None
        assert signals.retrieval_score_max is not None
        assert math.isfinite(signals.retrieval_score_median)
        assert signals.retrieval_score_min <= signals.retrieval_score_median <= signals.retrieval_score_max


@settings(deadline=None)
@given(anything, anything, anything)
def test_conditions_hold_or_not_on_any_text_and_never_raise(query: str, tag: str, pattern: str) -> None:
    trace = make_trace(query=query, tags={"x": tag})
    signals = compute_signals(trace)
    conditions = [
        {"field": "tags.x", "above": 1.0},
        {"field": "tags.x", "below": 1.0},
        {"field": "query", "matches": pattern or "*"},
        {"field": "query", "contains": pattern or "x"},
    ]
    for condition in conditions:
        Condition.model_validate(condition).holds(trace, signals)
    policy = SamplingPolicy.model_validate(
        {"rules": [{"name": str(n), "when": when, "never": True} for n, when in enumerate(conditions)]}
    )
    assert sample(trace, signals, policy, ["a"]).decisions["a"].inclusion_probability in (0.0, 1.0)
