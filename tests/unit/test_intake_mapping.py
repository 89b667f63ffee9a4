"""Records of another form: what the paths find, what is converted, and what is refused with the path in the message."""

from __future__ import annotations

import json
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tracejudge.datasets import BrokenLine, read_lines
from tracejudge.testing import ManualClock
from tracejudge_consumer.intake import RawRecord
from tracejudge_consumer.intake.mapping import ForeignForm, MappedReader
from tracejudge_consumer.intake.mapping_settings import MappingSettings
from tracejudge_consumer.intake.paths import JsonPath, LeadsNowhere
from tracejudge_sdk.codec import encode
from tracejudge_sdk.errors import RecordError
from tracejudge_sdk.trace import Trace

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

EXAMPLE = Path(__file__).parents[2] / "deploy" / "settings.example.toml"
SIX_LINES = {
    "query": "question",
    "response": "answer",
    "source_nodes": "doc_ids",
    "latency_ms": "took_ms",
    "event_time": {"path": "ts", "format": "epoch_s"},
}
FOREIGN = {"question": "q?", "answer": "a.", "doc_ids": ["d-1", 7], "took_ms": 250, "ts": 1_767_268_800}


def raw(value: Any, *, timestamp_ms: int = 1_700_000_000_123) -> RawRecord:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return RawRecord(source="kafka:t", partition=0, offset=1, key=None, value=data, timestamp_ms=timestamp_ms)


def read(mapping: dict[str, Any], value: Any, **kept: Any) -> Trace:
    record = MappedReader(ForeignForm(MappingSettings.model_validate(mapping)), app="answers")(raw(value, **kept))
    assert isinstance(record, Trace)
    return record


def refusal(mapping: dict[str, Any], value: Any) -> RecordError:
    with pytest.raises(RecordError) as caught:
        read(mapping, value)
    return caught.value


# -- paths -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("a", {"b": [1, 2, {"c.d": 3}]}),
        ("a.b", [1, 2, {"c.d": 3}]),
        ("a.b.0", 1),
        ("a.b.-2", 2),
        ('a.b.2."c.d"', 3),
        ("rows.*.id", [1, 2]),
        ("rows.*", [{"id": 1}, {"id": 2}]),
        ("5", "a key of digits"),
        ('"*"', "a star"),
        ('"say \\"hi\\""', "quoted"),
    ],
)
def test_paths_find_what_stands_there(path: str, found: Any) -> None:
    value = {
        "a": {"b": [1, 2, {"c.d": 3}]},
        "rows": [{"id": 1}, {"id": 2}],
        "5": "a key of digits",
        "*": "a star",
        'say "hi"': "quoted",
    }
    assert JsonPath.parse(path).of(value) == found


@pytest.mark.parametrize("path", ["", ".", "a.", ".a", "a..b", 'a"b', '"a', '"a"b', ".".join("a" * 33)])
def test_what_is_no_path_is_refused_when_the_settings_are_read(path: str) -> None:
    with pytest.raises(ValueError, match=r"dotted path|dot should stand"):
        JsonPath.parse(path)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("x", "the record has no 'x'"),
        ("a.x.y", "'a' has no 'x'"),
        ("t.x", "'t' is a text"),
        ("n.x", "'n' is null"),
        ("l.7", "'l' has 1 items only"),
        ("l.x", "'l' is a list"),
        ("l.*.x", "'l.*' is a number"),
    ],
)
def test_a_path_that_ends_early_says_where(path: str, words: str) -> None:
    with pytest.raises(LeadsNowhere, match=words.replace("*", r"\*")):
        JsonPath.parse(path).of({"a": {}, "t": "x", "n": None, "l": [1]})


# -- fields ------------------------------------------------------------------------------------------------------------


def test_six_lines_read_a_log_with_ids_only() -> None:
    trace = read(SIX_LINES, FOREIGN)
    assert (trace.query, trace.response, trace.latency_ms) == ("q?", "a.", 250)
    assert [(node.node_id, node.text) for node in trace.source_nodes] == [("d-1", None), ("7", None)]
    assert trace.event_time == datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
    assert (trace.app, trace.status, trace.kind, trace.environment) == ("answers", "ok", "trace", "production")


