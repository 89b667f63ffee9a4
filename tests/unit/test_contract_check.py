"""`tracejudge contract`: what is wrong with a file, line by line, with field, value, limit and remedy."""

from __future__ import annotations

import gzip
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracejudge.testing import make_trace
from tracejudge.testing.builders import START
from tracejudge_consumer.cli import run
from tracejudge_consumer.contract import Fault, faults_of
from tracejudge_consumer.contract.check import FileFindings, LineFindings, check_file
from tracejudge_consumer.contract.faults import MAX_FAULTS
from tracejudge_consumer.terminal.exit_status import EXIT_DONE, EXIT_FAILED
from tracejudge_sdk import codec
from tracejudge_sdk.errors import RecordError
from tracejudge_sdk.sampling import keep as kept

GOLDEN = Path(__file__).parents[1] / "data" / "golden" / "v1"


def good(number: int = 1, **fields: Any) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(codec.encode(make_trace(number)))
    return {**values, **fields}


def look(tmp_path: Path, *lines: Any, zipped: bool = False) -> tuple[list[LineFindings], FileFindings]:
    data = b"\n".join(line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines)
    path = tmp_path / "file.jsonl"
    path.write_bytes(gzip.compress(data) if zipped else data)
    findings = FileFindings()
    found = check_file(path, now=START + timedelta(hours=1), max_record_bytes=100_000, findings=findings)
    return list(found), findings


def faults(tmp_path: Path, line: Any) -> dict[str, Fault]:
    ((found,), _) = look(tmp_path, line)
    return {fault.field: fault for fault in found.faults}


def notes(tmp_path: Path, *lines: Any) -> list[tuple[int, str, str]]:
    found, _ = look(tmp_path, *lines)
    assert not any(line.faults for line in found)
    return [(line.line, note.reason, note.field) for line in found for note in line.notes]


def test_a_file_that_keeps_the_contract_has_nothing_to_be_told(tmp_path: Path) -> None:
    for zipped in (False, True):
        found, findings = look(tmp_path, good(1), b"", good(2), zipped=zipped)
        assert [(line.line, line.faults, line.notes) for line in found] == [(1, (), ()), (3, (), ())]
        assert (findings.lines, findings.refused, dict(findings.kinds)) == (2, 0, {"trace": 2})


def test_the_golden_records_are_taken() -> None:
    paths = list(GOLDEN.glob("*.json"))
    assert paths
    for path in paths:
        assert not faults_or_none(json.loads(path.read_text())), path.name


def faults_or_none(value: Any) -> tuple[Fault, ...]:
    try:
        codec.from_object(value)
    except RecordError as error:
        return faults_of(error, value)
    return ()


@pytest.mark.parametrize(
    ("fields", "name", "value", "limit", "remedy"),
    [
        ({"event_time": "2026-01-01T12:00:00"}, "event_time", "2026-01-01T12:00:00", "time zone", "12:00:00Z"),
        ({"event_time": 1767268800}, "event_time", "1767268800", "a text such as", "12:00:00Z"),
        ({"query": 7}, "query", "7", "a text", "what was asked"),
        ({"app": ""}, "app", "''", "at least 1 character", "name of the service"),
        ({"trace_id": "x" * 129}, "trace_id", "a text of 129 characters", "at most 128 characters", "shorten"),
        ({"latency_ms": "12"}, "latency_ms", "'12'", "a number", "not a text"),
        ({"latency_ms": -1}, "latency_ms", "-1", "at least 0", "correct"),
        ({"status": "fine"}, "status", "'fine'", "'ok', 'error' or 'incomplete'", "one of these"),
        ({"truncated": "false"}, "truncated", "'false'", "true or false", "boolean"),
        ({"source_nodes": "text"}, "source_nodes", "'text'", "a list", "node_id"),
        ({"source_nodes": ["text"]}, "source_nodes.0", "'text'", "an object", "JSON object"),
        ({"source_nodes": [{"score": "high"}]}, "source_nodes.0.score", "'high'", "a number", "not a text"),
        ({"tags": {"a": 1}}, "tags.a", "1", "a text", "string"),
        ({"head_probability": 0}, "head_probability", "0", "at least 1e-06", "correct"),
        ({"head_probability": 2}, "head_probability", "2", "at most 1.0", "share of traces"),
        ({"kind": "event"}, "kind", "'event'", "'trace', 'part' or 'feedback'", '"kind": "trace"'),
        ({"schema_version": 2}, "schema_version", "2", "whole number 1", "upgrade"),
        ({"schema_version": "1"}, "schema_version", "'1'", "whole number 1", '"schema_version": 1'),
    ],
)
def test_a_fault_has_field_value_limit_and_remedy(
    tmp_path: Path, fields: dict[str, Any], name: str, value: str, limit: str, remedy: str
) -> None:
    fault = faults(tmp_path, good(**fields))[name]
    assert value in fault.value
    assert limit in fault.limit
    assert remedy in fault.remedy


