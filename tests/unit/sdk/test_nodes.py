"""Source nodes from the shapes that services have at hand."""

from __future__ import annotations

import itertools
import uuid
from dataclasses import dataclass, field
from typing import Any

import numpy
import pytest

from tests.support.nodes import snapshot_nodes
from tracejudge_sdk.nodes import NodeSnapshot
from tracejudge_sdk.trace import SourceNode


@dataclass
class Document:
    """The shape of a LangChain document."""

    page_content: str
    metadata: dict[str, Any] = field(default_factory=dict)
    id: str | None = None


@dataclass
class Passage:
    text: str
    score: float
    node_id: str = "p"


class Hostile:
    @property
    def text(self) -> str:
        raise RuntimeError("no")

    def __repr__(self) -> str:
        return "<hostile>"


def _one(item: Any) -> tuple[NodeSnapshot, bool]:
    found = snapshot_nodes([item])
    assert len(found.nodes) == 1
    return found.nodes[0], found.lossy


@pytest.mark.parametrize(
    ("item", "node"),
    [
        ("passage", NodeSnapshot("", "passage", None, {})),
        (SourceNode(node_id="n", text="t", score=0.5), NodeSnapshot("n", "t", 0.5, {})),
        (17, NodeSnapshot("17", None, None, {})),
        (uuid.UUID(int=1), NodeSnapshot("00000000-0000-0000-0000-000000000001", None, None, {})),
        ({"node_id": "n", "text": "t", "score": 1}, NodeSnapshot("n", "t", 1.0, {})),
        ({"id": "n", "content": "t"}, NodeSnapshot("n", "t", None, {})),
        ({"id": 3, "page_content": "t", "metadata": {"a": 1}}, NodeSnapshot("3", "t", None, {"a": 1})),
        ({"id": "n"}, NodeSnapshot("n", None, None, {})),
        ({"id": "n", "text": "t", "url": "u"}, NodeSnapshot("n", "t", None, {"url": "u"})),
        (
            {"node": {"id_": "n", "text": "t", "metadata": {"a": 1}}, "score": 0.25},
            NodeSnapshot("n", "t", 0.25, {"a": 1}),
        ),
        (Document("t", {"a": 1}, "d"), NodeSnapshot("d", "t", None, {"a": 1})),
        ((Document("t"), 0.75), NodeSnapshot("", "t", 0.75, {})),
        (("t", 0.75), NodeSnapshot("", "t", 0.75, {})),
        (Passage("t", 0.5), NodeSnapshot("p", "t", 0.5, {})),
        ({"node_id": "n", "text": ""}, NodeSnapshot("n", "", None, {})),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_a_known_shape_is_read_without_loss(item: Any, node: NodeSnapshot) -> None:
    assert _one(item) == (node, False)


@pytest.mark.parametrize(
    ("item", "node"),
    [
        ({"text": "t", "score": float("nan")}, NodeSnapshot("", "t", None, {})),
        ({"text": "t", "score": numpy.float32(0.5)}, NodeSnapshot("", "t", 0.5, {})),
        ({"text": "t", "score": numpy.float32("nan")}, NodeSnapshot("", "t", None, {})),
        ({"text": "t", "score": "high"}, NodeSnapshot("", "t", None, {})),
        ({"text": b"t\xff"}, NodeSnapshot("", "t\\xff", None, {})),
        ({"id": "n", "text": ["no", "text"]}, NodeSnapshot("n", None, None, {})),
        ({"text": "t", "metadata": "m"}, NodeSnapshot("", "t", None, {"metadata": "m"})),
        ({"text": "t", "metadata": {"s": {1}}}, NodeSnapshot("", "t", None, {"s": [1]})),
        (None, NodeSnapshot("", None, None, {"object": "None"})),
        (Hostile(), NodeSnapshot("", None, None, {"object": "<hostile>"})),
        (1.5, NodeSnapshot("", None, None, {"object": "1.5"})),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_an_odd_shape_loses_what_it_must_and_says_so(item: Any, node: NodeSnapshot) -> None:
    assert _one(item) == (node, True)


def test_ids_without_text_are_ids_and_never_text() -> None:
    found = snapshot_nodes(["only text", 4, {"id": "x"}])
    assert [(node.node_id, node.text) for node in found.nodes] == [("", "only text"), ("4", None), ("x", None)]


def test_one_node_without_its_list_is_one_node() -> None:
    assert snapshot_nodes("passage").nodes == (NodeSnapshot("", "passage", None, {}),)
    assert snapshot_nodes({"text": "t"}).nodes == (NodeSnapshot("", "t", None, {}),)
    assert snapshot_nodes(Passage("t", 0.5)).nodes == (NodeSnapshot("p", "t", 0.5, {}),)


def test_no_nodes_are_no_nodes() -> None:
    assert snapshot_nodes(None) == ((), 0, False)
    assert snapshot_nodes([]) == ((), 0, False)


def test_a_generator_is_read_once() -> None:
    assert [node.text for node in snapshot_nodes(text for text in "ab").nodes] == ["a", "b"]


def test_a_list_that_breaks_in_the_middle_keeps_what_came_before() -> None:
    def broken() -> Any:
        yield "a"
        raise RuntimeError("index gone")

    found = snapshot_nodes(broken())
    assert [node.text for node in found.nodes] == ["a"]
    assert found.lossy


def test_the_order_shown_to_the_generator_stays() -> None:
    found = snapshot_nodes([{"id": str(i), "score": i} for i in (3, 1, 2)])
    assert [node.node_id for node in found.nodes] == ["3", "1", "2"]


def test_a_snapshot_does_not_change_with_its_source() -> None:
    metadata: dict[str, Any] = {"page": 1, "tags": ["a"]}
    item = {"id": "n", "text": "t", "metadata": metadata}
    found = snapshot_nodes([item])
    metadata["page"] = 2
    metadata["tags"].append("b")
    item["text"] = "other"
    assert found.nodes == (NodeSnapshot("n", "t", None, {"page": 1, "tags": ["a"]}),)


def test_the_size_counts_texts_as_memory_holds_them() -> None:
    plain = snapshot_nodes(["a" * 10_000]).size_bytes
    wide = snapshot_nodes(["🙂" * 10_000]).size_bytes
    assert 10_000 < plain < 12_000
    assert 40_000 < wide < 42_000
    assert snapshot_nodes([{"metadata": {"raw": [{"html": "h" * 50_000}]}}]).size_bytes > 50_000


def test_an_iterator_without_end_stops_at_the_limit() -> None:
    found = snapshot_nodes(itertools.count())
    assert len(found.nodes) == 1000
    assert found.lossy
