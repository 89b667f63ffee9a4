"""How a record that is too large is made to fit."""

from __future__ import annotations

import random
import string
from datetime import datetime, timezone
from typing import Any

import pytest

from tracejudge.testing import make_trace
from tracejudge_sdk import codec
from tracejudge_sdk.errors import RecordTooLarge
from tracejudge_sdk.trace import Feedback, Trace, TracePart

NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)


def _decoded(record: Any, max_bytes: int) -> Any:
    data = codec.encode(record, max_bytes=max_bytes)
    assert len(data) <= max_bytes
    return codec.decode(data)


def _texts(compressible: bool) -> list[str]:
    if compressible:
        return ["lorem ipsum " * 2500] * 74
    source = random.Random(7)
    return ["".join(source.choices(string.ascii_letters + "äß漢🙂", k=30_000)) for _ in range(74)]


@pytest.mark.parametrize("compressible", [True, False])
def test_b36_a_trace_of_74_long_passages_is_cut_and_keeps_ids_and_scores(compressible: bool) -> None:
    texts = _texts(compressible)
    nodes = [{"node_id": f"n-{i}", "text": text, "score": i / 74} for i, text in enumerate(texts)]
    trace = make_trace(source_nodes=nodes)
    cut = _decoded(trace, codec.DEFAULT_MAX_RECORD_BYTES)
    assert cut.truncated
    assert [(node.node_id, node.score) for node in cut.source_nodes] == [(f"n-{i}", i / 74) for i in range(74)]
    assert (cut.query, cut.response, cut.trace_id) == (trace.query, trace.response, trace.trace_id)
    lengths = {len(node.text) for node in cut.source_nodes}
    assert len(lengths) == 1, "all to one common length"
    for node, text in zip(cut.source_nodes, texts, strict=True):
        assert text.startswith(node.text)


def test_b36_an_answer_of_8_mb_is_cut_and_the_short_texts_stay() -> None:
    trace = make_trace(response="é" * 4_000_000)
    cut = _decoded(trace, codec.DEFAULT_MAX_RECORD_BYTES)
    assert cut.truncated
    assert set(cut.response) == {"é"}
    assert cut.query == trace.query
    assert cut.source_nodes == trace.source_nodes


def test_a_record_at_the_limit_is_left_alone() -> None:
    trace = make_trace()
    size = len(codec.encode(trace))
    assert codec.fit(trace, max_bytes=size) is trace
    cut = _decoded(trace, size - 1)
    assert cut.truncated


def test_it_uses_the_room_there_is() -> None:
    data = codec.encode(make_trace(response="a" * 50_000), max_bytes=10_000)
    assert len(data) == 10_000


def test_no_character_is_split() -> None:
    trace = make_trace(response="🙂" * 3000)
    for max_bytes in range(2000, 2010):
        cut = _decoded(trace, max_bytes)
        assert set(cut.response) == {"🙂"}


def test_texts_that_grow_when_written_are_counted_as_written() -> None:
    """A control character takes six bytes in JSON."""
    assert set(_decoded(make_trace(response="\x01" * 5000), 3000).response) == {"\x01"}


def test_texts_inside_metadata_and_tags_are_cut_too() -> None:
    trace = make_trace(
        tags={"note": "t" * 5000},
        source_nodes=[{"node_id": "n", "text": "short", "metadata": {"page": 3, "raw": {"html": ["h" * 90_000]}}}],
    )
    cut = _decoded(trace, 4000)
    assert cut.source_nodes[0].metadata["page"] == 3
    assert set(cut.source_nodes[0].metadata["raw"]["html"][0]) == {"h"}
    assert cut.source_nodes[0].text == "short"
    assert len(cut.tags["note"]) < 5000


def test_what_cannot_be_cut_below_the_limit_says_sizes_and_remedy() -> None:
    trace = make_trace(source_nodes=[{"node_id": f"n-{i}"} for i in range(1000)])
    with pytest.raises(RecordTooLarge, match="fewer source nodes") as caught:
        codec.encode(trace, max_bytes=10_000)
    assert caught.value.reason == "too_large"
    assert caught.value.limit_bytes == 10_000
    assert caught.value.size_bytes > 10_000


def test_a_part_keeps_silent_about_what_it_did_not_say() -> None:
    part = TracePart(trace_id="t", app="shop", event_time=NOW, response="r" * 9000)
    cut = _decoded(part, 1000)
    assert cut.truncated
    assert cut.source_nodes is None
    assert cut.tags is None
    assert cut.query is None


def test_a_feedback_loses_the_end_of_its_comment() -> None:
    feedback = Feedback(feedback_id="f", trace_id="t", app="shop", event_time=NOW, value=0.0, comment='"ü"' * 5000)
    cut = _decoded(feedback, 1000)
    assert feedback.comment is not None
    assert feedback.comment.startswith(cut.comment)
    assert cut.value == 0.0
    with pytest.raises(RecordTooLarge):
        codec.encode(feedback, max_bytes=50)


def test_encoding_tells_whether_it_cut() -> None:
    trace = make_trace(response="r" * 5000)
    assert not codec.encode_and_tell(trace).cut
    assert codec.encode_and_tell(trace, max_bytes=2000).cut
    assert isinstance(trace, Trace)
