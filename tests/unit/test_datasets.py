"""Reading and writing files of traces: defaults, labels, and what becomes of lines that cannot be read."""

from __future__ import annotations

import gzip
import io
import json
import os
import tracemalloc
from collections import Counter
from datetime import datetime, timedelta, timezone
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tracejudge.datasets import (
    BrokenLine,
    EventTimes,
    Line,
    RecordLine,
    demo_lines,
    event_times,
    read_lines,
    write_line,
)
from tracejudge.scores import Label
from tracejudge.testing import make_trace

DATA = Path(__file__).parents[1] / "data"
NOON = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
MINIMAL: dict[str, Any] = {"trace_id": "t-1", "app": "shop", "query": "How many?", "response": "Ten."}


def write(path: Path, *lines: Any, end: str = "\n") -> Path:
    text = end.join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    path.write_bytes(text.encode())
    return path


def read_one(tmp_path: Path, value: Any, **options: Any) -> Line | RecordLine | BrokenLine:
    (line,) = read_lines(write(tmp_path / "one.jsonl", value), **options)
    return line


def trace_line(tmp_path: Path, **fields: Any) -> Line:
    line = read_one(tmp_path, {**MINIMAL, **fields})
    assert isinstance(line, Line), line
    return line


def test_a_line_may_lack_what_a_service_would_have_sent(tmp_path: Path) -> None:
    path = write(tmp_path / "traces.jsonl", {"trace_id": "t-1", "query": "How many?", "response": "Ten."})
    os.utime(path, ns=(0, 1_767_268_800_123_999_999))
    (line,) = read_lines(path, app="shop")
    assert isinstance(line, Line)
    assert (line.trace.schema_version, line.trace.kind, line.trace.app, line.trace.status) == (1, "trace", "shop", "ok")
    assert line.trace.environment == "production"
    assert line.trace.event_time == NOON + timedelta(milliseconds=123 + 1)


def test_the_default_event_time_is_that_of_the_file_plus_the_line_number(tmp_path: Path) -> None:
    path = write(tmp_path / "traces.jsonl", MINIMAL, "", MINIMAL)
    os.utime(path, ns=(0, 1_767_268_800_000_000_000))
    first, third = [line for line in read_lines(path) if isinstance(line, Line)]
    assert (first.number, third.number) == (1, 3)
    assert [line.trace.event_time for line in (first, third)] == [
        NOON + timedelta(milliseconds=1),
        NOON + timedelta(milliseconds=3),
    ]
    assert list(read_lines(path)) == [first, third]  # a file read twice gives the same records


def test_given_event_times_start_at_the_first_line_and_leave_those_of_a_line_alone(tmp_path: Path) -> None:
    own = {**MINIMAL, "event_time": "2026-01-01T13:30:00+01:00"}
    path = write(tmp_path / "traces.jsonl", MINIMAL, own, MINIMAL)
    times = [
        line.trace.event_time for line in read_lines(path, event_time=event_times(NOON, 60.0)) if isinstance(line, Line)
    ]
    assert times == [NOON, NOON + timedelta(minutes=30), NOON + timedelta(minutes=2)]


def test_event_times_are_checked() -> None:
    with pytest.raises(ValueError, match="has no time zone"):
        event_times(datetime(2026, 1, 1), 1.0)  # noqa: DTZ001 - the fault under test
    for step_s in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="step_s"):
            event_times(NOON, step_s)


def test_a_step_beyond_the_calendar_breaks_the_line_and_not_the_reader(tmp_path: Path) -> None:
    times = EventTimes(first=NOON, step=timedelta(days=900_000_000))
    path = write(tmp_path / "traces.jsonl", MINIMAL, MINIMAL)
    first, second = read_lines(path, event_time=times)
    assert isinstance(first, Line)
    assert isinstance(second, BrokenLine)
    assert "smaller step" in second.detail


@pytest.mark.parametrize(
    ("fields", "status"),
    [({}, "ok"), ({"response": ""}, "ok"), ({"response": None}, "error"), ({"response": None, "status": "ok"}, "ok")],
)
def test_the_status_follows_from_the_response(tmp_path: Path, fields: dict[str, Any], status: str) -> None:
    assert trace_line(tmp_path, **fields).trace.status == status