def test_everything_that_is_missing_is_told_at_once(tmp_path: Path) -> None:
    found = faults(tmp_path, {"app": "shop"})
    assert set(found) == {"schema_version", "kind", "trace_id", "event_time", "query"}
    assert found["query"].value == "is missing"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"nonsense", "not_json"),
        (b'{"a": NaN}', "not_json"),
        (b"[1]", "not_an_object"),
        (b"\xff\xfe", "not_utf8"),
        (b'"' + b"x" * 100_001 + b'"', "too_large"),
    ],
)
def test_what_is_no_record_at_all_is_told_with_a_remedy(tmp_path: Path, line: bytes, reason: str) -> None:
    (fault,) = faults(tmp_path, line).values()
    assert fault.reason == reason
    assert fault.limit
    assert fault.remedy


def test_a_thousand_faults_are_told_in_ten(tmp_path: Path) -> None:
    ((found,), _) = look(tmp_path, good(source_nodes=[{"score": "x"}] * 1000))
    assert len(found.faults) == MAX_FAULTS


def test_more_faults_than_anybody_reads_are_told_by_the_first(tmp_path: Path) -> None:
    ((found,), _) = look(tmp_path, good(source_nodes=[{"score": "x"}] * 2000))
    (fault,) = found.faults
    assert fault.field == "source_nodes.0.score"
    assert "1999 more" in fault.value


def test_what_is_taken_but_surely_not_meant_is_noted(tmp_path: Path) -> None:
    future = (START + timedelta(hours=2)).isoformat()
    assert notes(
        tmp_path,
        good(1, sourceNodes=[]),
        good(2, wholly_unknown=1),
        good(3, event_time=future),
        good(4, response=None),
        good(5, source_nodes=[]),
        good(6, source_nodes=[{"node_id": "n", "txt": "t"}]),
        good(1),
        good(7, labels={"faithfulness": True}, label_source="people"),
    ) == [
        (1, "unknown_field", "sourceNodes"),
        (2, "unknown_field", "wholly_unknown"),
        (3, "future", "event_time"),
        (4, "empty", "response"),
        (5, "no_passages", "source_nodes"),
        (6, "unknown_field", "source_nodes.0.txt"),
        (6, "no_passage_text", "source_nodes"),
        (7, "repeated_id", "trace_id"),
    ]


def test_a_misspelt_field_is_told_its_right_name(tmp_path: Path) -> None:
    found, _ = look(tmp_path, good(sourceNodes=[], respone="x"))
    remedies = {note.field: note.remedy for note in found[0].notes}
    assert "'source_nodes'" in remedies["sourceNodes"]
    assert "'response'" in remedies["respone"]


def test_the_command_tells_and_says_by_its_status_whether_all_is_well(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "file.jsonl"
    path.write_text(json.dumps(good(1)) + "\n\x1b[2J{\n")
    assert run(["contract", "check", str(path)]) == EXIT_FAILED
    said = capsys.readouterr().out
    assert "line 2: refused: " in said
    assert "2 lines, 1 taken (1 trace), 1 refused" in said
    assert "\x1b[2J" not in said
    assert run(["contract", "check", str(path), "--json"]) == EXIT_FAILED
    first, sums = map(json.loads, capsys.readouterr().out.splitlines())
    assert (first["line"], first["faults"][0]["reason"]) == (2, "not_json")
    assert (sums["lines"], sums["refused"]) == (2, 1)
    path.write_text(json.dumps(good(1, extra=1)))
    assert run(["contract", "check", str(path)]) == EXIT_DONE, "a note is no fault"


def test_long_reports_are_cut_and_say_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "file.jsonl"
    path.write_text("{\n" * 30)
    run(["contract", "check", str(path), "--max-lines", "3"])
    said = capsys.readouterr().out
    assert said.count("refused: record is not JSON") == 3
    assert "and 27 more lines" in said


def test_schema_and_vectors_are_the_published_files(capsys: pytest.CaptureFixture[str]) -> None:
    import jsonschema

    assert run(["contract", "schema"]) == EXIT_DONE
    jsonschema.Draft202012Validator(json.loads(capsys.readouterr().out)).validate(good())
    assert run(["contract", "keep"]) == EXIT_DONE
    vectors = json.loads(capsys.readouterr().out)
    for vector in vectors["vectors"]:
        assert all(kept(vector["trace_id"], p, vector["salt"]) for p in vector["kept_at"])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*good(), "node_id", "text", "score", "role"]), inner, max_size=6)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from([*good()]), JSON), st.booleans())
def test_what_the_codec_refuses_has_a_fault_that_says_something_and_what_it_takes_has_none(
    fields: dict[str, Any], from_good: bool
) -> None:
    value = {**good(), **fields} if from_good else fields
    found = faults_or_none(value)
    try:
        codec.from_object(value)
    except RecordError:
        assert 0 < len(found) <= MAX_FAULTS
        for fault in found:
            assert fault.reason
            assert fault.limit
            assert fault.remedy
            json.dumps([fault.field, fault.value, fault.limit]).encode("utf-8")
    else:
        assert found == ()


def test_a_fault_names_its_field_once(tmp_path: Path) -> None:
    record = good()
    del record["schema_version"]
    found = faults(tmp_path, record)["schema_version"]
    assert found.value == "is missing, send 1"
    assert faults(tmp_path, good(kind="span"))["kind"].value == "'span' is not one of 'trace', 'part', 'feedback'"