def test_a_record_delivered_again_is_the_same_trace_and_another_one_is_not() -> None:
    first, again = read(SIX_LINES, FOREIGN), read(SIX_LINES, FOREIGN, timestamp_ms=1)
    assert first.trace_id == again.trace_id
    assert read(SIX_LINES, {**FOREIGN, "ts": 1_767_268_801}).trace_id != first.trace_id


def test_without_a_time_of_its_own_a_record_has_that_of_the_queue() -> None:
    trace = read({"query": "q"}, {"q": "?"})
    assert trace.event_time == datetime(2023, 11, 14, 22, 13, 20, 123000, tzinfo=timezone.utc)
    assert (trace.status, trace.response) == ("error", None)


@pytest.mark.parametrize(
    ("stamp", "words"),
    [
        (-1, "the time that the queue has of the record is none: no time"),
        (1_700_000_000, "the time that the queue has of the record is 1700000000 ms since 1970"),
    ],
)
def test_a_time_of_the_queue_that_is_no_time_of_an_answer_is_refused(stamp: int, words: str) -> None:
    with pytest.raises(RecordError) as caught:
        read({"query": "q"}, {"q": "?"}, timestamp_ms=stamp)
    assert (caught.value.reason, caught.value.field) == ("unmapped", "event_time")
    assert words in str(caught.value)
    assert "map event_time" in str(caught.value)


def test_every_field_can_be_mapped() -> None:
    assert set(MappingSettings.model_fields) == set(Trace.model_fields) - {
        "schema_version", "kind", "truncated", "lossy", "sdk",
    }  # fmt: skip
    mapping = {
        "query": "q",
        "app": {"const": "shop"},
        "trace_id": "id",
        "version": "release",
        "user_id": "user",
        "status": {"path": "outcome", "values": {"success": "ok", "false": "error"}},
        "source_nodes": {"path": "hits", "node_id": "doc.id", "text": "doc.body", "score": "rank", "metadata": "m"},
        "history": {"path": "turns", "role": "who", "content": "what"},
        "expected_ids": "right.*.id",
        "latency_ms": {"path": "took_s", "scale": 1000},
        "head_probability": "p",
        "tags": {"region": "geo.region", "tier": {"const": "gold"}, "flags": "flags", "none": "nowhere"},
    }
    value = {
        "q": "?", "id": 12345678901234567890, "release": 2.1, "user": "u", "outcome": False,
        "hits": [{"doc": {"id": 1, "body": "t"}, "rank": "0.5", "m": {"a": [1]}}, {"doc": {"id": "x"}}],
        "turns": [{"who": "user", "what": "hello"}],
        "right": [{"id": 1}, {"id": "b"}], "took_s": "0.25", "p": 0.5, "geo": {"region": "eu"}, "flags": {"a": True},
    }  # fmt: skip
    trace = read(mapping, value)
    assert (trace.app, trace.trace_id, trace.version, trace.status) == ("shop", "12345678901234567890", "2.1", "error")
    first, second = trace.source_nodes
    assert (first.node_id, first.text, first.score, first.metadata) == ("1", "t", 0.5, {"a": [1]})
    assert (second.node_id, second.text, second.score) == ("x", None, None)
    assert (trace.history[0].role, trace.history[0].content) == ("user", "hello")
    assert trace.expected_ids == ("1", "b")
    assert (trace.latency_ms, trace.head_probability) == (250.0, 0.5)
    assert trace.tags == {"region": "eu", "tier": "gold", "flags": '{"a": true}'}


def test_texts_in_a_list_are_ids_or_passages_as_the_settings_say() -> None:
    trace = read({"query": "q", "source_nodes": {"path": "p", "each": "text"}}, {"q": "?", "p": ["a passage"]})
    assert [(node.node_id, node.text) for node in trace.source_nodes] == [("", "a passage")]


def test_records_of_our_own_form_pass_as_they_are() -> None:
    ours = read(SIX_LINES, FOREIGN)
    assert read(SIX_LINES, encode(ours)) == ours


@pytest.mark.parametrize(
    "theirs",
    [
        {"schema_version": "1.36.0", "kind": "SPAN_KIND_SERVER"},
        {"schema_version": 3, "kind": "rag_answer"},
        {"schema_version": 3, "kind": 2},
        {"schema_version": "2", "kind": "trace"},
    ],
)
def test_somebody_elses_version_and_kind_do_not_make_a_record_ours(theirs: dict[str, Any]) -> None:
    assert read(SIX_LINES, {**FOREIGN, **theirs}).query == "q?"


