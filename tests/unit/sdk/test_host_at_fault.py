"""What a service's own code may do wrong around the client: no trace is lost for it and no call raises."""

from __future__ import annotations

import asyncio
import itertools
import logging
import queue
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

import tracejudge_sdk
from tests.support.held_transport import HeldTransport
from tracejudge_sdk import SendPolicy, TraceClient, TransportUnavailable
from tracejudge_sdk.client import TraceClient as Client
from tracejudge_sdk.nesting import NestedRecording
from tracejudge_sdk.testing import MemoryTransport, traces_of

QUICK = SendPolicy(linger_s=0.001, first_pause_s=0.001, longest_pause_s=0.002, report_interval_s=0.0)


class NeedsRequest(logging.Filter):
    """As filters that add the current request's id are: outside of a request they raise."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = threading.Event()

    def filter(self, record: logging.LogRecord) -> bool:
        self.asked.set()
        raise RuntimeError("working outside of request context")


@pytest.fixture
def broken_logging() -> Iterator[NeedsRequest]:
    handler, broken = logging.StreamHandler(), NeedsRequest()
    handler.addFilter(broken)
    logger = logging.getLogger("tracejudge_sdk")
    logger.addHandler(handler)
    yield broken
    logger.removeHandler(handler)


def test_a_logging_filter_that_raises_costs_no_trace(broken_logging: NeedsRequest) -> None:
    transport = MemoryTransport()
    transport.error = TransportUnavailable("down")
    client = TraceClient(app="shop", transport=transport, policy=QUICK)
    client.log(query="q", trace_id="first")
    assert broken_logging.asked.wait(30), "the outage is told"
    transport.error = None
    client.log(query="q", trace_id="second", misspelt="told too")  # type: ignore[call-arg]
    assert client.close(30)
    assert {trace.trace_id for trace in traces_of(transport)} == {"first", "second"}
    assert dict(client.stats().dropped) == {}


def test_a_rule_that_fails_raises_nothing_where_logging_raises_too(broken_logging: NeedsRequest) -> None:
    client = TraceClient(app="shop", transport=MemoryTransport(), policy=QUICK)

    @client.observe(category=lambda arguments: arguments["missing"])
    def answer(question: str) -> str:
        return "r"

    assert answer("q") == "r"
    assert client.close(30)
    assert client.stats().sent == 1


def test_the_first_calls_of_several_threads_all_find_the_default_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACEJUDGE_QUEUE", "memory://first-calls")
    monkeypatch.setenv("TRACEJUDGE_APP", "shop")
    tracejudge_sdk.set_default_client(None)
    began, go_on = threading.Event(), threading.Event()
    from_env = Client.from_env

    def slowly(*args: Any, **kwargs: Any) -> TraceClient:
        began.set()
        assert go_on.wait(30)
        return from_env(*args, **kwargs)

    monkeypatch.setattr(Client, "from_env", slowly)
    found: list[TraceClient | None] = []
    first = threading.Thread(target=lambda: found.append(tracejudge_sdk.default_client()))
    first.start()
    assert began.wait(30)
    second = threading.Thread(target=lambda: found.append(tracejudge_sdk.default_client()))
    second.start()
    second.join(0.05)  # it waits for the first, or has gone away without a client
    go_on.set()
    first.join(30)
    second.join(30)
    tracejudge_sdk.set_default_client(None)
    assert len(found) == 2
    assert found[0] is not None
    assert found[0] is found[1]
    found[0].close(10)


class Detached:
    """A lazily loaded list whose session is gone after its first item."""

    def __iter__(self) -> Iterator[object]:
        yield {"role": "user", "content": "before"}
        raise RuntimeError("detached")


def test_a_history_that_cannot_be_read_to_its_end_keeps_the_trace() -> None:
    transport = MemoryTransport()
    client = TraceClient(app="shop", transport=transport, policy=QUICK)
    client.log(query="q", history=Detached(), expected_ids=Detached())
    assert client.close(30)
    (trace,) = traces_of(transport)
    assert [turn.content for turn in trace.history] == ["before"]
    assert trace.lossy


def test_no_more_of_a_history_is_read_than_of_anything_else() -> None:
    transport = MemoryTransport()
    client = TraceClient(app="shop", transport=transport, policy=QUICK)
    endless = iter(lambda: ("user", "again"), None)
    client.log(query="q", history=endless, expected_ids=iter(lambda: "id", None))
    assert client.close(30)
    (trace,) = traces_of(transport)
    assert (len(trace.history), len(trace.expected_ids), trace.lossy) == (1000, 1000, True)


class Unreadable:
    def __str__(self) -> str:
        raise ValueError("no text")


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("TRACEJUDGE_HANDLE_SIGTERM", "true", "TRACEJUDGE_HANDLE_SIGTERM has no effect"),
        ("TRACEJUDGE_SPOOL", "x" * 300, "spool: "),
    ],
)
def test_a_default_client_first_needed_by_a_request_raises_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, variable: str, value: str, said: str
) -> None:
    monkeypatch.setenv("TRACEJUDGE_QUEUE", "memory://a-request")
    monkeypatch.setenv("TRACEJUDGE_APP", "shop")
    monkeypatch.setenv(variable, value)
    tracejudge_sdk.set_default_client(None)
    found: list[Client | None] = []
    request = threading.Thread(target=lambda: found.append(tracejudge_sdk.default_client()))
    request.start()
    request.join(30)
    tracejudge_sdk.set_default_client(None)
    assert len(found) == 1, "it raised nothing"
    assert said in caplog.text
    (client,) = found
    assert (client is None) == (variable == "TRACEJUDGE_SPOOL"), "without the signal it logs all the same"
    if client is not None:
        assert client.log(query="q")
        assert client.close(30)
        assert client.stats().sent == 1


def test_locks_and_queues_are_those_of_the_moment_they_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """gevent replaces them in its workers, after the client was made and the worker forked: an old one, waited for by a
    new thread, stops the whole process."""
    client = TraceClient(app="shop", transport=MemoryTransport(), policy=QUICK)
    for kind in (queue.LifoQueue, queue.Queue):
        monkeypatch.setattr(queue, "SimpleQueue", kind)
        client.log(query="q")
        assert isinstance(client._outbox._bell, kind)
        assert client.flush(30)
        client.after_fork_in_child()
    assert client.close(10)


def test_threads_that_survive_a_fork_send_nothing_more_and_end() -> None:
    """gevent's do: they are no threads of the system."""
    held = HeldTransport()
    client = TraceClient(app="shop", transport=held, policy=QUICK)
    client.log(query="under way", trace_id="under way")
    assert held.entered.wait(30)
    client.log(query="the parent's", trace_id="the parent's")
    survivor = client._pipeline.sender
    client.after_fork_in_child()
    held.go.set()
    survivor.join(30)
    assert not survivor.alive
    client.log(query="the child's", trace_id="the child's")
    assert client.close(30)
    assert [key for key, _ in held.records] == ["under way", "the child's"]
    assert client.stats().logged == 1


