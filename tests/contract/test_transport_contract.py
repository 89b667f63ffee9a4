"""What every transport promises, in memory, on a SQLite log, on a real broker and through a gateway alike."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.queue_reader import read_kafka, read_sqlite
from tests.support.running_gateway import RunningGateway
from tracejudge.testing import make_trace
from tracejudge_sdk import codec
from tracejudge_sdk.errors import TransportRejected, TransportUnavailable
from tracejudge_sdk.transports import Transport, transport_for
from tracejudge_sdk.transports.memory import MemoryTransport


class Subject:
    """A transport kind: opens transports to one queue and reads the queue from outside."""

    def __init__(self, url: str, read: Callable[[int], list[tuple[str, bytes]]], options: dict[str, Any]) -> None:
        self.url = url
        self.read = read
        self._options = options
        self._opened: list[Transport] = []

    def open(self, **options: Any) -> Transport:
        transport = transport_for(self.url, options={**self._options, **options})
        self._opened.append(transport)
        return transport

    def close(self) -> None:
        for transport in self._opened:
            transport.close(5.0)


@pytest.fixture(params=["memory", "sqlite", "http", pytest.param("kafka", marks=pytest.mark.kafka)])
def subject(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Subject]:
    if request.param == "memory":
        url = f"memory://{uuid.uuid4().hex}"
        made = transport_for(url)
        assert isinstance(made, MemoryTransport)
        subject = Subject(url, lambda count: list(made.records), {})
    elif request.param == "sqlite":
        path = tmp_path / "queue.db"
        subject = Subject(f"sqlite:///{path}", lambda count: read_sqlite(path), {})
    elif request.param == "http":
        behind = transport_for(f"memory://{uuid.uuid4().hex}")
        assert isinstance(behind, MemoryTransport)
        with RunningGateway(lambda: behind) as gateway:
            gateway.wait_ready()
            subject = Subject(gateway.url, lambda count: list(behind.records), {})
            yield subject
            subject.close()
        return
    else:
        bootstrap = request.getfixturevalue("kafka_broker").bootstrap
        topic = request.getfixturevalue("kafka_topic")
        subject = Subject(f"kafka://{bootstrap}/{topic}", lambda count: read_kafka(bootstrap, topic, count), {})
    yield subject
    subject.close()


def _batch(count: int, *, start: int = 0) -> list[tuple[str, bytes]]:
    return [(f"t-{i:06d}", codec.encode(make_trace(i))) for i in range(start, start + count)]


def _record(trace_id: str, query: str) -> bytes:
    return codec.encode(make_trace(trace_id=trace_id, query=query))


def test_everything_is_there_once_send_returned(subject: Subject) -> None:
    batch = _batch(50)
    subject.open().send(batch)
    assert sorted(subject.read(50)) == sorted(batch)


def test_the_records_of_one_key_stay_in_order(subject: Subject) -> None:
    transport = subject.open()
    records = [_record("same", f"{n}-{i}") for n in range(3) for i in range(5)]
    for start in (0, 5, 10):
        transport.send([("same", record) for record in records[start : start + 5]])
    assert [value for _, value in subject.read(15)] == records


def test_nothing_to_send_is_nothing_sent(subject: Subject) -> None:
    transport = subject.open()
    transport.send([])
    transport.send(_batch(1))
    assert len(subject.read(1)) == 1


def test_a_record_of_the_largest_size_arrives(subject: Subject) -> None:
    transport = subject.open()
    room = transport.max_record_bytes - len(_record("t", ""))
    batch = [("t", _record("t", "x" * room)), ("u", _record("u", "small"))]
    assert len(batch[0][1]) == transport.max_record_bytes
    transport.send(batch)
    assert sorted(subject.read(2)) == batch


def test_keys_are_any_text(subject: Subject) -> None:
    batch = [(key, _record(key, "q")) for key in ("schlüssel-鍵-🙂", "k" * 128, " ")]
    subject.open().send(batch)
    assert sorted(subject.read(3)) == sorted(batch)


def test_a_queue_keeps_any_bytes_and_a_gateway_refuses_what_is_no_record(subject: Subject) -> None:
    batch = [("a", b"\x00\xff"), ("t-000000", _batch(1)[0][1]), ("c", b"{}")]
    if not subject.url.startswith("http:"):
        subject.open().send(batch)
        assert sorted(subject.read(3)) == sorted(batch)
        return
    with pytest.raises(TransportRejected) as caught:
        subject.open().send(batch)
    assert caught.value.failed == (0, 2)
    assert subject.read(1) == [batch[1]]


def test_two_transports_write_to_one_queue(subject: Subject) -> None:
    first, second = subject.open(), subject.open()
    first.send(_batch(5))
    second.send(_batch(5, start=5))
    assert sorted(subject.read(10)) == sorted(_batch(10))


def test_the_default_limit_leaves_room_for_what_a_queue_adds(subject: Subject) -> None:
    assert subject.open().max_record_bytes == codec.DEFAULT_MAX_RECORD_BYTES
    assert codec.DEFAULT_MAX_RECORD_BYTES < 1_048_576 - 4096


def test_a_smaller_limit_can_be_set(subject: Subject) -> None:
    assert subject.open(max_record_bytes=5000).max_record_bytes == 5000


def test_closing_twice_is_closing_once_and_sending_then_says_so(subject: Subject) -> None:
    transport = subject.open()
    transport.send(_batch(1))
    transport.close(5.0)
    transport.close(0.0)
    with pytest.raises(TransportUnavailable, match="closed"):
        transport.send(_batch(1))


def test_closing_without_having_sent_is_nothing(subject: Subject) -> None:
    subject.open().close(0.0)