def test_a_record_of_ours_that_is_too_new_is_still_said_to_be() -> None:
    assert refusal(SIX_LINES, {"schema_version": 2, "kind": "trace", "trace_id": "t"}).reason == "schema_too_new"


def test_json_within_a_text_is_read_where_the_path_goes_on() -> None:
    spans = {"input": json.dumps({"messages": [{"content": "q?"}]}), "docs": json.dumps([{"text": "one"}])}
    trace = read({"query": "input.messages.-1.content", "source_nodes": "docs"}, spans)
    assert (trace.query, trace.source_nodes[0].text) == ("q?", "one")
    assert "'input' is a text" in str(refusal({"query": "input.messages"}, {"input": "{not json"}))
    assert read({"query": "input"}, spans).query == spans["input"], "a text that is meant stays as it is"


def test_passages_of_several_retrievals_are_one_list() -> None:
    hits = {"q": "?", "hits": [[{"text": "one"}], [], [{"text": "two"}, {"text": "three"}]]}
    trace = read({"query": "q", "source_nodes": "hits"}, hits)
    assert [node.text for node in trace.source_nodes] == ["one", "two", "three"]
    assert read({"query": "q", "source_nodes": "hits.*.*"}, hits).source_nodes == trace.source_nodes


def test_one_passage_that_lacks_something_does_not_take_the_others_away() -> None:
    hits = {"q": "?", "hits": [{"doc": {"id": "d-1"}}, {"doc": None}, {"doc": {"id": "d-3"}}]}
    trace = read({"query": "q", "source_nodes": "hits.*.doc.id"}, hits)
    assert [node.node_id for node in trace.source_nodes] == ["d-1", "", "d-3"]
    assert read({"query": "q", "source_nodes": "hits.*.id"}, hits).source_nodes == ()


def test_a_score_that_is_no_number_is_named() -> None:
    words = str(refusal({"query": "q", "source_nodes": "d"}, {"q": "?", "d": [{"text": "t", "score": "N/A"}]}))
    assert "a passage whose score ('score') is 'N/A', which is not a number" in words


def test_another_word_for_a_status_is_refused_with_how_to_say_what_it_means() -> None:
    words = str(refusal({"query": "q", "status": "code"}, {"q": "?", "code": "OK"}))
    assert 'status = { path = "code", values = { OK = "ok" } }' in words
    told = {"path": "code", "values": {"OK": "ok"}}
    assert read({"query": "q", "status": told}, {"q": "?", "code": "OK"}).status == "ok"


# -- times -------------------------------------------------------------------------------------------------------------

NOON = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ({}, "2026-01-01T12:00:00Z"),
        ({}, "2026-01-01T13:00:00+01:00"),
        ({}, "2026-01-01 12:00:00.000000Z"),
        ({"zone": "UTC"}, "2026-01-01T12:00:00"),
        ({"zone": "America/New_York"}, "2026-01-01T07:00:00"),
        ({"zone": "America/New_York"}, "2026-01-01T12:00:00Z"),
        ({"format": "epoch_s"}, 1767268800),
        ({"format": "epoch_s"}, 1767268800.0),
        ({"format": "epoch_s"}, "1767268800"),
        ({"format": "epoch_ms"}, 1767268800000),
        ({"format": "epoch_us"}, 1767268800000000),
        ({"format": "epoch_ns"}, 1767268800000000999),
        ({"format": "%d/%b/%Y:%H:%M:%S %z"}, "01/Jan/2026:13:00:00 +0100"),
        ({"format": "%d.%m.%Y %H:%M", "zone": "Europe/Berlin"}, "01.01.2026 13:00"),
    ],
)
def test_instants_are_read_as_the_settings_say(source: dict[str, str], value: Any) -> None:
    trace = read({"query": "q", "event_time": {"path": "t", **source}}, {"q": "?", "t": value})
    assert trace.event_time == NOON


def test_b38_the_zone_of_this_machine_plays_no_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    source = {"path": "t", "zone": "UTC"}
    trace = read({"query": "q", "event_time": source}, {"q": "?", "t": "2026-01-01T12:00:00"})
    assert trace.event_time == NOON


