"""The law of the short way to bytes: whatever a service hands in, it gives the record of the long way, or nothing."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tracejudge_sdk import codec
from tracejudge_sdk.building import to_trace
from tracejudge_sdk.capture import capture
from tracejudge_sdk.fields import FIELD_NAMES
from tracejudge_sdk.plain import plain_encoder

DEFAULTS = {"app": "shop", "environment": "production", "version": "v1"}
ENCODE = plain_encoder(DEFAULTS)

texts = st.text(max_size=20) | st.text(alphabet="a\ud800é🙂", max_size=5)
scalars = st.none() | st.booleans() | st.integers(-(2**80), 2**80) | st.floats() | texts
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts | st.integers(), inner, max_size=3)
)
metadata = st.dictionaries(texts, scalars, max_size=4)
nodes = st.fixed_dictionaries(
    {}, optional={"node_id": texts, "text": texts, "score": st.floats(), "metadata": metadata | values, "id": scalars}
)
names = st.sampled_from(sorted(FIELD_NAMES - {"trace_id", "source_nodes", "event_time"})) | st.just("unknown")
usual = st.fixed_dictionaries({"query": texts}, optional={"source_nodes": st.lists(nodes | values, max_size=4)})
odd = st.dictionaries(names, values | st.sampled_from(["ok", "error", "m" * 257, 5, 0.5]), max_size=4)


@given(usual, odd)
def test_the_short_way_gives_the_record_of_the_long_way_or_nothing(usual: dict[str, Any], odd: dict[str, Any]) -> None:
    assert ENCODE is not None
    fields = {**usual, **odd}
    long = to_trace(capture(copy.deepcopy(fields), "t-1", 1_750_000_000_123, 0.5), DEFAULTS)
    found = ENCODE(capture(fields, "t-1", 1_750_000_000_123, 0.5))
    if found is not None:
        short = codec.decode(found[0])
        assert short == long
        assert found[1] == long.lossy


@given(usual)
def test_a_snapshot_shares_nothing_with_what_was_handed_in(usual: dict[str, Any]) -> None:
    before = copy.deepcopy(usual)
    given_nodes = usual.get("source_nodes")
    snapshot = capture(dict(usual), "t-1", 1_750_000_000_123, 1.0)
    expected = to_trace(snapshot, DEFAULTS)
    for node in given_nodes or ():
        if isinstance(node, dict):
            if isinstance(node.get("metadata"), dict):
                node["metadata"].clear()
            node.clear()
    if isinstance(given_nodes, list):
        given_nodes.clear()
    again = to_trace(snapshot, DEFAULTS)
    assert again == expected
    assert to_trace(capture(before, "t-1", 1_750_000_000_123, 1.0), DEFAULTS) == expected
