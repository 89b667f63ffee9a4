"""The published contract: golden records, JSON Schema, and the vectors of the sampling hash."""

from __future__ import annotations

import hashlib
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tracejudge_sdk import codec
from tracejudge_sdk.errors import RecordError
from tracejudge_sdk.sampling import HEAD_SALT, TAIL_SALT, keep, position
from tracejudge_sdk.schema import keep_vectors, published
from tracejudge_sdk.schema.__main__ import main
from tracejudge_sdk.trace import Trace

GOLDEN = Path(__file__).parents[2] / "data" / "golden" / "v1"
FILES = sorted(GOLDEN.glob("*.json"))


def _load(path: Path) -> dict[str, Any]:
    value = json.loads(path.read_text(encoding="utf-8"))
    assert isinstance(value, dict)
    return value


def test_there_is_a_golden_record_of_every_kind() -> None:
    assert {_load(path)["kind"] for path in FILES} == {"trace", "part", "feedback"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_golden_record_survives_decode_encode_decode(path: Path) -> None:
    record = codec.decode(path.read_bytes())
    assert codec.decode(codec.encode(record)) == record


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_known_field_of_a_golden_record_keeps_its_value(path: Path) -> None:
    given = _load(path)
    record = codec.decode(path.read_bytes())
    written = json.loads(codec.encode(record))
    for name, value in given.items():
        if name in type(record).model_fields and name not in ("event_time", "source_nodes"):
            assert written[name] == value, name
    for mine, theirs in zip(written.get("source_nodes") or [], given.get("source_nodes", []), strict=True):
        assert mine == {name: theirs[name] for name in ("node_id", "text", "score", "metadata")}


def test_the_event_time_is_written_in_utc_to_the_millisecond() -> None:
    written = json.loads(codec.encode(codec.decode((GOLDEN / "trace_minimal.json").read_bytes())))
    assert written["event_time"] == "2026-01-31T12:00:00Z"


def test_unknown_fields_are_ignored() -> None:
    record = codec.decode((GOLDEN / "trace_future_fields.json").read_bytes())
    assert isinstance(record, Trace)
    assert record.query == "What changed?"
    assert not hasattr(record, "routing")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_higher_version_is_refused_with_the_remedy(path: Path) -> None:
    newer = {**_load(path), "schema_version": 2}
    with pytest.raises(RecordError, match="upgrade the consumer") as caught:
        codec.decode(json.dumps(newer).encode())
    assert caught.value.reason == "schema_too_new"
    assert caught.value.field == "schema_version"


def test_a_higher_version_of_an_unknown_kind_says_the_version_first() -> None:
    with pytest.raises(RecordError) as caught:
        codec.decode(b'{"schema_version": 7, "kind": "conversation"}')
    assert caught.value.reason == "schema_too_new"


def test_the_published_schema_is_that_of_the_code() -> None:
    assert published("record") == codec.json_schema(), (
        "write it again: python -m tracejudge_sdk.schema record > producer_sdk/tracejudge_sdk/schema/record.v1.json"
    )


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_golden_records_are_valid_by_the_published_schema(path: Path) -> None:
    jsonschema.Draft202012Validator(published("record")).validate(_load(path))


@pytest.mark.parametrize(
    "change",
    [
        {"trace_id": 5},
        {"trace_id": ""},
        {"trace_id": "x" * 129},
        {"kind": "conversation"},
        {"latency_ms": "1.5"},
        {"latency_ms": -1},
        {"truncated": "yes"},
        {"tags": {"a": 1}},
        {"source_nodes": [{"score": "high"}]},
        {"head_probability": 0},
        {"status": "done"},
    ],
    ids=str,
)
def test_what_the_code_refuses_the_schema_refuses_too(change: dict[str, Any]) -> None:
    wrong = {**_load(GOLDEN / "trace.json"), **change}
    with pytest.raises(RecordError):
        codec.from_object(wrong)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(published("record")).validate(wrong)


@pytest.mark.parametrize("name", ["schema_version", "kind", "trace_id", "app", "event_time", "query"])
def test_a_required_field_is_required_by_code_and_schema(name: str) -> None:
    wrong = {key: value for key, value in _load(GOLDEN / "trace.json").items() if key != name}
    with pytest.raises(RecordError) as caught:
        codec.from_object(wrong)
    assert caught.value.field == name
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(published("record")).validate(wrong)


def test_the_published_keep_vectors_are_those_of_the_code() -> None:
    assert published("keep") == keep_vectors()


def test_the_keep_vectors_hold_by_the_words_of_the_published_algorithm() -> None:
    """Written from the description alone, as somebody in another language would."""
    vectors = published("keep")["vectors"]
    assert {vector["salt"] for vector in vectors} == {HEAD_SALT, TAIL_SALT}
    for vector in vectors:
        digest = hashlib.sha256(vector["salt"].encode() + bytes(1) + vector["trace_id"].encode()).hexdigest()
        where = int(digest[:16], 16)
        assert vector["position"] == str(where)
        for probability in vector["kept_at"]:
            assert Fraction(where) < Fraction(probability) * 2**64
        for probability in vector["not_kept_at"]:
            assert Fraction(where) >= Fraction(probability) * 2**64
        assert 1.0 in vector["kept_at"]
        assert 0.0 in vector["not_kept_at"]


def test_b23_the_same_trace_is_kept_everywhere_and_raising_the_rate_only_adds() -> None:
    ids = [f"t-{number:06d}" for number in range(1000)]
    tenth = {trace_id for trace_id in ids if keep(trace_id, 0.1, TAIL_SALT)}
    fifth = {trace_id for trace_id in ids if keep(trace_id, 0.2, TAIL_SALT)}
    assert tenth < fifth
    assert 70 <= len(tenth) <= 130
    assert not [trace_id for trace_id in ids if keep(trace_id, 0.0, TAIL_SALT)]
    assert all(keep(trace_id, 1.0, TAIL_SALT) for trace_id in ids)
    # A tenth of a tenth is a hundredth, because head and tail have salts of their own.
    both = [trace_id for trace_id in tenth if keep(trace_id, 0.1, HEAD_SALT)]
    assert 1 <= len(both) <= 25


@pytest.mark.parametrize("probability", [-0.1, 1.1, float("nan"), float("inf")])
def test_a_probability_outside_0_to_1_is_refused(probability: float) -> None:
    with pytest.raises(ValueError, match="not in"):
        keep("t", probability, HEAD_SALT)


def test_an_id_with_a_lone_surrogate_has_a_position() -> None:
    assert 0 <= position("\ud800", HEAD_SALT) < 2**64


def test_the_module_prints_the_schema_and_refuses_other_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["record"]) == 0
    assert json.loads(capsys.readouterr().out) == codec.json_schema()
    assert main(["keep"]) == 0
    assert json.loads(capsys.readouterr().out) == keep_vectors()
    assert main(["other"]) == 64
