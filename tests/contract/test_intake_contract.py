"""What every intake promises, on a SQLite log and on a topic of a real broker alike."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.intakes import (
    KafkaTestQueue,
    Notes,
    Queue,
    SqliteTestQueue,
    new_group,
    next_offsets,
    read,
    values,
)
from tests.support.kafka_broker import KafkaBroker
from tracejudge_consumer.intake import Intake, RawRecord

Opener = Callable[[str], Intake]


@pytest.fixture(params=["sqlite", pytest.param("kafka", marks=pytest.mark.kafka)])
def queue(request: pytest.FixtureRequest, tmp_path: Path) -> Queue:
    if request.param == "sqlite":
        return SqliteTestQueue(tmp_path / "queue.db")
    broker: KafkaBroker = request.getfixturevalue("kafka_broker")
    return KafkaTestQueue(broker.bootstrap, request.getfixturevalue("kafka_topic"))


@pytest.fixture
def opened(queue: Queue) -> Iterator[Opener]:
    """Opens readers, and closes those that the test left open."""
    readers: list[Intake] = []

    def open_reader(group: str) -> Intake:
        readers.append(queue.reader(group))
        return readers[-1]

    yield open_reader
    for reader in readers:
        reader.close()


def in_order(records: list[RawRecord]) -> bool:
    offsets: dict[int, list[int]] = {}
    for record in records:
        offsets.setdefault(record.partition, []).append(record.offset)
    return all(found == sorted(set(found)) for found in offsets.values())


def test_a_new_group_reads_everything_from_the_beginning_in_order(queue: Queue, opened: Opener) -> None:
    queue.append([(b"k", b"first", (("h", b"1"), ("h", b"2"))), *values("v", 19)])
    reader = opened(new_group())
    records = read(reader, 20)
    assert sorted(record.value for record in records) == sorted([b"first", *(f"v{n}".encode() for n in range(19))])
    assert in_order(records)
    first = next(record for record in records if record.value == b"first")
    assert (first.key, first.headers) == (b"k", (("h", b"1"), ("h", b"2")))
    assert first.timestamp_ms > 1_700_000_000_000
    assert {record.source for record in records} == {reader.source}
    assert {key.source for key in reader.assignment()} == {reader.source}
    assert len(reader.assignment()) == queue.partitions


def test_a_record_without_a_key_is_read(queue: Queue, opened: Opener) -> None:
    queue.append([(None, b"keyless", ())])
    (record,) = read(opened(new_group()), 1)
    assert (record.key, record.value, record.headers) == (None, b"keyless", ())


def test_a_poll_gives_at_most_what_was_asked_for_and_nothing_twice(queue: Queue, opened: Opener) -> None:
    queue.append(values("v", 25))
    reader = opened(new_group())
    found: list[RawRecord] = []
    for _ in range(100):
        records = reader.poll(timeout_s=0.2, max_records=4)
        assert len(records) <= 4
        found += records
        if len(found) >= 25:
            break
    assert len(found) == len({(one.partition, one.offset) for one in found}) == 25


def test_nothing_is_committed_by_reading_or_closing(queue: Queue, opened: Opener) -> None:
    queue.append(values("v", 10))
    group = new_group()
    reader = opened(group)
    assert len(read(reader, 10)) == 10
    reader.close()
    assert len(read(opened(group), 10)) == 10


def test_b30_the_next_reader_begins_at_the_explicit_offsets_and_not_at_what_was_polled(
    queue: Queue, opened: Opener
) -> None:
    queue.append(values("v", 20))
    group = new_group()
    reader = opened(group)
    records = read(reader, 20)
    done = [record for record in records if record.offset < 3]
    assert reader.commit(next_offsets(done))
    reader.close()
    rest = read(opened(group), 20 - len(done))
    assert {(r.partition, r.offset) for r in rest} == {(r.partition, r.offset) for r in records if r.offset >= 3}


def test_paused_partitions_give_nothing_and_lose_nothing(queue: Queue, opened: Opener) -> None:
    queue.append(values("v", 20))
    reader = opened(new_group())
    found = read(reader, 1, max_records=3)
    assert not reader.paused()
    reader.pause(reader.assignment())
    assert reader.paused() == reader.assignment()
    queue.append(values("w", 6))
    for _ in range(5):
        assert reader.poll(timeout_s=0.05, max_records=10) == []
    reader.resume(reader.assignment())
    assert not reader.paused()
    found += read(reader, 26 - len(found))
    assert len({(one.partition, one.offset) for one in found}) == len(found) == 26


def test_positions_and_lag_tell_how_far_it_has_read(queue: Queue, opened: Opener) -> None:
    queue.append(values("v", 20))
    reader = opened(new_group())
    assert reader.lag() == {}, "nothing is known before partitions are assigned"
    records = read(reader, 20)
    assert reader.positions() == next_offsets(records)
    assert set(reader.lag().values()) == {0}
    reader.pause(reader.assignment())
    queue.append(values("w", 4))
    assert sum(lag or 0 for lag in reader.lag().values()) == 4


def test_on_closing_the_listener_is_asked_and_what_it_gives_is_committed(queue: Queue, opened: Opener) -> None:
    queue.append(values("v", 20))
    group = new_group()
    reader = opened(group)
    records: list[RawRecord] = []
    notes = Notes(lambda: dict.fromkeys(next_offsets(records), 2))
    reader.listen(notes)
    records += read(reader, 20)
    mine = reader.assignment()
    reader.close()
    assert notes.taken == [("revoked", mine)]
    rest = read(opened(group), 20 - 2 * queue.partitions)
    assert {record.offset for record in rest} == {record.offset for record in records if record.offset >= 2}


def test_groups_do_not_disturb_each_other(queue: Queue, opened: Opener) -> None:
    queue.append(values("v", 10))
    one, other = opened(new_group()), opened(new_group())
    records = read(one, 10)
    assert one.commit(next_offsets(records))
    assert len(read(other, 10)) == 10


def test_committing_nothing_is_accepted(opened: Opener) -> None:
    assert opened(new_group()).commit({})


def test_a_second_thread_is_told_off(queue: Queue, opened: Opener) -> None:
    queue.append(values("v", 1))
    reader = opened(new_group())
    read(reader, 1)
    told: list[str] = []

    def poll() -> None:
        try:
            reader.poll(timeout_s=0.0, max_records=1)
        except RuntimeError as error:
            told.append(str(error))

    thread = threading.Thread(target=poll)
    thread.start()
    thread.join(20)
    assert len(told) == 1
    assert "from one" in told[0]


def test_closing_twice_is_fine(opened: Opener) -> None:
    reader = opened(new_group())
    reader.poll(timeout_s=0.0, max_records=1)
    reader.close()
    reader.close()
