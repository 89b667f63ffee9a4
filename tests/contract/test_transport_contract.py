"""What every transport promises, in memory, on a SQLite log and on a real broker alike."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.queue_reader import read_kafka, read_sqlite
from tracejudge.testing import make_trace
from tracejudge_sdk import codec
from tracejudge_sdk.errors import TransportUnavailable
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


@pytest.fixture(params=["memory", "sqlite", pytest.param("kafka", marks=pytest.mark.kafka)])
def subject(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Subject]:
    if request.param == "memory":
        url = f"memory://{uuid.uuid4().hex}"
        made = transport_for(url)
        assert isinstance(made, MemoryTransport)
        subject = Subject(url, lambda count: list(made.records), {})
    elif request.param == "sqlite":
        path = tmp_path / "queue.db"
        subject = Subject(f"sqlite:///{path}", lambda count: read_sqlite(path), {})
    else:
        bootstrap = request.getfixturevalue("kafka_broker").bootstrap
        topic = request.getfixturevalue("kafka_topic")
        subject = Subject(f"kafka://{bootstrap}/{topic}", lambda count: read_kafka(bootstrap, topic, count), {})
    yield subject
    subject.close()


def _batch(count: int, *, start: int = 0) -> list[tuple[str, bytes]]:
    return [(f"t-{i}", codec.encode(make_trace(i))) for i in range(start, start + count)]


def test_everything_is_there_once_send_returned(subject: Subject) -> None:
    batch = _batch(50)
    subject.open().send(batch)
    assert sorted(subject.read(50)) == sorted(batch)


def test_the_records_of_one_key_stay_in_order(subject: Subject) -> None:
    transport = subject.open()
    for number in range(3):
        transport.send([("same", f"{number}-{i}".encode()) for i in range(5)])
    assert [value for _, value in subject.read(15)] == [f"{n}-{i}".encode() for n in range(3) for i in range(5)]


def test_nothing_to_send_is_nothing_sent(subject: Subject) -> None:
    transport = subject.open()
    transport.send([])
    transport.send(_batch(1))
    assert len(subject.read(1)) == 1


def test_a_record_of_the_largest_size_arrives(subject: Subject) -> None:
    transport = subject.open()
    largest = b"x" * transport.max_record_bytes
    transport.send([("t", largest), ("u", b"small")])
    assert sorted(subject.read(2)) == [("t", largest), ("u", b"small")]


def test_keys_and_values_are_any_text_and_any_bytes(subject: Subject) -> None:
    batch = [("schlüssel-鍵-🙂", b"\x00\xff"), ("k" * 128, b"{}")]
    subject.open().send(batch)
    assert sorted(subject.read(2)) == sorted(batch)


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
