"""The laws of files of traces: what is written comes back, and no bytes stop the reader."""

from __future__ import annotations

import io
import json
from datetime import datetime, timezone
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tracejudge.datasets import BrokenLine, Line, event_times, read_stream, write_line
from tracejudge.testing import make_trace
from tracejudge_sdk.trace import Trace

TIMES = event_times(datetime(2026, 1, 1, tzinfo=timezone.utc), 1.0)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
finite = st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | finite | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
traces = st.builds(
    make_trace,
    st.integers(0, 10_000),
    query=texts,
    response=st.none() | texts,
    status=st.sampled_from(["ok", "error", "incomplete"]),
    environment=st.sampled_from(["production", "staging"]),
    latency_ms=st.none() | st.floats(0, 1e6),
    head_probability=st.sampled_from([1.0, 0.1]),
    tags=st.dictionaries(texts, texts, max_size=3),
    expected_ids=st.lists(texts, max_size=2),
    source_nodes=st.lists(
        st.fixed_dictionaries(
            {"node_id": texts, "text": st.none() | texts, "score": st.none() | finite},
            optional={"metadata": st.dictionaries(texts, texts, max_size=2)},
        ),
        max_size=3,
    ),
    history=st.lists(st.fixed_dictionaries({"role": texts, "content": texts}), max_size=2),
)


def _stream(data: bytes) -> io.BufferedReader:
    return io.BufferedReader(io.BytesIO(data))  # type: ignore[return-value, unused-ignore]  # stubs want a raw stream


@given(st.lists(traces, max_size=4))
def test_what_is_written_comes_back(those: list[Trace]) -> None:
    out = io.BytesIO()
    for trace in those:
        write_line(out, trace)
    assert [
        line.trace for line in read_stream(_stream(out.getvalue()), event_time=TIMES) if isinstance(line, Line)
    ] == those


@given(st.binary(max_size=300))
def test_no_bytes_stop_the_reader(data: bytes) -> None:
    lines = list(read_stream(_stream(data), event_time=TIMES, app="a", max_line_bytes=100))
    assert all(isinstance(line, BrokenLine) for line in lines)
    assert len(lines) <= data.count(b"\n") + 1


@given(json_values, json_values, json_values, st.dictionaries(st.text(max_size=8), json_values, max_size=3))
def test_no_value_of_a_line_stops_the_reader(metadata: Any, labels: Any, tags: Any, fields: dict[str, Any]) -> None:
    value = {"trace_id": "t", "app": "a", "query": "q", **fields, "metadata": metadata, "labels": labels, "tags": tags}
    data = json.dumps(value).encode()
    (line,) = read_stream(_stream(data), event_time=TIMES)
    if isinstance(line, Line):
        line.trace.model_dump_json().encode()
        assert all(isinstance(text, str) for text in line.trace.tags.values())
    else:
        assert isinstance(line, BrokenLine)
        assert line.raw == data
