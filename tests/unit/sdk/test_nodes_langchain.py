"""Source nodes as LangChain hands them over, by LangChain's own classes."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage

from tracejudge_sdk import TraceClient
from tracejudge_sdk.testing import MemoryTransport, traces_of
from tracejudge_sdk.trace import SourceNode, Trace


def _logged(**fields: Any) -> Trace:
    transport = MemoryTransport()
    client = TraceClient(app="shop", transport=transport)
    client.log(**fields)
    assert client.close(30)
    (trace,) = traces_of(transport)
    return trace


DOCUMENT = Document(id="d1", page_content="passage", metadata={"source": "a.pdf", "page": 3})
NODE = SourceNode(node_id="d1", text="passage", metadata={"source": "a.pdf", "page": 3})


@pytest.mark.parametrize(
    ("given", "expected", "lossy"),
    [
        ([DOCUMENT], NODE, False),
        (DOCUMENT, NODE, True),  # one node without its list is one node, and marked
        ([(DOCUMENT, 0.5)], NODE.model_copy(update={"score": 0.5}), False),
        ([(DOCUMENT, np.float32(0.5))], NODE.model_copy(update={"score": 0.5}), True),
        ([DOCUMENT.model_dump()], NODE.model_copy(update={"metadata": {"type": "Document", **NODE.metadata}}), False),
        ([Document(page_content="passage")], SourceNode(text="passage"), False),
    ],
)
def test_documents_are_nodes(given: Any, expected: SourceNode, lossy: bool) -> None:
    trace = _logged(query="q", source_nodes=given)
    assert trace.source_nodes == (expected,)
    assert trace.lossy is lossy


def test_b18_odd_metadata_of_a_document_arrives_as_text_or_number() -> None:
    cycle: dict[str, Any] = {}
    cycle["self"] = cycle
    metadata = {
        "when": datetime(2026, 1, 1, tzinfo=timezone.utc), "tags": {"b", "a"}, "weight": np.float32(1.5),
        "vector": np.arange(3), "blob": b"\x00\xff", "cycle": cycle, "nan": float("nan"), "lone": "\ud800",
    }  # fmt: skip
    trace = _logged(query="q", source_nodes=[Document(page_content="p", metadata=metadata)])
    assert trace.lossy
    assert trace.source_nodes[0].metadata == {
        "when": "2026-01-01T00:00:00+00:00", "tags": ["a", "b"], "weight": 1.5, "vector": [0, 1, 2],
        "blob": "\x00\\xff", "cycle": {"self": "<cycle>"}, "nan": None, "lone": "\ufffd",
    }  # fmt: skip


def test_messages_are_query_response_and_history() -> None:
    history = [HumanMessage("Hello"), AIMessage("Hi")]
    trace = _logged(query=HumanMessage("capital?"), response=AIMessage("Paris."), history=history)
    assert (trace.query, trace.response) == ("capital?", "Paris.")
    assert [(turn.role, turn.content) for turn in trace.history] == [("human", "Hello"), ("ai", "Hi")]
