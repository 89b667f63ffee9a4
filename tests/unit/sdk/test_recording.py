"""`with client.trace(...)`: a trace logged when the block ends."""

from __future__ import annotations

import asyncio
import os

import pytest

from tracejudge_sdk import TraceClient
from tracejudge_sdk.testing import MemoryTransport, traces_of
from tracejudge_sdk.trace import Trace


@pytest.fixture
def transport() -> MemoryTransport:
    return MemoryTransport()


@pytest.fixture
def client(transport: MemoryTransport) -> TraceClient:
    return TraceClient(app="shop", transport=transport)


def _only(client: TraceClient, transport: MemoryTransport) -> Trace:
    assert client.close(30)
    (trace,) = traces_of(transport)
    return trace


def test_it_logs_what_was_set_with_the_duration(client: TraceClient, transport: MemoryTransport) -> None:
    with client.trace(query="q", category="c") as t:
        t.response = "r"
        t.set(source_nodes=["passage"], model="m")
        assert t.response == "r"
        assert t.error is None
        known = t.trace_id
    trace = _only(client, transport)
    assert trace.trace_id == known
    assert (trace.query, trace.response, trace.category, trace.model) == ("q", "r", "c", "m")
    assert trace.source_nodes[0].text == "passage"
    assert trace.latency_ms is not None
    assert trace.latency_ms >= 0
    assert trace.status == "ok"


def test_an_exception_passes_through_and_the_trace_says_error(client: TraceClient, transport: MemoryTransport) -> None:
    with pytest.raises(KeyError, match="index"), client.trace(query="q"):
        raise KeyError("index")
    trace = _only(client, transport)
    assert (trace.status, trace.error) == ("error", "KeyError: 'index'")


@pytest.mark.parametrize("kind", [asyncio.CancelledError, GeneratorExit, KeyboardInterrupt])
def test_a_block_that_was_stopped_is_incomplete(
    client: TraceClient, transport: MemoryTransport, kind: type[BaseException]
) -> None:
    with pytest.raises(kind), client.trace(query="q", response="Par"):
        raise kind
    trace = _only(client, transport)
    assert (trace.status, trace.response) == ("incomplete", "Par")


def test_what_the_block_says_itself_counts(client: TraceClient, transport: MemoryTransport) -> None:
    t = client.trace(query="q", trace_id="mine")
    t.status, t.error, t.latency_ms = "incomplete", "own words", 5.0
    with pytest.raises(ValueError, match="x"), t:
        raise ValueError("x")
    trace = _only(client, transport)
    assert (trace.trace_id, trace.status, trace.error, trace.latency_ms) == ("mine", "incomplete", "own words", 5.0)


def test_a_forked_child_does_not_log_what_its_parent_began(client: TraceClient, transport: MemoryTransport) -> None:
    t = client.trace(query="q")
    child = os.fork()
    if child == 0:
        t.finish()
        os._exit(client.stats().logged)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    t.finish(response="r")
    assert _only(client, transport).response == "r"