@pytest.mark.parametrize(
    ("source", "value", "words"),
    [
        ({}, "2026-01-01T12:00:00", 'zone = "UTC"'),
        ({}, 1767268800, 'format = "epoch_s"'),
        ({}, "1767268800", 'not an instant of format \'iso\'; a number needs format = "epoch_s" or "epoch_ms"'),
        ({}, "yesterday", "not an instant"),
        ({"format": "epoch_ms"}, "soon", "not a number"),
        ({"format": "epoch_ms"}, True, "not a number"),
        ({"format": "epoch_s"}, 1e300, "beyond the calendar"),
        ({"format": "epoch_s"}, 10**30, "beyond the calendar"),
        ({"format": "%d.%m.%Y", "zone": "UTC"}, "2026-01-01", "not an instant of format"),
    ],
)
def test_what_is_no_instant_is_refused_with_path_and_remedy(source: dict[str, str], value: Any, words: str) -> None:
    error = refusal({"query": "q", "event_time": {"path": "when.t", **source}}, {"q": "?", "when": {"t": value}})
    assert error.reason == "unmapped"
    assert error.field == "event_time"
    assert "'when.t'" in str(error)
    assert words in str(error)


@pytest.mark.parametrize(
    ("unit", "value", "words"),
    [
        ("epoch_ms", 1767268800, "which as epoch_ms is 1970-01-21T10:54:28Z, before 2000; as epoch_s it is 2026-01-01"),
        ("epoch_ms", "1767268800", 'set format = "epoch_s"'),
        (
            "epoch_s",
            1767268800000,
            "beyond the calendar as epoch_s; as epoch_ms it is 2026-01-01T12:00:00Z: set format",
        ),
        ("epoch_ns", 1767268800000000, 'set format = "epoch_us"'),
        ("epoch_s", 1767355201, "is 2026-01-02T12:00:01Z, more than a day in the future: set format to its unit"),
        ("epoch_s", 946684799, "is 1999-12-31T23:59:59Z, before 2000"),
        ("epoch_ms", 0, "is 1970-01-01T00:00:00Z, before 2000"),
        ("epoch_ms", -1.5, "before 2000"),
    ],
)
def test_a_number_that_is_no_time_of_an_answer_is_refused_with_its_unit(unit: str, value: Any, words: str) -> None:
    error = read_error(value, unit, now=NOON)
    assert (error.reason, error.field) == ("unmapped", "event_time")
    assert f"event_time: the path 't' leads to {value}" in str(error)
    assert words in str(error)


def test_a_number_of_tomorrow_is_taken_and_a_text_of_any_year() -> None:
    reader = MappedReader(mapped({"path": "t", "format": "epoch_s"}, now=NOON), app="a")
    assert reader(raw({"q": "?", "t": 1767355200})).event_time == NOON + timedelta(days=1)
    assert reader(raw({"q": "?", "t": 946684800})).event_time.year == 2000
    texts = MappedReader(mapped({"path": "t"}, now=NOON), app="a")
    assert texts(raw({"q": "?", "t": "1999-01-01T00:00:00Z"})).event_time.year == 1999
    assert texts(raw({"q": "?", "t": "2030-01-01T00:00:00Z"})).event_time.year == 2030


def mapped(source: dict[str, str], *, now: datetime) -> ForeignForm:
    settings = MappingSettings.model_validate({"query": "q", "event_time": source})
    return ForeignForm(settings, clock=ManualClock(now))


def read_error(value: Any, unit: str, *, now: datetime) -> RecordError:
    with pytest.raises(RecordError) as caught:
        MappedReader(mapped({"path": "t", "format": unit}, now=now), app="a")(raw({"q": "?", "t": value}))
    return caught.value


# -- refusals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mapping", "value", "words"),
    [
        ({"query": "body.q"}, {"body": {}}, "query: the path 'body.q' leads nowhere: 'body' has no 'q'"),
        ({"query": "q"}, {"q": None}, "query: the path 'q' leads to null"),
        ({"query": "q"}, {"q": 5}, "(from the path 'q')"),
        ({"query": "q", "user_id": {"path": "u", "required": True}}, {"q": "?"}, "'u' leads nowhere"),
        ({"query": "q", "latency_ms": "t"}, {"q": "?", "t": "fast"}, "'t' leads to 'fast', which is not a number"),
        ({"query": "q", "latency_ms": "t"}, {"q": "?", "t": -1}, "(from the path 't')"),
        ({"query": "q", "source_nodes": "d"}, {"q": "?", "d": "d-1"}, "not a list of passages"),
        ({"query": "q", "source_nodes": "d"}, {"q": "?", "d": [True]}, "passages are objects, ids or texts"),
        ({"query": "q", "history": "h"}, {"q": "?", "h": [{"role": "user"}]}, "a turn without role or content"),
        ({"query": "q", "trace_id": "id"}, {"q": "?", "id": "x" * 129}, "(from the path 'id')"),
    ],
)
def test_a_refusal_names_field_and_path(mapping: dict[str, Any], value: Any, words: str) -> None:
    assert words in str(refusal(mapping, value))


