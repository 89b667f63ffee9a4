"""What the codec reads, refuses and writes."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from pydantic import ValidationError

from tracejudge_sdk import codec
from tracejudge_sdk.errors import RecordError
from tracejudge_sdk.trace import Feedback, SourceNode, Trace

BASE: dict[str, Any] = {
    "schema_version": 1,
    "kind": "trace",
    "trace_id": "t-1",
    "app": "shop",
    "event_time": "2026-01-31T12:00:00Z",
    "query": "q",
}


def _trace(**fields: Any) -> Trace:
    record = codec.from_object({**BASE, **fields})
    assert isinstance(record, Trace)
    return record


def _refusal(**fields: Any) -> RecordError:
    with pytest.raises(RecordError) as caught:
        codec.from_object({**BASE, **fields})
    return caught.value


def _json(fields: str) -> bytes:
    head = json.dumps(BASE)[:-1]
    return f"{head}, {fields}}}".encode()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not_json"),
        (b"\xff\xfe{}", "not_utf8"),
        (b"{", "not_json"),
        (b"null", "not_an_object"),
        (b"[]", "not_an_object"),
        (b'"trace"', "not_an_object"),
        (b"{}", "invalid_field"),
        (b'{"schema_version": 1}', "unknown_kind"),
        (b'{"schema_version": 1, "kind": "span"}', "unknown_kind"),
        (b'{"schema_version": 1, "kind": ["trace"]}', "unknown_kind"),
        (b'{"schema_version": 1, "kind": "trace"}', "invalid_field"),
        (b'{"schema_version": 2, "kind": "trace"}', "schema_too_new"),
        (b'{"schema_version": ' + b"9" * 4000 + b', "kind": "trace"}', "schema_too_new"),
        (b'{"schema_version": ' + b"9" * 5000 + b', "kind": "trace"}', "not_json"),
        (b'{"schema_version": 1e999, "kind": "trace"}', "invalid_field"),
        (b"[" * 100_000, "not_json"),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "not_json"),
        (b"\xef\xbb\xbf{}", "not_json"),  # a byte order mark
    ],
)
def test_what_is_no_record_has_a_stable_reason(data: bytes, reason: str) -> None:
    with pytest.raises(RecordError) as caught:
        codec.decode(data)
    assert caught.value.reason == reason
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("version", [True, "1", 1.0, 0, -1, None, [1]])
def test_a_version_that_is_not_the_whole_number_1_is_refused(version: Any) -> None:
    error = _refusal(schema_version=version)
    assert (error.reason, error.field) == ("invalid_field", "schema_version")


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("trace_id", 5, "valid string"),
        ("trace_id", "", "at least 1 character"),
        ("trace_id", "x" * 129, "at most 128 characters"),
        ("trace_id", None, "valid string"),
        ("app", "", "at least 1 character"),
        ("app", "x" * 257, "at most 256 characters"),
        ("query", None, "valid string"),
        ("query", ["q"], "valid string"),
        ("latency_ms", "1.5", "valid number"),
        ("latency_ms", True, "valid number"),
        ("latency_ms", -1, "greater than or equal to 0"),
        ("latency_ms", float("inf"), "finite"),
        ("latency_ms", 10**400, "number"),
        ("truncated", "yes", "valid boolean"),
        ("truncated", 1, "valid boolean"),
        ("status", "done", "'ok', 'error' or 'incomplete'"),
        ("head_probability", 0, "greater than or equal to 0.000001"),
        ("head_probability", 1.5, "less than or equal to 1"),
        ("head_probability", "1", "valid number"),
        ("event_time", 1_700_000_000, "text such as"),
        ("event_time", "1700000000", "text such as"),
        ("event_time", "2026-01-31T12:00:00", "time zone"),
        ("event_time", "2026-01-31", "time zone"),
        ("event_time", "2026-13-01T00:00:00Z", "month"),
        ("event_time", "9999-12-31T23:59:59-12:00", "2100-01-01"),
        ("event_time", "0001-01-01T00:00:00+12:00", "1970-01-01"),
        ("event_time", "2100-01-01T00:00:00Z", "2100-01-01"),
        ("tags", {"a": 1}, "valid string"),
        ("tags", [], "dictionary"),
        ("source_nodes", "abc", "a list"),
        ("source_nodes", {"a": 1}, "a list"),
        ("source_nodes", None, "a list"),
        ("expected_ids", "abc", "a list"),
        ("history", [{"role": "user"}], "is missing"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_refusal_names_field_value_and_limit(field: str, value: Any, words: str) -> None:
    error = _refusal(**{field: value})
    assert error.reason == "invalid_field"
    assert error.field is not None
    assert error.field.split(".")[0] == field
    assert str(error).startswith(field)
    assert words in str(error)
    assert "got " in str(error) or words == "is missing"
    assert len(str(error)) < 400


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        ({"a": float("inf")}, "inf is not a JSON number"),
        ({"a": [1, {"b": float("nan")}]}, "a.1.b: nan is not a JSON number"),
        ({"a": 1 << 2000}, "limit is 1024"),
        ({"a": datetime(2026, 1, 1, tzinfo=timezone.utc)}, "datetime is not a JSON value"),
        ({"a": {1, 2}}, "set is not a JSON value"),
        ({1: 2}, "string"),
        ({"a": {1: 2}}, "not a text"),
    ],
    ids=str,
)
def test_metadata_holds_json_only(metadata: Any, words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        SourceNode(metadata=metadata)


def _nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"a": value}
    return value


def test_metadata_may_be_nested_as_deep_as_the_limit_and_no_deeper() -> None:
    accepted = _trace(source_nodes=[{"metadata": _nested(63)}])
    assert codec.decode(codec.encode(accepted)) == accepted
    for levels in (64, 500):
        error = _refusal(source_nodes=[{"metadata": _nested(levels)}])
        assert "nested deeper than 64" in str(error)


def test_metadata_that_holds_itself_is_refused() -> None:
    cycle: dict[str, Any] = {}
    cycle["self"] = cycle
    with pytest.raises(ValidationError, match="nested deeper"):
        SourceNode(metadata=cycle)


def test_deep_nesting_in_unknown_fields_does_no_harm() -> None:
    data = _json('"other": ' + "[" * 500 + "]" * 500)
    assert codec.decode(data) == _trace()


@pytest.mark.parametrize("literal", ["NaN", "Infinity", "-Infinity"])
@pytest.mark.parametrize("where", ['"latency_ms": %s', '"source_nodes": [{"score": %s}]', '"other": %s'])
def test_nan_and_infinity_are_not_json(literal: str, where: str) -> None:
    with pytest.raises(RecordError, match="write null") as caught:
        codec.decode(_json(where % literal))
    assert caught.value.reason == "not_json"


def test_a_number_too_large_for_a_float_is_refused() -> None:
    with pytest.raises(RecordError) as caught:
        codec.decode(_json('"source_nodes": [{"score": 1e999}]'))
    assert caught.value.field == "source_nodes.0.score"


def test_of_a_repeated_key_the_last_one_counts() -> None:
    """A documented acceptance: most readers do so, and to forbid it would slow every record."""
    record = codec.decode(_json('"query": "first", "query": "last"'))
    assert isinstance(record, Trace)
    assert record.query == "last"


@pytest.mark.parametrize("where", ['"query": "a\\ud83d"', '"tags": {"\\udc00k": "a\\ud83d"}'])
def test_lone_surrogates_become_the_replacement_character(where: str) -> None:
    record = codec.decode(_json(where))
    assert isinstance(record, Trace)
    assert record.query == "a�" or record.tags == {"�k": "a�"}
    assert codec.decode(codec.encode(record)) == record


def test_lone_surrogates_in_metadata_are_replaced_too_and_pairs_are_not() -> None:
    record = codec.decode(_json('"source_nodes": [{"metadata": {"\\ud800": ["\\ud83d\\ude42", "x\\ud83d"]}}]'))
    assert isinstance(record, Trace)
    assert record.source_nodes[0].metadata == {"�": ["🙂", "x�"]}


def test_a_value_outside_utf8_cannot_be_built() -> None:
    with pytest.raises(ValidationError):
        _ = Trace.model_validate({**BASE, "response": "\ud800"})


def test_texts_keep_control_characters_and_line_breaks() -> None:
    text = "a\x00b\x1b[31m\r\n\u2028\u202e"
    record = _trace(response=text)
    again = codec.decode(codec.encode(record))
    assert isinstance(again, Trace)
    assert again.response == text


def test_a_whole_number_is_a_number() -> None:
    assert _trace(latency_ms=3).latency_ms == 3.0
    assert _trace(source_nodes=[{"score": 1}]).source_nodes[0].score == 1.0


@pytest.mark.parametrize(
    "given",
    [
        datetime(2026, 1, 1, 12, 0, 0, 123_999, tzinfo=timezone.utc),
        datetime(2026, 1, 1, 17, 30, 0, 123_456, tzinfo=timezone(timedelta(hours=5, minutes=30))),
        "2026-01-01T12:00:00.123999Z",
        "2026-01-01T17:30:00.123+05:30",
    ],
    ids=str,
)
def test_b39_event_times_become_utc_and_keep_their_milliseconds(given: Any) -> None:
    assert _trace(event_time=given).event_time == datetime(2026, 1, 1, 12, 0, 0, 123_000, tzinfo=timezone.utc)


def test_b38_an_event_time_without_zone_is_refused() -> None:
    assert "time zone" in str(_refusal(event_time=datetime(2026, 1, 1, 12)))  # noqa: DTZ001 - the fault itself


def test_the_errors_of_several_fields_are_counted() -> None:
    assert "(and 1 more)" in str(_refusal(trace_id=5, latency_ms="x"))


def test_records_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        _trace().query = "other"  # type: ignore[misc]


def test_a_feedback_has_its_own_fields() -> None:
    record = codec.from_object(
        {
            "schema_version": 1,
            "kind": "feedback",
            "feedback_id": "f",
            "trace_id": "t-1",
            "app": "shop",
            "event_time": "2026-01-31T12:00:00Z",
            "value": 1,
        }
    )
    assert isinstance(record, Feedback)
    assert (record.value, record.comment) == (1.0, None)