def test_an_empty_query_and_nodes_without_text_are_kept(tmp_path: Path) -> None:
    trace = trace_line(tmp_path, query="", source_nodes=[{"node_id": "n-1"}]).trace
    assert trace.query == ""
    assert trace.source_nodes[0].text is None


def test_the_line_says_its_app_before_the_reader_does(tmp_path: Path) -> None:
    line = read_one(tmp_path, MINIMAL, app="other")
    assert isinstance(line, Line)
    assert line.trace.app == "shop"
    missing = read_one(tmp_path, {"trace_id": "t", "query": "q"})
    assert isinstance(missing, BrokenLine)
    assert (missing.reason, "--app" in missing.detail) == ("invalid_field", True)


def test_labels_are_booleans_and_numbers_and_the_rest_becomes_tags(tmp_path: Path) -> None:
    line = trace_line(
        tmp_path,
        labels={
            "faithfulness": True,
            "relevance": False,
            "helpfulness": 4.5,
            "stance": "refute",
            "marks": [4, 3],
            "none": None,
            "huge": 10**400,
        },
        label_source="human: two annotators",
        event_time="2026-01-01T12:00:00Z",
    )
    assert line.labels[0] == Label(
        environment="production",
        app="shop",
        trace_id="t-1",
        criterion="faithfulness",
        value=1.0,
        source="human: two annotators",
        labelled_at=NOON,
    )
    assert {label.criterion: label.value for label in line.labels} == {
        "faithfulness": 1.0,
        "relevance": 0.0,
        "helpfulness": 4.5,
    }
    assert line.trace.tags == {"stance": "refute", "marks": "[4, 3]", "huge": str(10**400)}


def test_metadata_is_flattened_into_tags(tmp_path: Path) -> None:
    metadata = {
        "dataset": "a",
        "turn": 4,
        "ok": True,
        "run": {"id": 7, "by": {"name": "é"}},
        "list": [{"a": 1}],
        "no": None,
    }
    assert trace_line(tmp_path, metadata=metadata).trace.tags == {
        "dataset": "a",
        "turn": "4",
        "ok": "true",
        "run.id": "7",
        "run.by.name": "é",
        "list": '[{"a": 1}]',
    }
    assert trace_line(tmp_path, metadata="free text").trace.tags == {"metadata": "free text"}


def test_names_that_collide_keep_both_values(tmp_path: Path) -> None:
    line = trace_line(
        tmp_path,
        tags={"dataset": "own", "same": "x", "metadata.dataset": "own too"},
        metadata={"dataset": "theirs", "same": "x", "stance": "m", "a.b": "flat", "a": {"b": "deep"}},
        labels={"stance": "l"},
    )
    assert line.trace.tags == {
        "dataset": "own",
        "same": "x",
        "metadata.dataset": "own too",  # the long name is taken as well: what the service said stays
        "stance": "m",
        "labels.stance": "l",
        "a.b": "flat",
        "metadata.a.b": "deep",
    }


def test_b18_lone_surrogates_become_replacement_characters_everywhere(tmp_path: Path) -> None:
    text = (
        '{"trace_id":"t","app":"a","query":"\\ud83d","response":"r","metadata":{"\\udc00k":"\\udc00","l":["\\ud800"]},'
        '"labels":{"x\\ud800":1,"y":"\\ud800"},"source_nodes":[{"text":"\\ud83d","metadata":{"m":"\\ud83d"}}]}'
    )
    line = read_one(tmp_path, text)
    assert isinstance(line, Line)
    line.trace.model_dump_json()
    assert line.trace.query == "\ufffd"
    assert line.trace.tags == {"\ufffdk": "\ufffd", "l": '["\ufffd"]', "y": "\ufffd"}
    assert line.labels[0].criterion == "x\ufffd"


