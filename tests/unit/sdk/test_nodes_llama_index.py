"""Source nodes of the real LlamaIndex, read by their shape."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any

import numpy
from llama_index.core.base.response.schema import Response
from llama_index.core.schema import Document, ImageNode, IndexNode, NodeWithScore, QueryBundle, TextNode

from tests.support.nodes import snapshot_nodes
from tracejudge_sdk import codec
from tracejudge_sdk.client import TraceClient
from tracejudge_sdk.testing import MemoryTransport, traces_of
from tracejudge_sdk.trace import Trace


def _logged(**fields: Any) -> Trace:
    transport = MemoryTransport()
    client = TraceClient(app="shop", transport=transport)
    client.log(**fields)
    assert client.close()
    (trace,) = traces_of(transport)
    return trace


def test_b17_nodes_with_scores_survive_log_and_load() -> None:
    nodes = [
        NodeWithScore(node=TextNode(id_="a", text="first", metadata={"page": 1}), score=0.5),
        NodeWithScore(node=TextNode(id_="b", text="second"), score=None),
    ]
    trace = _logged(query="q", response="r", source_nodes=nodes)
    again = codec.decode(codec.encode(trace))
    assert again == trace
    assert [(n.node_id, n.text, n.score, n.metadata) for n in trace.source_nodes] == [
        ("a", "first", 0.5, {"page": 1}),
        ("b", "second", None, {}),
    ]
    assert not trace.lossy


def test_b17_nodes_turned_into_dicts_say_the_same() -> None:
    node = NodeWithScore(node=TextNode(id_="a", text="first", metadata={"page": 1}), score=0.5)
    assert snapshot_nodes([node.to_dict()]).nodes == snapshot_nodes([node]).nodes


def test_a_response_brings_its_own_source_nodes() -> None:
    node = NodeWithScore(node=TextNode(id_="a", text="first"), score=0.5)
    trace = _logged(query=QueryBundle("What?"), response=Response("This.", source_nodes=[node]))
    assert (trace.query, trace.response) == ("What?", "This.")
    assert [n.node_id for n in trace.source_nodes] == ["a"]
    assert not trace.lossy


def test_a_response_without_answer_is_no_answer() -> None:
    assert _logged(query="q", response=Response(None)).response is None


def test_documents_and_bare_nodes_are_nodes() -> None:
    found = snapshot_nodes([Document(id_="d", text="whole"), TextNode(id_="t", text="bare")])
    assert [(n.node_id, n.text) for n in found.nodes] == [("d", "whole"), ("t", "bare")]


def test_b20_an_image_node_has_no_text() -> None:
    found = snapshot_nodes([NodeWithScore(node=ImageNode(id_="i", image_url="http://localhost/i.png"), score=0.5)])
    assert found.nodes[0].node_id == "i"
    assert not found.nodes[0].text


def test_b18_odd_metadata_and_scores_arrive_as_text_or_number() -> None:
    cycle: dict[str, Any] = {}
    cycle["self"] = cycle
    odd = {
        "when": datetime(2026, 1, 1, tzinfo=timezone.utc),
        "tags": {1, 2},
        "w": numpy.float32(1.5),
        "blob": b"\x00\xff",
        "cycle": cycle,
    }
    nodes = [
        NodeWithScore.model_construct(node=TextNode(id_="t", text="t", metadata=odd), score=numpy.float32(0.5)),
        NodeWithScore(node=IndexNode(id_="x", text="x", index_id="x", obj=object()), score=float("nan")),
    ]
    trace = _logged(query="q", response="r", source_nodes=nodes)
    assert trace.lossy
    assert trace.source_nodes[0].score == 0.5
    assert trace.source_nodes[1].score is None
    assert trace.source_nodes[0].metadata == {
        "when": "2026-01-01T00:00:00+00:00",
        "tags": [1, 2],
        "w": 1.5,
        "blob": "\x00\\xff",
        "cycle": {"self": "<cycle>"},
    }
    json.loads(codec.encode(trace), parse_constant=lambda name: 1 / 0)


def test_one_node_without_its_list_is_one_node() -> None:
    node = NodeWithScore(node=TextNode(id_="a", text="first"), score=0.5)
    assert [n.node_id for n in snapshot_nodes(node).nodes] == ["a"]
