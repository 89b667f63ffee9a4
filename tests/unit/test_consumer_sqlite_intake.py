"""The lease of the SQLite intake: waited for, renewed, lost, taken over."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.intakes import Notes, SqliteTestQueue, next_offsets, values
from tracejudge.testing import ManualClock
from tracejudge_consumer.intake.sqlite import SqliteIntake
from tracejudge_sdk.errors import TransportUnavailable
from tracejudge_sdk.transports.sqlite_log import SqliteLog

TTL_S = 9.0


class Readers:
    """Readers of one log and group that share a clock moved by hand; waiting moves it."""

    def __init__(self, path: Path) -> None:
        self.clock = ManualClock()
        self.path = path
        self.open: list[SqliteIntake] = []

    def new(self) -> tuple[SqliteIntake, Notes]:
        log = SqliteLog(self.path, now=lambda: self.clock.now().timestamp())
        reader = SqliteIntake(log, group="g", lease_ttl_s=TTL_S, clock=self.clock, wait=self.clock.advance)
        notes = Notes()
        reader.listen(notes)
        self.open.append(reader)
        return reader, notes


@pytest.fixture
def readers(tmp_path: Path) -> Readers:
    SqliteTestQueue(tmp_path / "queue.db").append(values("v", 10))
    return Readers(tmp_path / "queue.db")


def test_only_one_reader_of_a_group_gets_records(readers: Readers) -> None:
    one, _ = readers.new()
    other, _ = readers.new()
    assert len(one.poll(timeout_s=0, max_records=100)) == 10
    assert other.poll(timeout_s=1, max_records=100) == []
    assert (other.assignment(), other.positions(), other.lag()) == (frozenset(), {}, {})


def test_a_reader_that_polls_keeps_its_lease_for_as_long_as_it_lives(readers: Readers) -> None:
    one, notes = readers.new()
    other, _ = readers.new()
    one.poll(timeout_s=0, max_records=1)
    for _ in range(20):
        readers.clock.advance(TTL_S / 2)
        one.poll(timeout_s=0, max_records=1)
        assert other.poll(timeout_s=0, max_records=1) == []
    assert notes.taken == []


def test_a_reader_that_was_killed_is_followed_from_its_last_commit_when_its_lease_has_run_out(readers: Readers) -> None:
    killed, _ = readers.new()
    records = killed.poll(timeout_s=0, max_records=6)
    assert killed.commit(next_offsets(records[:4]))
    other, _ = readers.new()
    assert other.poll(timeout_s=TTL_S - 1, max_records=100) == []
    taken_over = other.poll(timeout_s=2, max_records=100)
    assert [record.offset for record in taken_over] == [4, 5, 6, 7, 8, 9]


def test_a_reader_that_slept_too_long_loses_the_partition_and_commits_nothing(readers: Readers) -> None:
    sleeper, notes = readers.new()
    records = sleeper.poll(timeout_s=0, max_records=10)
    readers.clock.advance(TTL_S + 1)
    other, _ = readers.new()
    assert len(other.poll(timeout_s=0, max_records=3)) == 3
    assert not sleeper.commit(next_offsets(records))
    assert sleeper.refused_commits == 1
    assert [kind for kind, _ in notes.taken] == ["lost"]
    assert sleeper.poll(timeout_s=0, max_records=10) == []
    assert sleeper.assignment() == frozenset()
    assert SqliteLog(readers.path).committed("g") is None


def test_a_reader_that_slept_too_long_looks_before_it_reads_on(readers: Readers) -> None:
    sleeper, notes = readers.new()
    assert len(sleeper.poll(timeout_s=0, max_records=2)) == 2
    readers.clock.advance(TTL_S + 1)
    other, _ = readers.new()
    assert len(other.poll(timeout_s=0, max_records=3)) == 3
    assert sleeper.poll(timeout_s=0, max_records=10) == []
    assert [kind for kind, _ in notes.taken] == ["lost"]


def test_closing_gives_the_lease_back_at_once(readers: Readers) -> None:
    one, _ = readers.new()
    one.poll(timeout_s=0, max_records=1)
    one.close()
    other, _ = readers.new()
    assert len(other.poll(timeout_s=0, max_records=100)) == 10


def test_a_log_that_was_replaced_by_a_shorter_one_is_read_from_its_beginning(readers: Readers) -> None:
    """Without looking, a reader at offset 10 of a log that ends at 2 would wait for ever, silently."""
    reader, notes = readers.new()
    records = reader.poll(timeout_s=0, max_records=10)
    for path in readers.path.parent.glob("queue.db*"):
        path.unlink()
    SqliteTestQueue(readers.path).append(values("w", 2))
    assert not reader.commit(next_offsets(records))
    readers.clock.advance(TTL_S)
    assert [record.value for record in reader.poll(timeout_s=1, max_records=10)] == [b"w0", b"w1"]
    assert [kind for kind, _ in notes.taken] == ["lost"]


def test_records_deleted_by_retention_are_no_lag(readers: Readers) -> None:
    SqliteLog(readers.path).delete_before(7)
    reader, _ = readers.new()
    assert reader.poll(timeout_s=0, max_records=1)[0].offset == 7
    assert list(reader.lag().values()) == [2]


def test_a_queue_that_does_not_answer_is_waited_for(readers: Readers, caplog: pytest.LogCaptureFixture) -> None:
    reader, notes = readers.new()
    reader.poll(timeout_s=0, max_records=1)
    folder = readers.path.parent
    folder.rename(folder.with_name("away"))
    folder.write_text("a file where the folder was")
    readers.clock.advance(TTL_S)
    for _ in range(3):
        assert reader.poll(timeout_s=1, max_records=1) == []
    assert len([one for one in caplog.records if "waiting for the queue" in one.message]) == 1
    folder.unlink()
    folder.with_name("away").rename(folder)
    assert len(reader.poll(timeout_s=1, max_records=100)) == 9
    assert notes.taken == []


def test_a_queue_that_can_be_looked_at_and_not_written_to_has_no_lag_of_0(
    readers: Readers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a full disk: without its lease the reader reads nothing, and nobody must take that for the end."""
    reader, _ = readers.new()
    reader.poll(timeout_s=0, max_records=1)

    def full(*_: object) -> bool:
        raise TransportUnavailable("database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(SqliteLog, "renew", full)
        readers.clock.advance(TTL_S)
        assert reader.poll(timeout_s=0, max_records=1) == []
        assert list(reader.lag().values()) == [None]
    reader.poll(timeout_s=0, max_records=1)
    assert list(reader.lag().values()) == [8]


def test_a_group_that_was_away_while_the_log_was_full_is_told_what_it_missed(
    readers: Readers, caplog: pytest.LogCaptureFixture
) -> None:
    one, _ = readers.new()
    one.commit(next_offsets(one.poll(timeout_s=0, max_records=3)))
    one.close()
    SqliteLog(readers.path).delete_before(7)
    told: list[tuple[str, int]] = []
    log = SqliteLog(readers.path, now=lambda: readers.clock.now().timestamp())
    back = SqliteIntake(log, group="g", clock=readers.clock, deleted_unread=lambda *what: told.append(what))
    assert [record.offset for record in back.poll(timeout_s=0, max_records=10)] == [7, 8, 9]
    assert told == [("g", 4)]
    assert "4 records of sqlite:queue.db were deleted before it read them" in caplog.text


def test_the_reader_deletes_what_every_group_has_read_when_its_time_is_over(readers: Readers) -> None:
    one, _ = readers.new()
    one.commit(next_offsets(one.poll(timeout_s=0, max_records=6)))
    readers.clock.advance(8 * 86_400)
    one.poll(timeout_s=0, max_records=1)
    assert SqliteLog(readers.path).begin_offset() == 6