def test_a_text_meant_for_every_record_is_told_to_be_a_const() -> None:
    error = refusal({"query": "q", "app": {"path": "shop", "required": True}}, {"q": "?"})
    assert 'if shop is meant for every record, write app = { const = "shop" }' in str(error)
    assert "const" not in str(refusal({"query": "q", "app": {"path": "a.b", "required": True}}, {"q": "?"}))
    assert "const" not in str(refusal({"query": "q"}, {}))


def test_a_line_whose_app_is_a_path_to_nowhere_says_how_to_write_a_const(tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl"
    file.write_text('{"q": "?"}')
    (line,) = read_lines(file, form=ForeignForm(MappingSettings.model_validate({"query": "q", "app": "shop"})))
    assert isinstance(line, BrokenLine)
    assert "the path 'shop' leads nowhere in this record" in line.detail
    assert 'write app = { const = "shop" }' in line.detail


@pytest.mark.parametrize("value", [b"{", b"\xff", b"[]", b"7", b'"text"'])
def test_what_is_no_object_is_refused_in_the_codecs_words(value: bytes) -> None:
    with pytest.raises(RecordError):
        MappedReader(ForeignForm(MappingSettings.model_validate(SIX_LINES)), app="a")(raw(value))


@pytest.mark.parametrize(
    "mapping",
    [
        {},
        {"query": ""},
        {"query": {"path": "q", "const": "x"}},
        {"query": {}},
        {"query": "q", "qery": "x"},
        {"query": "q", "event_time": {"path": "t", "format": "seconds"}},
        {"query": "q", "event_time": {"path": "t", "zone": "Nowhere/Town"}},
        {"query": "q", "event_time": {"path": "t", "zone": "../etc/passwd"}},
        {"query": "q", "source_nodes": {"path": "p", "each": "passage"}},
        {"query": "q", "latency_ms": {"path": "t", "scale": 0}},
    ],
)
def test_a_mapping_that_cannot_work_is_a_fault_of_the_settings(mapping: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        MappingSettings.model_validate(mapping)


def test_the_mapping_of_the_example_settings_is_one() -> None:
    """Both ways of source_nodes that it shows, with every field there is."""
    block = EXAMPLE.read_text(encoding="utf-8").partition("# [intake.mapping]\n")[2].partition("\n\n")[0]
    lines = [line.removeprefix("# ") for line in block.splitlines()]
    plain = "\n".join(line for line in lines if not line.startswith("# "))
    MappingSettings.model_validate(tomllib.loads(plain))
    (other,) = [line.removeprefix("# ") for line in lines if line.startswith("# source_nodes")]
    values = {**tomllib.loads(plain), **tomllib.loads(other)}
    mapping = MappingSettings.model_validate(values)
    assert mapping.model_fields_set == set(MappingSettings.model_fields)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["q", "a", "d", "t", "ts", "id", "text"]), inner, max_size=5)
    ),
    max_leaves=20,
)


@given(JSON)
def test_whatever_a_record_holds_it_is_a_trace_or_refused(value: Any) -> None:
    mapping = {
        "query": "q", "response": "a", "source_nodes": {"path": "d", "node_id": "id"}, "latency_ms": "t",
        "event_time": {"path": "ts", "format": "epoch_ms"}, "trace_id": "id", "tags": {"x": "a.q"},
        "history": "text", "expected_ids": "d.*.id",
    }  # fmt: skip
    reader = MappedReader(ForeignForm(MappingSettings.model_validate(mapping)), app="answers")
    try:
        record = reader(raw(json.dumps(value).encode()))
    except RecordError:
        return
    assert isinstance(record, Trace)
    assert record.query == value["q"]