@pytest.mark.parametrize(
    ("text", "reason", "said"),
    [
        ('{"trace_id": "t", "app": "a", "query": "cut', "not_json", "not JSON"),
        ("null", "not_an_object", "not an object"),
        ("[1]", "not_an_object", "not an object"),
        ('{"trace_id": 7, "app": "a", "query": "q"}', "invalid_field", "trace_id"),
        ('{"trace_id": "t", "app": "a"}', "invalid_field", "query"),
        ('{"trace_id": "t", "app": "a", "query": "q", "latency_ms": NaN}', "not_json", "NaN"),
        ('{"trace_id": "t", "app": "a", "query": "q", "kind": "span"}', "unknown_kind", "span"),
        ('{"trace_id": "t", "app": "a", "query": "q", "schema_version": 9}', "schema_too_new", "upgrade"),
        ('{"trace_id": "t", "app": "a", "query": "q", "labels": [true]}', "invalid_field", "labels"),
        ('{"trace_id": "t", "app": "a", "query": "q", "labels": {"": true}}', "invalid_field", "criterion"),
        ('{"trace_id": "t", "app": "a", "query": "q", "tags": ["x"]}', "invalid_field", "tags"),
        ('{"trace_id": "t", "app": "a", "query": "q", "tags": {"x": 1}}', "invalid_field", "tags"),
        ('{"trace_id": "t", "app": "a", "query": "q", "event_time": "yesterday"}', "invalid_field", "event_time"),
        ("[" * 100_000, "not_json", ""),
        ('{"trace_id": "t", "app": "a", "query": "q", "metadata": ' + '{"a":' * 900 + "1" + "}" * 901, "", ""),
    ],
)
def test_a_broken_line_keeps_its_bytes_and_says_why(tmp_path: Path, text: str, reason: str, said: str) -> None:
    path = write(tmp_path / "broken.jsonl", MINIMAL, text, MINIMAL)
    lines = list(read_lines(path))
    assert [line.number for line in lines] == [1, 2, 3]
    assert isinstance(lines[0], Line)
    assert isinstance(lines[2], Line)
    if reason:
        broken = lines[1]
        assert isinstance(broken, BrokenLine)
        assert (broken.raw, broken.reason) == (text.encode(), reason)
        assert said in broken.detail


def test_bytes_that_are_no_utf8_break_one_line(tmp_path: Path) -> None:
    path = tmp_path / "latin1.jsonl"
    path.write_bytes(json.dumps(MINIMAL).encode() + b'\n{"query": "\xe4"}\n' + json.dumps(MINIMAL).encode())
    good, broken, last = read_lines(path)
    assert isinstance(broken, BrokenLine)
    assert (broken.number, broken.reason, broken.raw) == (2, "not_utf8", b'{"query": "\xe4"}')
    assert isinstance(good, Line)
    assert isinstance(last, Line)


def test_parts_and_feedback_pass_through_as_records(tmp_path: Path) -> None:
    part = {"kind": "part", "trace_id": "t", "response": "The start"}
    feedback = {"kind": "feedback", "feedback_id": "f", "trace_id": "t", "value": 0}
    path = write(tmp_path / "records.jsonl", part, feedback)
    one, other = read_lines(path, app="shop", event_time=event_times(NOON, 1))
    assert isinstance(one, RecordLine)
    assert isinstance(other, RecordLine)
    assert (one.record.kind, one.record.app, one.record.event_time) == ("part", "shop", NOON)
    assert (other.record.kind, other.record.event_time) == ("feedback", NOON + timedelta(seconds=1))


