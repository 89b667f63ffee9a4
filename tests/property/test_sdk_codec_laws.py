"""The laws of the codec: round trip, size, and that bytes from anywhere never do more than be refused."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tracejudge_sdk import codec
from tracejudge_sdk.errors import RecordError, RecordTooLarge
from tracejudge_sdk.json_values import check_json, coerce_json, scrub_text
from tracejudge_sdk.nodes import _quick, read_node
from tracejudge_sdk.trace import EARLIEST, LATEST, Feedback, Record, SourceNode, Trace, TracePart, Turn

texts = st.text(max_size=40)
ids = st.text(min_size=1, max_size=128)
names = st.text(min_size=1, max_size=20)
finite = st.floats(allow_nan=False, allow_infinity=False)
instants = st.datetimes(
    EARLIEST.replace(tzinfo=None), LATEST.replace(tzinfo=None, year=2099), timezones=st.just(timezone.utc)
)
json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**70), 2**70), finite, texts),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=8,
)
nodes = st.builds(
    SourceNode,
    node_id=texts,
    text=st.none() | texts,
    score=st.none() | finite,
    metadata=st.dictionaries(texts, json_values, max_size=3),
)
turns = st.builds(Turn, role=texts, content=texts)
optional_fields: dict[str, Any] = {
    "response": st.none() | texts,
    "status": st.sampled_from(["ok", "error", "incomplete"]),
    "source_nodes": st.lists(nodes, max_size=4).map(tuple),
    "history": st.lists(turns, max_size=2).map(tuple),
    "reference": st.none() | texts,
    "expected_ids": st.lists(texts, max_size=2).map(tuple),
    "latency_ms": st.none() | st.floats(0, 1e12),
    "category": st.none() | st.text(max_size=256),
    "tags": st.dictionaries(texts, texts, max_size=3),
    "truncated": st.booleans(),
    "lossy": st.booleans(),
    "head_probability": st.floats(1e-6, 1),
}
common: dict[str, Any] = {"trace_id": ids, "app": names, "environment": names, "event_time": instants}
traces = st.builds(Trace, query=texts, **common, **optional_fields)
parts = st.builds(TracePart, query=st.none() | texts, final=st.booleans(), **common, **optional_fields)
feedbacks = st.builds(Feedback, feedback_id=ids, value=st.none() | finite, comment=st.none() | texts, **common)
records = st.one_of(traces, parts, feedbacks)


@given(record=records)
def test_decode_undoes_encode(record: Record) -> None:
    assert codec.decode(codec.encode(record)) == record


@given(record=records)
def test_what_is_written_is_json_of_one_line(record: Record) -> None:
    data = codec.encode(record)
    assert b"\n" not in data
    json.loads(data, parse_constant=lambda name: pytest.fail(name))


@given(
    record=records, extra=st.dictionaries(st.text(min_size=1).map(lambda name: "x-" + name), json_values, max_size=3)
)
def test_unknown_fields_change_nothing(record: Record, extra: dict[str, Any]) -> None:
    assert codec.from_object({**extra, **json.loads(codec.encode(record))}) == record


@given(record=records, max_bytes=st.integers(100, 2500))
@settings(max_examples=200)
def test_a_record_fits_or_is_refused_and_its_ids_and_scores_stay(record: Record, max_bytes: int) -> None:
    refusal, data = None, b""
    try:
        data = codec.encode(record, max_bytes=max_bytes)
    except RecordTooLarge as error:
        refusal = error
    if refusal is not None:
        assert refusal.size_bytes > max_bytes == refusal.limit_bytes
        return
    assert len(data) <= max_bytes
    cut = codec.decode(data)
    assert cut.trace_id == record.trace_id
    assert cut.event_time == record.event_time
    if isinstance(record, Feedback):
        assert isinstance(cut, Feedback)
        assert cut.value == record.value
        assert (record.comment or "").startswith(cut.comment or "")
        return
    assert isinstance(cut, (Trace, TracePart))
    assert cut.truncated == (record.truncated or cut != record)
    assert (record.response or "").startswith(cut.response or "")
    mine, theirs = cut.source_nodes or (), record.source_nodes or ()
    assert [(node.node_id, node.score) for node in mine] == [(node.node_id, node.score) for node in theirs]
    for node, whole in zip(mine, theirs, strict=True):
        assert (whole.text or "").startswith(node.text or "")
    assert cut.expected_ids == record.expected_ids
    assert cut.latency_ms == record.latency_ms


@given(data=st.binary(max_size=200))
@example(b"\xff")
@example(b'{"schema_version":1,"kind":"trace"}')
def test_bytes_from_anywhere_are_read_or_refused(data: bytes) -> None:
    _read_or_refuse(data)


@given(value=json_values)
def test_json_from_anywhere_is_read_or_refused(value: Any) -> None:
    _read_or_refuse(json.dumps(value).encode())


_FIELDS = sorted(Trace.model_fields)
hostile = st.one_of(
    json_values,
    st.just("\ud800"),
    st.lists(st.just({"score": 10**400}), max_size=1),
    st.just([{"metadata": {"a": "\udfff"}}]),
    st.sampled_from(["0000-00-00T00:00:00Z", "9999-12-31T23:59:59.999-23:59", "2026-01-01T00:00:00+24:00", "-1-"]),
)


@given(fields=st.dictionaries(st.sampled_from(_FIELDS), hostile, max_size=4))
def test_a_trace_with_anything_in_its_fields_is_read_or_refused(fields: dict[str, Any]) -> None:
    base = {"schema_version": 1, "kind": "trace", "trace_id": "t", "app": "a", "query": "q"}
    _read_or_refuse(json.dumps({**base, "event_time": "2026-01-01T00:00:00Z", **fields}).encode())


REASONS = {"not_utf8", "not_json", "not_an_object", "schema_too_new", "unknown_kind", "invalid_field"}


def _read_or_refuse(data: bytes) -> None:
    refusal = None
    try:
        record = codec.decode(data)
    except RecordError as error:
        refusal = error
    if refusal is not None:
        assert refusal.reason in REASONS
        assert len(str(refusal).encode()) < 4000
    else:
        assert codec.decode(codec.encode(record)) == record, "what is read can be written"


odd_values = st.recursive(
    st.one_of(
        json_values,
        st.floats(),
        st.binary(max_size=8),
        st.datetimes(),
        st.text(st.characters(categories=["Cs", "L"]), max_size=5),
        st.sets(st.integers(), max_size=3),
        st.just(object()),
        st.complex_numbers(),
        st.integers(-(2**3000), 2**3000),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner),
        st.dictionaries(st.one_of(st.integers(), st.none(), st.text(max_size=3)), inner, max_size=3),
    ),
    max_leaves=10,
)


@given(value=odd_values)
def test_whatever_is_coerced_can_go_on_the_wire(value: Any) -> None:
    plain, _ = coerce_json({"v": value})
    check_json(plain)
    node = SourceNode(metadata=plain)
    json.loads(node.model_dump_json(), parse_constant=lambda name: pytest.fail(name))


@given(
    item=st.fixed_dictionaries(
        {},
        optional={
            "node_id": texts | st.none() | st.integers(),
            "text": texts | st.none() | st.binary(max_size=3),
            "score": st.floats() | st.none() | st.integers() | texts,
            "metadata": st.none() | st.dictionaries(texts, odd_values, max_size=3) | st.just([]),
            "url": texts,
        },
    )
)
def test_the_quick_way_to_read_a_node_says_what_the_general_one_does(item: dict[str, Any]) -> None:
    quick = _quick(item)
    if quick is not None:
        node, lossy = read_node(item)
        if not lossy:
            assert quick == node
        else:  # surrogates and whole numbers too large are left to the sending thread
            assert (quick.node_id, quick.text, quick.score) == (node.node_id, node.text, node.score)


@given(value=json_values)
def test_a_json_value_is_kept_without_loss(value: Any) -> None:
    assert coerce_json({"v": value}) == ({"v": value}, False)


@given(text=st.text(max_size=20), broken=st.text(st.characters(categories=["Cs"]), max_size=3))
def test_scrubbing_changes_lone_surrogates_only(text: str, broken: str) -> None:
    assert scrub_text(text) == text
    scrubbed = scrub_text(text + broken + text)
    scrubbed.encode()
    assert scrubbed.startswith(text)
    assert scrubbed.endswith(text)


@given(when=st.datetimes(datetime(1971, 1, 1), datetime(2099, 1, 1), timezones=st.timezones()))  # noqa: DTZ001 - bounds
def test_b38_every_zone_is_read_as_the_same_instant(when: datetime) -> None:
    node = Feedback(feedback_id="f", trace_id="t", app="a", event_time=when)
    assert abs((node.event_time - when).total_seconds()) < 0.001
    assert node.event_time.utcoffset() == when.astimezone(timezone.utc).utcoffset()