class Unbound:
    """As a proxy of the current request outside of one: whatever is asked of it raises, its class too."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError("working outside of request context")


class NoLength(tuple[Any, ...]):
    def __len__(self) -> int:
        raise RuntimeError("no length")


class Frozen:
    """A streaming answer whose stream cannot be replaced."""

    def __init__(self) -> None:
        self.__dict__["response_gen"] = (piece for piece in ["a", "b"])

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("frozen")


@pytest.mark.parametrize("make", [Unbound, lambda: NoLength(("a", ())), Frozen], ids=["proxy", "tuple", "frozen"])
def test_what_observed_functions_take_and_give_may_raise_at_any_look(make: Callable[[], Any]) -> None:
    value = make()
    client = TraceClient(app="shop", transport=MemoryTransport(), policy=QUICK)

    @client.observe
    def answer(first: Any, second: str) -> Any:
        return value

    @client.observe
    def stream(question: Any) -> Iterator[Any]:
        yield value

    @client.observe
    async def later(question: Any) -> Any:
        return value

    @client.observe
    async def later_stream(question: Any) -> AsyncIterator[Any]:
        yield value

    async def asked() -> list[Any]:
        return [await later(value), *[piece async for piece in later_stream(value)]]

    given = [answer(value, "q"), *stream(value), *asyncio.run(asked())]
    assert all(one is value for one in given)
    assert client.log_trace(value) == ""
    assert client.close(30)
    stats = client.stats()
    assert (stats.logged, stats.sent + stats.dropped_total) == (5, 5)


def test_a_response_that_may_not_be_looked_at_costs_neither_of_two_nested_answers() -> None:
    transport = MemoryTransport()
    client = TraceClient(app="shop", transport=transport, policy=QUICK)
    with client.trace(query="outer") as outer:
        inner = NestedRecording(client._log, {"query": "inner"}, parent=outer, nested=True)
        inner.finish(response=Unbound())
    assert client.close(30)
    assert "outer" in [trace.query for trace in traces_of(transport)]
    assert client.stats().logged == 2


def test_a_trace_open_around_a_whole_batch_does_not_hold_its_answers() -> None:
    transport = MemoryTransport()
    client = TraceClient(app="shop", transport=transport, policy=QUICK)
    with client.trace(query="batch") as batch:
        for number in range(300):
            NestedRecording(client._log, {"query": f"{number}"}, parent=batch, nested=True).finish(response="r")
        assert client.stats().logged == 200
    assert client.close(30)
    answers = {trace.query: trace for trace in traces_of(transport)}
    batch_id = answers.pop("batch").trace_id
    assert len(answers) == 300
    assert {trace.tags["parent_trace_id"] for trace in answers.values()} == {batch_id}


def test_source_nodes_without_an_end_are_read_as_far_as_a_trace_takes_them() -> None:
    transport = MemoryTransport()
    client = TraceClient(app="shop", transport=transport, policy=QUICK)
    with client.trace(query="added") as added:
        added.add_source_nodes(f"passage {number}" for number in itertools.count())
    with client.trace(query="offered") as offered:
        for start in (0, 900):
            offered.offer(
                source_nodes=(f"passage {start + number}" for number in itertools.islice(itertools.count(), 900))
            )
    assert client.close(30)
    for trace in traces_of(transport):
        assert [node.text for node in trace.source_nodes] == [f"passage {number}" for number in range(1000)]
        assert trace.lossy


def test_a_trace_id_without_a_text_does_not_keep_the_block_from_running() -> None:
    transport = MemoryTransport()
    client = TraceClient(app="shop", transport=transport, policy=QUICK)
    fields: dict[str, Any] = {"query": "q", "trace_id": Unreadable()}
    with client.trace(**fields) as trace:
        trace.response = "r"
    assert client.close(30)
    assert [record.response for record in traces_of(transport)] == ["r"]


def test_tags_that_are_no_mapping_cost_neither_of_two_nested_answers() -> None:
    transport = MemoryTransport()
    client = TraceClient(app="shop", transport=transport, policy=QUICK)
    outer = client.trace(query="outer")
    inner = NestedRecording(client._log, {"query": "inner", "tags": ["a"]}, parent=outer, nested=True)
    inner.finish(response="one")
    outer.finish(response="two")
    assert client.close(30)
    traces = {trace.query: trace.tags for trace in traces_of(transport)}
    assert set(traces) == {"inner", "outer"}
    assert traces["inner"]["parent_trace_id"] == outer.trace_id
