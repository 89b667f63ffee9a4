"""Traces of every shape, for property tests of whatever stores or reads them."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from hypothesis import strategies as st

from tracejudge_sdk.trace import Trace

UTC = timezone.utc

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
names = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
ids = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
optional = st.none() | names
floats = st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    # Surrogates too: metadata is free JSON, which may hold what UTF-8 cannot.
    st.none() | st.booleans() | st.integers() | floats | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
nodes = st.fixed_dictionaries(
    {
        "node_id": names,
        "text": st.none() | texts,
        "score": st.none() | floats,
        "metadata": st.dictionaries(st.text(max_size=5), json_values, max_size=3),
    }
)
instants = st.datetimes(
    min_value=datetime(1971, 1, 1),  # noqa: DTZ001  (hypothesis attaches the zone)
    max_value=datetime(2099, 1, 1),  # noqa: DTZ001
    timezones=st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=30))]),
)
traces: st.SearchStrategy[Trace] = st.fixed_dictionaries(
    {
        "trace_id": ids,
        "app": ids,
        "environment": ids,
        "version": names,
        "event_time": instants,
        "query": texts,
        "response": st.none() | texts,
        "status": st.sampled_from(["ok", "error", "incomplete"]),
        "error": st.none() | texts,
        "source_nodes": st.lists(nodes, max_size=3),
        "history": st.lists(st.fixed_dictionaries({"role": names, "content": texts}), max_size=2),
        "reference": st.none() | texts,
        "expected_ids": st.lists(names, max_size=3),
        "case_id": st.none() | texts,
        "latency_ms": st.none() | st.floats(min_value=0, allow_nan=False, allow_infinity=False),
        **dict.fromkeys(
            ["model", "prompt_version", "index_version", "category", "session_id", "user_id", "language"], optional
        ),
        "tags": st.dictionaries(texts, texts, max_size=3),
        "truncated": st.booleans(),
        "lossy": st.booleans(),
        "head_probability": st.floats(min_value=1e-6, max_value=1.0),
        "sdk": names,
    }
).map(Trace.model_validate)
