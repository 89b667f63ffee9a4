"""What a SQLite log forgets: never what a live group has still to read; of an abandoned one with a count."""

from __future__ import annotations

from pathlib import Path

import pytest

from tracejudge_sdk.errors import TransportUnavailable
from tracejudge_sdk.transports.sqlite import SqliteTransport
from tracejudge_sdk.transports.sqlite_log import SqliteLog
from tracejudge_sdk.transports.sqlite_retention import Retention, retain

HOUR = 3_600.0
NOW = 1_800_000_000.0


class Log:
    """A log with a clock moved by hand."""

    def __init__(self, folder: Path) -> None:
        self.now = NOW
        self.log = SqliteLog(folder / "q.db", now=lambda: self.now)

    def append(self, count: int, *, size: int = 10) -> None:
        self.log.append([(None, b"x" * size, (), int(self.now * 1000)) for _ in range(count)])

    def reads(self, group: str, next_offset: int) -> None:
        """The group is there, commits, and leaves."""
        assert self.log.acquire(group, group, 10.0)
        self.log.commit(group, next_offset, group)
        assert self.log.release(group, group)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path)


KEEP_AN_HOUR = Retention(keep_s=HOUR)


def test_read_records_go_after_their_time_and_unread_ones_stay(log: Log) -> None:
    log.append(10)
    log.now += 2 * HOUR
    log.append(10)
    log.reads("g", 5)
    assert retain(log.log, KEEP_AN_HOUR, now_s=log.now).deleted == 5
    log.reads("g", 20)
    assert retain(log.log, KEEP_AN_HOUR, now_s=log.now).deleted == 5, "the younger ten stay, though all are read"
    assert log.log.begin_offset() == 10
    log.now += 2 * HOUR
    assert retain(log.log, KEEP_AN_HOUR, now_s=log.now).deleted == 10
    assert log.log.end_offset() == 20


def test_time_alone_deletes_nothing_that_any_group_has_still_to_read(log: Log) -> None:
    """However long ago a group was last there, and even where none has ever been."""
    log.append(10)
    log.now += 1_000 * HOUR
    assert retain(log.log, KEEP_AN_HOUR, now_s=log.now).deleted == 0
    log.reads("slow", 3)
    log.now += 1_000 * HOUR
    log.reads("quick", 10)
    assert retain(log.log, KEEP_AN_HOUR, now_s=log.now).deleted == 3


def test_a_full_log_deletes_nothing_that_a_live_group_has_still_to_read(log: Log) -> None:
    policy = Retention(max_bytes=400_000, abandoned_after_s=HOUR)
    log.append(100, size=10_000)
    log.reads("live", 0)
    log.reads("other", 60)
    log.now += HOUR / 2
    done = retain(log.log, policy, now_s=log.now)
    assert (done.deleted, dict(done.unread), done.too_large) == (0, {}, True)
    log.reads("live", 40)
    done = retain(log.log, policy, now_s=log.now)
    assert (done.deleted, dict(done.unread), done.too_large) == (40, {}, True)
    assert log.log.begin_offset() == 40


def test_an_abandoned_group_holds_a_full_log_no_longer_and_what_it_loses_is_counted(log: Log) -> None:
    policy = Retention(max_bytes=400_000, abandoned_after_s=HOUR)
    log.append(100, size=10_000)
    log.reads("gone", 10)
    log.now += 2 * HOUR
    log.reads("live", 90)
    done = retain(log.log, policy, now_s=log.now)
    assert dict(done.unread) == {"gone": done.deleted - 10}
    assert 60 <= done.deleted <= 90, "down to its bound, and no record that the live group has still to read"


def test_a_log_that_nobody_reads_keeps_the_newest(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The service writes on for months, and no consumer was ever started."""
    transport = SqliteTransport(tmp_path / "q.db", retention=Retention(max_bytes=3_000_000))
    for first in range(0, 6_000, 500):
        transport.send([(f"k{n}", b"x" * 1_000) for n in range(first, first + 500)])
    transport.close(1.0)
    log = SqliteLog(tmp_path / "q.db")
    assert log.size_bytes() < 4_500_000
    assert log.begin_offset() > 0
    assert log.end_offset() == 6_000
    told = [record.message for record in caplog.records if "deleted before anybody had read them" in record.message]
    assert told


def test_a_group_in_the_middle_of_reading_is_live_for_as_long_as_it_holds_its_lease(log: Log) -> None:
    policy = Retention(max_bytes=400_000, abandoned_after_s=0.001)
    log.append(100, size=10_000)
    assert log.log.acquire("g", "g", 10.0)
    log.log.commit("g", 10, "g")
    done = retain(log.log, policy, now_s=log.now)
    assert (done.deleted, dict(done.unread)) == (10, {})


def test_a_batch_is_in_the_log_once_when_nothing_can_be_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The append is done by then: a failure would have the sender hand the batch in again."""

    def locked(*args: object, **kwargs: object) -> None:
        raise TransportUnavailable("database is locked")

    monkeypatch.setattr("tracejudge_sdk.transports.sqlite.retain", locked)
    transport = SqliteTransport(tmp_path / "q.db")
    transport.send([(str(number), b"{}") for number in range(1_000)])
    transport.close(1)
    log = SqliteLog(tmp_path / "q.db")
    assert log.end_offset() == 1_000
    log.close()
