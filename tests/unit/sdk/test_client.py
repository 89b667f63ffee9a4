"""The client: what arrives, what is counted, and that nothing reaches the service."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from tests.support.held_transport import FailingTransport, HeldTransport
from tracejudge.testing import make_trace
from tracejudge_sdk import (
    Feedback,
    SendPolicy,
    Trace,
    TraceClient,
    TransportRejected,
    TransportUnavailable,
    keep,
)
from tracejudge_sdk.json_values import safe_repr
from tracejudge_sdk.sampling import HEAD_SALT
from tracejudge_sdk.testing import MemoryTransport, records_of, traces_of

QUICK = SendPolicy(linger_s=0.001, first_pause_s=0.001, longest_pause_s=0.002)


@pytest.fixture
def transport() -> MemoryTransport:
    return MemoryTransport()


@pytest.fixture
def client(transport: MemoryTransport) -> Iterator[TraceClient]:
    client = TraceClient(app="shop", version="v1", transport=transport, policy=QUICK)
    yield client
    client.close(10)


def _only(client: TraceClient, transport: MemoryTransport) -> Trace:
    assert client.flush(30)
    (trace,) = traces_of(transport)
    return trace


# -- what arrives ------------------------------------------------------------------------------------------------------


def test_a_trace_arrives_with_its_id_as_key(client: TraceClient, transport: MemoryTransport) -> None:
    trace_id = client.log(query="q", response="r", source_nodes=[{"node_id": "n", "text": "t", "score": 0.5}])
    trace = _only(client, transport)
    assert transport.records[0][0] == trace_id == trace.trace_id
    assert (trace.app, trace.environment, trace.version) == ("shop", "production", "v1")
    assert (trace.query, trace.response, trace.status) == ("q", "r", "ok")
    assert trace.source_nodes[0].score == 0.5
    assert not trace.lossy
    assert not trace.truncated
    assert trace.head_probability == 1.0
    assert trace.sdk.startswith("tracejudge-python/")


def test_every_field_arrives(client: TraceClient, transport: MemoryTransport) -> None:
    when = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
    client.log(
        trace_id="t-1",
        event_time=when,
        query="q",
        response="r",
        status="incomplete",
        error="stopped",
        history=[{"role": "user", "content": "a"}, ("assistant", "b")],
        reference="ref",
        expected_ids=["n-1"],
        case_id="case",
        latency_ms=12,
        app="other",
        environment="staging",
        version="v9",
        model="m",
        prompt_version="p",
        index_version="i",
        category="c",
        session_id="s",
        user_id="u",
        language="de",
        tags={"plan": "pro"},
    )
    trace = _only(client, transport)
    assert trace == Trace(
        trace_id="t-1",
        event_time=when,
        query="q",
        response="r",
        status="incomplete",
        error="stopped",
        history=({"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}),
        reference="ref",
        expected_ids=("n-1",),
        case_id="case",
        latency_ms=12.0,
        app="other",
        environment="staging",
        version="v9",
        model="m",
        prompt_version="p",
        index_version="i",
        category="c",
        session_id="s",
        user_id="u",
        language="de",
        tags={"plan": "pro"},
        sdk=trace.sdk,
    )


def test_a_built_trace_arrives_as_it_is(client: TraceClient, transport: MemoryTransport) -> None:
    trace = make_trace(3)
    assert client.log_trace(trace) == trace.trace_id
    assert _only(client, transport) == trace


def test_feedback_arrives(client: TraceClient, transport: MemoryTransport) -> None:
    first = client.feedback("t-1", True, "fine")
    second = client.feedback("t-1", float("nan"), "\ud800", feedback_id="f-2")
    assert client.flush(30)
    found = records_of(transport)
    assert all(isinstance(record, Feedback) for record in found)
    assert [(r.feedback_id, r.value, r.comment) for r in found if isinstance(r, Feedback)] == [
        (first, 1.0, "fine"),
        (second, None, "�"),
    ]
    assert second == "f-2"
    assert {key for key, _ in transport.records} == {"t-1"}


def test_feedback_that_is_none_is_counted(client: TraceClient) -> None:
    assert client.feedback("t", "good")  # type: ignore[arg-type]
    assert dict(client.stats().dropped) == {"invalid": 1}


def test_what_the_service_changes_after_logging_does_not_arrive(transport: MemoryTransport) -> None:
    held = HeldTransport()
    client = TraceClient(app="shop", transport=held, policy=QUICK)
    client.log(query="first")
    assert held.entered.wait(30)
    node = {"node_id": "n", "text": "t", "metadata": {"tags": ["a"]}}
    tags = {"plan": "pro"}
    history = [{"role": "user", "content": "hello"}]
    client.log(query="second", source_nodes=[node], tags=tags, history=history)
    node["text"], tags["plan"], history[0]["content"] = "changed", "changed", "changed"
    node["metadata"]["tags"].append("b")  # type: ignore[index]
    held.go.set()
    assert client.close(30)
    trace = traces_of(held)[1]
    assert trace.source_nodes[0].text == "t"
    assert trace.source_nodes[0].metadata == {"tags": ["a"]}
    assert trace.tags == {"plan": "pro"}
    assert trace.history[0].content == "hello"


def test_a_service_that_stops_logging_needs_no_flush(client: TraceClient, transport: MemoryTransport) -> None:
    """One trace alone is sent too."""
    sent = threading.Event()
    original = transport.send

    def send(records: Sequence[tuple[str, bytes]]) -> None:
        original(records)
        sent.set()

    transport.send = send  # type: ignore[method-assign]
    client.log(query="q")
    assert sent.wait(30)


# -- odd values --------------------------------------------------------------------------------------------------------


class Nasty:
    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("no")

    def __repr__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"query": None}, {"query": ""}),
        ({}, {"query": ""}),
        ({"query": 5}, {"query": "5"}),
        ({"query": b"q\xff"}, {"query": "q\\xff"}),
        ({"query": "q\ud83d"}, {"query": "q�"}),
        ({"query": ["a", 1]}, {"query": '["a", 1]'}),
        ({"query": Nasty()}, {"query": "<Nasty: repr failed>"}),
        ({"query": "q", "latency_ms": "fast"}, {"latency_ms": None}),
        ({"query": "q", "latency_ms": -1}, {"latency_ms": None}),
        ({"query": "q", "latency_ms": float("nan")}, {"latency_ms": None}),
        ({"query": "q", "status": "done"}, {"status": "ok", "tags": {"status": "done"}}),
        ({"query": "q", "app": ""}, {"app": "shop"}),
        ({"query": "q", "model": 4}, {"model": "4"}),
        ({"query": "q", "event_time": datetime(2026, 1, 1)}, {"event_time": datetime(2026, 1, 1, tzinfo=timezone.utc)}),  # noqa: DTZ001 - the fault itself
        ({"query": "q", "respnse": "r", "top_k": 5}, {"tags": {"respnse": "r", "top_k": "5"}}),
        ({"query": "q", "tags": {"a": 1, 2: None, "b": [1]}}, {"tags": {"a": "1", "b": "[1]"}}),
        ({"query": "q", "tags": ["a"]}, {"tags": {"tags": '["a"]'}}),
        ({"query": "q", "history": "earlier"}, {"query": "q"}),
        ({"query": "q", "expected_ids": "n-1"}, {"expected_ids": ("n-1",)}),
        ({"query": "q", "source_nodes": Nasty()}, {"query": "q"}),
        ({"query": "q", "source_nodes": [{"text": "t\ud800"}]}, {"query": "q"}),
    ],
    ids=lambda value: safe_repr(value)[:50],
)
def test_odd_values_arrive_mended_and_marked(
    client: TraceClient, transport: MemoryTransport, fields: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert client.log(**fields)
    trace = _only(client, transport)
    assert {name: getattr(trace, name) for name in expected} == expected
    assert trace.lossy
    assert client.stats().lossy == 1


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"latency_ms": timedelta(seconds=1.5)}, {"latency_ms": 1500.0}),
        ({"error": ValueError("bad index"), "status": "error"}, {"error": "ValueError: bad index"}),
        ({"version": None, "tags": None, "model": None, "event_time": None}, {"version": "v1", "tags": {}}),
        ({"tags": {"plan": "pro", "none": None}}, {"tags": {"plan": "pro"}}),
        ({"expected_ids": ("a", "b")}, {"expected_ids": ("a", "b")}),
        ({"source_nodes": ["a", "b"]}, {"response": None}),
    ],
    ids=str,
)
def test_usual_values_arrive_without_loss(
    client: TraceClient, transport: MemoryTransport, fields: dict[str, Any], expected: dict[str, Any]
) -> None:
    client.log(query="q", **fields)
    trace = _only(client, transport)
    assert {name: getattr(trace, name) for name in expected} == expected
    assert not trace.lossy


def test_one_impossible_value_costs_no_other(client: TraceClient, transport: MemoryTransport) -> None:
    nodes = [{"node_id": "a", "text": "t", "metadata": {"n": 1 << 4000}}, {"node_id": "b\ud800", "text": "u"}]
    client.log(query="q", source_nodes=nodes, latency_ms=5)
    trace = _only(client, transport)
    assert [(n.node_id, n.text, n.metadata) for n in trace.source_nodes] == [
        ("a", "t", {"n": "<int of 4001 bits>"}),
        ("b�", "u", {}),
    ]
    assert trace.latency_ms == 5.0
    assert trace.lossy


def test_names_that_are_too_long_are_cut(client: TraceClient, transport: MemoryTransport) -> None:
    client.log(query="q", model="m" * 300)
    trace = _only(client, transport)
    assert trace.model == "m" * 256
    assert trace.truncated


def test_an_id_that_is_too_long_is_always_the_same_shorter_one(client: TraceClient, transport: MemoryTransport) -> None:
    trace_id = client.log(query="q", trace_id="x" * 500)
    assert len(trace_id) == 128
    assert client.log(query="q", trace_id="x" * 500) == trace_id
    assert client.log(query="q", trace_id="x" * 499 + "y") != trace_id
    client.feedback("x" * 500, 1)
    assert client.flush(30)
    assert [record.trace_id for record in records_of(transport)].count(trace_id) == 3


def test_an_answer_still_streaming_is_not_read(client: TraceClient, transport: MemoryTransport) -> None:
    """B16: the stream belongs to its reader."""

    class Streaming:
        def __init__(self) -> None:
            self.response_gen = iter(["Par", "is"])

    streaming = Streaming()
    client.log(query="q", response=streaming)
    assert list(streaming.response_gen) == ["Par", "is"]
    trace = _only(client, transport)
    assert trace.response is None
    assert trace.lossy


def test_b36_a_trace_that_is_too_large_is_cut_and_its_neighbours_are_whole(
    client: TraceClient, transport: MemoryTransport
) -> None:
    nodes = [{"node_id": f"n-{i}", "text": "é" * 30_000, "score": i / 74} for i in range(74)]
    client.log(query="before")
    client.log(query="large", response="r" * 8_000_000, source_nodes=nodes)
    client.log(query="after")
    assert client.flush(60)
    before, large, after = traces_of(transport)
    assert (before.query, large.query, after.query) == ("before", "large", "after")
    assert (before.truncated, large.truncated, after.truncated) == (False, True, False)
    assert [(node.node_id, node.score) for node in large.source_nodes] == [(f"n-{i}", i / 74) for i in range(74)]
    assert all(len(data) <= transport.max_record_bytes for _, data in transport.records)
    assert client.stats().truncated == 1


def test_a_trace_that_cannot_be_cut_is_counted(client: TraceClient, transport: MemoryTransport) -> None:
    transport.max_record_bytes = 1000
    client.log(query="q", source_nodes=[{"id": f"n-{i}"} for i in range(500)])
    client.log(query="next")
    assert client.flush(30)
    assert [trace.query for trace in traces_of(transport)] == ["next"]
    stats = client.stats()
    assert dict(stats.dropped) == {"too_large": 1}
    assert "cannot be cut" in (stats.last_error or "")


# -- sampling ----------------------------------------------------------------------------------------------------------


def test_head_sampling_goes_by_the_id_and_is_recorded(transport: MemoryTransport) -> None:
    client = TraceClient(app="shop", transport=transport, head_probability=0.25, policy=QUICK)
    ids = [f"t-{i:04d}" for i in range(400)]
    for trace_id in ids:
        assert client.log(query="q", trace_id=trace_id) == trace_id
    assert client.close(30)
    assert [trace.trace_id for trace in traces_of(transport)] == [i for i in ids if keep(i, 0.25, HEAD_SALT)]
    assert {trace.head_probability for trace in traces_of(transport)} == {0.25}
    stats = client.stats()
    assert stats.sampled_out + stats.sent == 400
    assert stats.dropped_total == 0


def test_a_built_trace_is_sampled_too_unless_it_was(transport: MemoryTransport) -> None:
    client = TraceClient(app="shop", transport=transport, head_probability=0.25, policy=QUICK)
    left_out = next(i for i in range(100) if not keep(f"t-{i:06d}", 0.25, HEAD_SALT))
    client.log_trace(make_trace(left_out))
    client.log_trace(make_trace(left_out, head_probability=0.5))
    assert client.close(30)
    assert [trace.head_probability for trace in traces_of(transport)] == [0.5]


def test_a_head_probability_of_0_logs_nothing(transport: MemoryTransport) -> None:
    client = TraceClient(app="shop", transport=transport, head_probability=0.0)
    client.log(query="q")
    assert client.close(30)
    assert client.stats().sampled_out == 1
    assert transport.records == []


# -- trouble behind it -------------------------------------------------------------------------------------------------


def test_what_the_queue_could_not_take_is_sent_again() -> None:
    transport = FailingTransport(TransportUnavailable("down"), OSError("reset"), TransportUnavailable("down"))
    client = TraceClient(app="shop", transport=transport, policy=QUICK)
    client.log(query="q", trace_id="a")
    assert client.close(30)
    assert transport.sends == [["a"]] * 4
    assert [trace.trace_id for trace in traces_of(transport)] == ["a"]


def _three_at_once(transport: FailingTransport) -> TraceClient:
    """Logs a, b and c so that one send holds all of them."""
    client = TraceClient(app="shop", transport=transport, policy=QUICK)
    start = client._wake
    client._wake = lambda: None  # type: ignore[method-assign]
    for trace_id in "abc":
        client.log(query="q", trace_id=trace_id)
    client._wake = start  # type: ignore[method-assign]
    return client


def test_only_what_was_not_handed_over_is_sent_again() -> None:
    transport = FailingTransport(TransportUnavailable("half", failed=(1,)))
    client = _three_at_once(transport)
    assert client.close(30)
    assert transport.sends == [["a", "b", "c"], ["b"]]
    assert client.stats().sent == 3


def test_a_rejected_record_is_dropped_and_its_neighbours_go_on() -> None:
    transport = FailingTransport(TransportRejected("too large", failed=(1,)))
    client = _three_at_once(transport)
    assert client.close(30)
    assert transport.sends == [["a", "b", "c"]]
    stats = client.stats()
    assert (stats.sent, dict(stats.dropped)) == (2, {"transport_rejected": 1})


def test_a_rejection_that_names_nobody_is_narrowed_down() -> None:
    transport = FailingTransport(TransportRejected("no"), TransportRejected("not this one"))
    client = _three_at_once(transport)
    assert client.close(30)
    assert transport.sends == [["a", "b", "c"], ["a"], ["b"], ["c"]]
    assert [key for key, _ in transport.records] == ["b", "c"]
    assert dict(client.stats().dropped) == {"transport_rejected": 1}


def test_a_record_that_breaks_the_library_does_not_stop_the_others() -> None:
    class Breaking(MemoryTransport):
        def send(self, records: Sequence[tuple[str, bytes]]) -> None:
            if any(key == "b" for key, _ in records):
                raise TypeError("unexpected")
            super().send(records)

    transport = Breaking()
    client = TraceClient(app="shop", transport=transport, policy=QUICK)
    for trace_id in "abc":
        client.log(query="q", trace_id=trace_id)
    assert client.close(60)
    assert sorted(key for key, _ in transport.records) == ["a", "c"]
    assert dict(client.stats().dropped) == {"internal_error": 1}


def test_a_queue_that_cannot_be_opened_yet_is_tried_again(tmp_path: Any) -> None:
    blocked = tmp_path / "folder"
    blocked.write_text("in the way")
    client = TraceClient(f"sqlite:///{blocked}/queue.db", app="shop", policy=QUICK)
    client.log(query="q")
    assert not client.flush(0.05)
    assert "folder" in (client.stats().last_error or "")
    blocked.unlink()
    assert client.close(30)
    assert client.stats().sent == 1


def test_b34_a_stalled_queue_costs_bounded_memory_and_an_exact_count() -> None:
    held = HeldTransport()
    client = TraceClient(app="shop", transport=held, max_queue_records=1000, max_queue_bytes=2_000_000, policy=QUICK)
    threads_before = threading.active_count()
    text = "x" * 20_000
    for number in range(5000):
        client.log(query="q", response=text, trace_id=f"t-{number}")
        assert client.stats().queued_bytes <= 2_000_000
    stats = client.stats()
    assert stats.queued <= 100
    assert stats.queued + stats.dropped["queue_full"] == 5000
    assert threading.active_count() == threads_before + 1, "no thread an event"
    held.go.set()
    assert client.close(30)
    after = client.stats()
    assert (after.sent, after.dropped["queue_full"]) == (stats.queued, stats.dropped["queue_full"])
    assert [key for key, _ in held.records] == [f"t-{n}" for n in range(stats.queued)], "the oldest are kept"


@pytest.mark.parametrize("failure", [RuntimeError("can't start new thread"), MemoryError()])
def test_b34_a_thread_that_cannot_be_started_loses_nothing(
    client: TraceClient, transport: MemoryTransport, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    start = threading.Thread.start
    failures = iter([failure])

    def fail_once(thread: threading.Thread) -> None:
        for failure in failures:
            raise failure
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", fail_once)
    client.log(query="first")
    assert "could not be started" in (client.stats().last_error or "")
    client.log(query="second")
    assert client.flush(30)
    assert [trace.query for trace in traces_of(transport)] == ["first", "second"]
    assert client.stats().logged == 2


def test_a_sending_thread_without_memory_counts_what_it_held_and_goes_on(
    client: TraceClient, transport: MemoryTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_memory(*args: Any) -> Any:
        raise MemoryError

    ended: list[object] = []
    monkeypatch.setattr(threading, "excepthook", ended.append)
    monkeypatch.setattr("tracejudge_sdk.sender.Ready", no_memory)
    client.log(query="lost")
    assert client.flush(30), "nobody waits for what will never be sent"
    monkeypatch.undo()
    client.log(query="sent")
    assert client.flush(30)
    assert [trace.query for trace in traces_of(transport)] == ["sent"]
    stats = client.stats()
    assert (stats.sent, stats.queued, stats.queued_bytes, dict(stats.dropped)) == (1, 0, 0, {"internal_error": 1})
    assert ended == [], "the service's hook for failed threads hears nothing"


def test_logging_survives_a_fault_of_our_own(client: TraceClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("our fault")

    monkeypatch.setattr("tracejudge_sdk.client.capture", broken)
    assert client.log(query="q", trace_id="t") == "t"
    assert client.log_trace(None) == ""  # type: ignore[arg-type]
    assert dict(client.stats().dropped) == {"internal_error": 2}


# -- ending ------------------------------------------------------------------------------------------------------------


def test_b35_closing_twice_and_from_another_thread_is_safe(client: TraceClient, transport: MemoryTransport) -> None:
    client.log(query="q")
    results: list[bool] = []
    threads = [threading.Thread(target=lambda: results.append(client.close(30))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True, True, True]
    assert len(transport.records) == 1
    assert transport.closed
    client.log(query="late")
    assert dict(client.stats().dropped) == {"closed": 1}
    assert client.flush(1)


def test_b35_a_close_that_runs_out_of_time_says_and_counts_it() -> None:
    held = HeldTransport()
    client = TraceClient(app="shop", transport=held, policy=QUICK)
    for _ in range(5):
        client.log(query="q")
    assert held.entered.wait(30)
    assert not client.close(0.0)
    assert not client.close(30), "the answer stays"
    stats = client.stats()
    assert dict(stats.dropped) == {"unsent_at_close": 5}
    assert stats.queued == 0


def test_b35_a_flush_with_a_dead_worker_says_no(client: TraceClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", never)
    client.log(query="q")
    assert not client.flush(2)
    monkeypatch.undo()
    assert client.flush(30)


def test_b35_a_flush_at_the_end_of_each_invocation_sends_all_of_it(
    client: TraceClient, transport: MemoryTransport
) -> None:
    """A frozen process (lambda) may be thawed or not: nothing waits in it after a flush."""
    for invocation in range(3):
        client.log(query=f"q{invocation}")
        assert client.flush(30)
        assert len(transport.records) == invocation + 1
        assert client.stats().queued == 0


def test_a_client_is_a_context(transport: MemoryTransport) -> None:
    with TraceClient(app="shop", transport=transport) as client:
        client.log(query="q")
    assert len(transport.records) == 1


def test_the_account_adds_up(transport: MemoryTransport) -> None:
    client = TraceClient(app="shop", transport=transport, head_probability=0.5, max_queue_records=10, policy=QUICK)
    for number in range(100):
        client.log(query="q", trace_id=f"t-{number}")
        stats = client.stats()
        assert stats.logged == stats.sampled_out + stats.sent + stats.queued + stats.dropped_total
    client.close(30)
    stats = client.stats()
    assert (stats.logged, stats.queued) == (100, 0)


# -- the log file ------------------------------------------------------------------------------------------------------


def test_trouble_is_logged_once_an_interval_and_without_texts(caplog: pytest.LogCaptureFixture) -> None:
    transport = FailingTransport(*[TransportUnavailable("broker away")] * 50)
    client = TraceClient(app="shop", transport=transport, policy=QUICK)
    with caplog.at_level(logging.WARNING, logger="tracejudge_sdk"):
        client.log(query="my secret question", response=Nasty())
        assert client.close(30)
    assert len(caplog.records) == 1
    assert "broker away" in caplog.text
    assert "secret" not in caplog.text


def test_an_error_about_a_record_does_not_hold_its_text(client: TraceClient, transport: MemoryTransport) -> None:
    client.log_trace(make_trace().model_copy(update={"query": object()}))
    assert client.flush(30)
    stats = client.stats()
    assert stats.dropped_total == 1
    assert "limit" not in (stats.last_error or "")
