"""The laws of the quick way of reading: it accepts nothing that the slow way or the whole model refuses."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import event, example, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tracejudge_sdk import codec, quick
from tracejudge_sdk.codec import decode, encode
from tracejudge_sdk.errors import RecordError
from tracejudge_sdk.trace import SourceNode, Trace, Turn

PLAIN: dict[str, Any] = {
    "schema_version": 1,
    "kind": "trace",
    "trace_id": "t-1",
    "app": "shop",
    "event_time": "2026-01-01T12:00:00.123Z",
    "query": "Which plan?",
}

INSTANTS = (
    "2026-01-01T12:00:00Z", "2026-01-01T12:00:00.1Z", "2026-01-01T12:00:00.123456Z", "2026-01-01T12:00:00.1239999Z",
    "2026-01-01T12:00:00.123456789Z", "2026-01-01T12:00:00+00:00", "2026-01-01T12:00:00.5+02:00",
    "2026-01-01 12:00:00Z",
    "2026-01-01T12:00:00", "2026-02-30T12:00:00Z", "2026-01-01T24:00:00Z", "2026-01-01T12:00:60Z", "2026-01-01",
    "1969-12-31T23:59:59.999Z", "1970-01-01T00:00:00Z", "2099-12-31T23:59:59.999999Z", "2100-01-01T00:00:00Z",
    "2026-W01-1T12:00:00Z", "2026-001T12:00:00Z", "20260101T120000Z", "1767268800", 1767268800, 1767268800.5, True, "",
    "2026-01-01t12:00:00z", "2026-01-01T12:00:00,123Z", "2026-01-01T12:00:00.123Z\n", "٢٠٢٦-01-01T12:00:00Z", None,
)  # fmt: skip

texts = st.text(max_size=12)
anything = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-3, 3),
        st.integers(-(2**1100), 2**1100),
        st.floats(),
        texts,
        st.sampled_from(["ok", "trace", "part", "x" * 256, "x" * 257, "\ud800", "a\x00b", "😀" * 128, "1", "true"]),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=6,
)
nodes = st.fixed_dictionaries(
    {},
    optional={
        "node_id": texts | anything,
        "text": st.none() | texts | anything,
        "score": st.none() | st.floats() | st.integers() | anything,
        "metadata": st.dictionaries(texts, anything, max_size=2) | anything,
        "unknown": anything,
    },
)
turns = st.fixed_dictionaries({}, optional={"role": texts | anything, "content": texts | anything, "more": anything})
likely: dict[str, st.SearchStrategy[Any]] = {
    "schema_version": st.sampled_from([1, 1, 1, True, 1.0, "1", 2, 0]),
    "kind": st.sampled_from(["trace", "trace", "part", "feedback", "Trace"]),
    "event_time": st.sampled_from(INSTANTS),
    "status": st.sampled_from(["ok", "error", "incomplete", "OK"]),
    "source_nodes": st.lists(nodes, max_size=3),
    "history": st.lists(turns, max_size=2),
    "expected_ids": st.lists(texts | anything, max_size=2),
    "latency_ms": st.floats() | st.integers(),
    "head_probability": st.sampled_from([1, 1.0, 0.5, 1e-6, 9e-7, 0, -1, 2, True]),
    "tags": st.dictionaries(texts, texts | anything, max_size=2),
    "truncated": st.booleans() | st.sampled_from([0, 1, "true"]),
    "version": st.sampled_from(["v1", "x" * 256, "x" * 257, "😀" * 256, "😀" * 257]),
}


@st.composite
def objects(draw: st.DrawFn) -> dict[str, Any]:
    """A plain trace with a few fields changed, some likely right and some anything at all."""
    value = dict(PLAIN)
    for name in draw(st.lists(st.sampled_from([*Trace.model_fields, "unknown"]), max_size=5)):
        choice = draw(st.integers(0, 9))
        if choice == 0:
            value.pop(name, None)
        else:
            value[name] = draw(anything if choice < 3 else likely.get(name, texts))
    return value


@st.composite
def records(draw: st.DrawFn) -> bytes:
    """JSON of such an object, at times with a byte changed, doubled or left out."""
    data = json.dumps(draw(objects()), ensure_ascii=draw(st.booleans())).encode("utf-8", "surrogatepass")
    for _ in range(draw(st.sampled_from([0, 0, 1, 2]))):
        at = draw(st.integers(0, len(data) - 1))
        put = draw(
            st.sampled_from([b"", b"\xff", b"\x01", b'"', b"\\", b",", b"0", b"}", b"\\ud800", b"NaN", b"\xc0\x80"])
        )
        data = data[:at] + put + data[at + draw(st.integers(0, 1)) :]
    return data


def slowly(data: bytes) -> Trace | None:
    """The trace, read without the quick way."""
    try:
        record = codec.from_object(codec.parse(data))
    except RecordError:
        return None
    return record if isinstance(record, Trace) else None


def by_model(data: bytes) -> Trace | None:
    try:
        return Trace.model_validate_json(data)
    except ValidationError:
        return None


@given(data=records())
@settings(max_examples=600)
@example(data=json.dumps(PLAIN).encode())
def test_what_is_read_quickly_is_what_is_read_slowly(data: bytes) -> None:
    quickly = quick.read_trace(data)
    event("read quickly" if quickly is not None else "left to the slow way")
    if quickly is not None:
        slow = slowly(data)
        assert slow is not None, "the slow way refuses this"
        assert (quickly, quickly.model_dump()) == (slow, slow.model_dump())
        assert quickly.event_time.tzinfo is slow.event_time.tzinfo
        assert encode(quickly) == encode(slow)


@given(data=records())
@settings(max_examples=600)
def test_whatever_the_whole_model_refuses_is_refused(data: bytes) -> None:
    """But for the two kinds of trouble that are mended: lone surrogates, and deep nesting in fields nobody reads."""
    model = by_model(data)
    try:
        record = decode(data)
    except RecordError:
        return
    if not isinstance(record, Trace):
        return
    if model is None:
        assert re.search(rb"\\ud[89a-f][0-9a-f]{2}", data, re.IGNORECASE), "the model refuses this"
    else:
        assert record == model


@pytest.mark.parametrize("at", INSTANTS, ids=repr)
def test_every_way_of_writing_an_instant_is_read_alike(at: object) -> None:
    data = json.dumps({**PLAIN, "event_time": at}).encode()
    quickly, slow = quick.read_trace(data), slowly(data)
    assert quickly is None or quickly == slow
    assert (slow is None) <= (quickly is None)


UNSEEN = (b'"x":"a\xffb"', b'"\xff":1', b'"x":"\xed\xa0\x80"', b'"x":' + b"1" * 5000, b'"x":' + b"[" * 500 + b"]" * 500)


@pytest.mark.parametrize("field", UNSEEN, ids=lambda field: repr(field[:12]))
def test_what_stands_in_unknown_fields_is_left_to_the_slow_way(field: bytes) -> None:
    """msgspec passes over it without a look, and would accept bytes that are not UTF-8."""
    data = json.dumps(PLAIN).encode()[:-1] + b"," + field + b"}"
    node = json.dumps(PLAIN).encode()[:-1] + b',"source_nodes":[{' + field + b"}]}"
    assert quick.read_trace(data) is None
    assert quick.read_trace(node) is None


def test_the_quick_way_knows_every_field_with_its_default() -> None:
    pairs = ((quick._Trace, Trace), (quick._Node, SourceNode), (quick._Turn, Turn))
    for struct, model in pairs:
        assert list(struct.__struct_fields__) == list(model.model_fields), "the order is that of writing"
    plain = quick.read_trace(json.dumps(PLAIN).encode())
    assert plain is not None
    assert plain.model_dump() == Trace.model_validate(PLAIN).model_dump()


def test_traces_read_quickly_share_no_dict() -> None:
    one, other = (quick.read_trace(json.dumps({**PLAIN, "source_nodes": [{}]}).encode()) for _ in range(2))
    assert one is not None
    assert other is not None
    assert one.tags is not other.tags
    assert one.source_nodes[0].metadata is not other.source_nodes[0].metadata


def test_a_trace_read_quickly_can_be_changed_into_another_one() -> None:
    trace = quick.read_trace(json.dumps(PLAIN).encode())
    assert trace is not None
    changed = trace.model_copy(update={"version": "v2"})
    assert (trace.version, changed.version) == ("", "v2")
    assert hash(trace.trace_id) == hash(changed.trace_id)
    with pytest.raises(ValidationError):
        trace.version = "v3"  # type: ignore[misc]