def test_gzip_is_told_by_content_and_members_follow_each_other(tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"  # not called .gz
    line = json.dumps(MINIMAL).encode() + b"\n"
    path.write_bytes(gzip.compress(line) + gzip.compress(line + line))
    assert len(list(read_lines(path))) == 3
    plain = tmp_path / "traces.jsonl.gz"  # not gzip
    plain.write_bytes(line)
    assert len(list(read_lines(plain))) == 1


def test_a_byte_order_mark_carriage_returns_and_blank_lines_do_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "windows.jsonl"
    line = json.dumps(MINIMAL).encode()
    path.write_bytes(b"\xef\xbb\xbf" + line + b"\r\n\r\n   \n\t\r\n" + line + b"\r\n" + line)
    assert [line.number for line in read_lines(path) if isinstance(line, Line)] == [1, 5, 6]


def test_empty_files_hold_nothing(tmp_path: Path) -> None:
    for content in (b"", b"\n\n", b"\xef\xbb\xbf", gzip.compress(b"")):
        path = tmp_path / "empty.jsonl"
        path.write_bytes(content)
        assert list(read_lines(path)) == []


@pytest.mark.parametrize("cut", ["tail", "middle"])
def test_a_damaged_gzip_file_yields_what_stands_before_the_damage(tmp_path: Path, cut: str) -> None:
    path = tmp_path / "damaged.jsonl.gz"
    lines = b"".join(
        json.dumps(
            {**MINIMAL, "trace_id": f"t-{n}", "response": sha256(bytes([n % 256, n // 256])).hexdigest()}
        ).encode()
        + b"\n"
        for n in range(2000)
    )
    data = bytearray(gzip.compress(lines))
    if cut == "tail":
        del data[-200:]
    else:
        data[len(data) // 2 : len(data) // 2 + 50] = b"\x00" * 50
    path.write_bytes(bytes(data))
    found = list(read_lines(path))
    assert isinstance(found[0], Line)
    last = found[-1]
    assert isinstance(last, BrokenLine)
    assert (last.reason, last.raw) == ("damaged_gzip", b"")
    assert len(found) > 100


def test_a_line_of_twenty_megabytes_is_read(tmp_path: Path) -> None:
    text = "ä" * 10_000_000
    line = trace_line(tmp_path, source_nodes=[{"node_id": "n", "text": text}])
    assert line.trace.source_nodes[0].text == text


def test_a_line_above_the_limit_is_skipped_and_the_next_one_read(tmp_path: Path) -> None:
    long = {**MINIMAL, "response": "x" * 3_000_000}
    path = write(tmp_path / "long.jsonl", MINIMAL, long, MINIMAL)
    first, broken, last = read_lines(path, max_line_bytes=100_000)
    assert isinstance(broken, BrokenLine)
    assert (broken.reason, len(broken.raw)) == ("line_too_long", 65536)
    assert isinstance(first, Line)
    assert isinstance(last, Line)
    exact = len(json.dumps(MINIMAL)) + 1
    assert all(
        isinstance(line, Line) for line in read_lines(write(tmp_path / "x", MINIMAL, MINIMAL), max_line_bytes=exact)
    )


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "large.jsonl.gz"
    with gzip.open(path, "wb", compresslevel=1) as out:
        for number in range(2000):
            out.write(json.dumps({**MINIMAL, "trace_id": f"t-{number}", "response": "x" * 10_000}).encode() + b"\n")
    tracemalloc.start()
    try:
        assert sum(1 for _ in read_lines(path)) == 2000
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2_000_000  # the text is 20 MB


def test_a_file_that_is_not_there_is_said_at_the_first_line(tmp_path: Path) -> None:
    lines = read_lines(tmp_path / "absent.jsonl")
    with pytest.raises(FileNotFoundError):
        next(lines)


def test_labels_written_come_back(tmp_path: Path) -> None:
    trace = make_trace(response=None, tags={"a": "b"}, event_time="2026-01-01T12:00:00.123Z")
    labels = [
        Label(environment="production", app="shop", trace_id=trace.trace_id, criterion=criterion, value=value,
              source="human", labelled_at=trace.event_time)
        for criterion, value in (("faithfulness", 1.0), ("relevance", 0.0), ("marks", 3.5))
    ]  # fmt: skip
    path = tmp_path / "out.jsonl"
    with path.open("wb") as out:
        write_line(out, trace, labels=labels)
    assert json.loads(path.read_text())["labels"] == {"faithfulness": True, "relevance": False, "marks": 3.5}
    assert list(read_lines(path)) == [Line(number=1, trace=trace, labels=tuple(labels))]


def test_labels_that_do_not_fit_on_one_line_are_refused() -> None:
    trace = make_trace()
    label = Label(environment="production", app="shop", trace_id=trace.trace_id, criterion="c", value=1.0,
                  source="a", labelled_at=NOON)  # fmt: skip
    with pytest.raises(ValueError, match="not all are of trace"):
        write_line(io.BytesIO(), make_trace(1), labels=[label])
    other = Label(environment="production", app="shop", trace_id=trace.trace_id, criterion="c", value=1.0,
                  source="b", labelled_at=NOON)  # fmt: skip
    with pytest.raises(ValueError, match="2 sources"):
        write_line(io.BytesIO(), trace, labels=[label, other])


def test_the_file_of_mixed_quality_is_read_line_by_line() -> None:
    lines = list(read_lines(DATA / "mixed_quality.jsonl"))
    assert {line.number: line.reason for line in lines if isinstance(line, BrokenLine)} == {
        2: "not_json",
        11: "invalid_field",
        12: "not_an_object",
        13: "not_json",
        14: "invalid_field",
        15: "schema_too_new",
    }
    assert [line.number for line in lines if isinstance(line, RecordLine)] == [16, 17]
    assert [line.number for line in lines if isinstance(line, Line)] == [1, 3, 4, 5, 6, 8, 9, 10, 18, 19, 20]


@pytest.mark.parametrize(
    ("name", "rows", "labels"), [("mtrag_sample.jsonl.gz", 20, 20), ("hagrid_unfaithful.jsonl.gz", 222, 222)]
)
def test_the_samples_are_read_whole(name: str, rows: int, labels: int) -> None:
    lines = [line for line in read_lines(DATA / name) if isinstance(line, Line)]
    assert len(lines) == rows
    assert sum(len(line.labels) for line in lines) == labels


def test_the_demo_data_is_read_whole_and_alike_every_time() -> None:
    lines = list(demo_lines())
    assert Counter(line.trace.app for line in lines) == {"mtrag-ibmcloud": 87, "mtrag-govt": 87, "hagrid": 246}
    assert len({line.trace.trace_id for line in lines}) == len(lines)
    assert all(line.labels[0].criterion == "faithfulness" for line in lines)
    assert lines == list(demo_lines())
    moved = next(demo_lines(event_time=event_times(NOON, 2.0)))
    assert moved.trace.event_time == NOON


_LABELLED = {
    "attribution_claims": (1310, 1310),
    "begin_wow": (629, 629),
    "clapnq_answerability": (312, 470),
    "factcheck_stance": (951, 1902),
    "halueval_qa": (771, 1542),
    "mtrag_human": (258, 258),
    "ragtruth_data2txt": (420, 420),
    "ragtruth_qa": (439, 439),
    "ragtruth_summary": (450, 450),
    "retrieval_bm25": (270, 0),
}


@pytest.mark.skipif("TRACEJUDGE_DATA" not in os.environ, reason="TRACEJUDGE_DATA names no folder of labelled sets")
@pytest.mark.parametrize("name", _LABELLED)
def test_every_line_of_the_labelled_sets_is_a_trace(name: str) -> None:
    lines = list(read_lines(Path(os.environ["TRACEJUDGE_DATA"]) / f"{name}.jsonl.gz"))
    traces = [line for line in lines if isinstance(line, Line)]
    assert (len(lines), len(traces), sum(len(line.labels) for line in traces)) == (
        _LABELLED[name][0],
        *_LABELLED[name],
    )


@pytest.mark.skipif("TRACEJUDGE_DATA" not in os.environ, reason="TRACEJUDGE_DATA names no folder of labelled sets")
def test_a_set_that_holds_no_traces_is_broken_line_by_line() -> None:
    lines = list(read_lines(Path(os.environ["TRACEJUDGE_DATA"]) / "pairwise.jsonl.gz"))
    assert len(lines) == 766
    assert all(isinstance(line, BrokenLine) and line.detail.startswith("trace_id") for line in lines)


def test_a_line_of_question_answer_and_plain_passages_is_enough(tmp_path: Path) -> None:
    path = write(tmp_path / "traces.jsonl", {"query": "q", "response": "r", "source_nodes": ["one", {"text": "two"}]})
    first, second = (list(read_lines(path, app="shop")) for _ in range(2))
    assert first == second
    (line,) = first
    assert isinstance(line, Line)
    assert [node.text for node in line.trace.source_nodes] == ["one", "two"]
    assert line.trace.trace_id.startswith("line-")
    assert line.trace.trace_id.endswith("-1")
