"""The append-only log in a SQLite file."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tracejudge_sdk.errors import ConfigError, LeaseLost, TransportUnavailable
from tracejudge_sdk.transports.sqlite_log import LogRecord, NewRecord, SqliteLog


class Now:
    def __init__(self) -> None:
        self.at_s = 1_000_000.0

    def __call__(self) -> float:
        return self.at_s


@pytest.fixture
def now() -> Now:
    return Now()


@pytest.fixture
def log(tmp_path: Path, now: Now) -> SqliteLog:
    return SqliteLog(tmp_path / "log.db", now=now)


def _records(*values: str, timestamp_ms: int = 0) -> list[NewRecord]:
    return [(b"k", value.encode(), (), timestamp_ms) for value in values]


def _values(log: SqliteLog, from_offset: int = 0) -> list[str]:
    return [record.value.decode() for record in log.read(from_offset=from_offset)]


def test_offsets_are_contiguous_from_0(log: SqliteLog) -> None:
    assert log.append(_records("a", "b")) == range(2)
    assert log.append([]) == range(2, 2)
    assert log.append(_records("c")) == range(2, 3)
    assert [record.offset for record in log.read(from_offset=0)] == [0, 1, 2]
    assert (log.begin_offset(), log.end_offset()) == (0, 3)


def test_a_record_comes_back_whole(log: SqliteLog) -> None:
    log.append([(None, b"\x00\xff", (("trace", b"\x00"), ("trace", b"2")), 5), (b"\xff", b"", (), 6)])
    assert log.read(from_offset=0) == [
        LogRecord(0, None, b"\x00\xff", (("trace", b"\x00"), ("trace", b"2")), 5),
        LogRecord(1, b"\xff", b"", (), 6),
    ]


def test_reading_is_bounded_by_number_and_bytes_and_never_stuck(log: SqliteLog) -> None:
    log.append(_records("a" * 10, "b" * 10, "c" * 100, "d"))
    assert [r.offset for r in log.read(from_offset=0, max_records=2)] == [0, 1]
    assert [r.offset for r in log.read(from_offset=0, max_bytes=25)] == [0, 1]
    assert [r.offset for r in log.read(from_offset=2, max_bytes=25)] == [2], "one, however large"
    assert log.read(from_offset=4) == []


def test_an_empty_log_begins_at_its_end(log: SqliteLog) -> None:
    assert (log.begin_offset(), log.end_offset()) == (0, 0)
    assert log.read(from_offset=0) == []
    assert log.groups() == {}
    assert log.committed("g") is None


def test_an_append_is_all_or_nothing(log: SqliteLog) -> None:
    with pytest.raises((TypeError, sqlite3.Error)):
        log.append([*_records("a"), (b"k", None, (), 0)])  # type: ignore[list-item]
    assert log.end_offset() == 0
    assert log.append(_records("b")) == range(1)


def test_it_is_there_after_closing_and_opening(tmp_path: Path) -> None:
    first = SqliteLog(tmp_path / "log.db")
    first.append(_records("a"))
    first.acquire("g", "me", 60)
    first.commit("g", 1, "me")
    first.close()
    again = SqliteLog(tmp_path / "log.db", synchronous="FULL")
    assert _values(again) == ["a"]
    assert again.committed("g") == 1


# -- groups and leases -------------------------------------------------------------------------------------------------


def test_only_the_holder_of_the_lease_commits(log: SqliteLog) -> None:
    log.append(_records("a", "b"))
    with pytest.raises(LeaseLost):
        log.commit("g", 1, "me")
    assert log.acquire("g", "me", 10)
    log.commit("g", 1, "me")
    with pytest.raises(LeaseLost, match="'me', not by 'you'") as caught:
        log.commit("g", 2, "you")
    assert caught.value.holder == "me"
    assert log.committed("g") == 1


def test_one_reader_a_group_until_its_lease_runs_out(log: SqliteLog, now: Now) -> None:
    assert log.acquire("g", "me", 10)
    assert not log.acquire("g", "you", 10)
    assert log.acquire("other", "you", 10), "groups do not know each other"
    now.at_s += 9.9
    assert not log.acquire("g", "you", 10)
    assert log.renew("g", "me", 10)
    now.at_s += 9.9
    assert not log.acquire("g", "you", 10)
    now.at_s += 0.2
    assert log.acquire("g", "you", 10)
    assert not log.renew("g", "me", 10)
    assert log.holder("g") == "you"


def test_a_lease_given_back_is_free_at_once(log: SqliteLog) -> None:
    log.acquire("g", "me", 10)
    assert not log.release("g", "you")
    assert log.release("g", "me")
    assert log.holder("g") is None
    assert log.acquire("g", "you", 10)
    with pytest.raises(LeaseLost):
        log.commit("g", 0, "me")


def test_a_lease_that_ran_out_and_nobody_took_still_commits(log: SqliteLog, now: Now) -> None:
    """Nobody else has read meanwhile, so the work is not in doubt."""
    log.append(_records("a"))
    log.acquire("g", "me", 10)
    now.at_s += 60
    log.commit("g", 1, "me")
    assert log.renew("g", "me", 10)


def test_a_clock_set_back_does_not_lock_a_group_for_ever(log: SqliteLog, now: Now) -> None:
    log.acquire("g", "dead", 10)
    now.at_s -= 3600
    assert log.acquire("g", "me", 10)


def test_acquiring_keeps_what_the_group_committed(log: SqliteLog, now: Now) -> None:
    log.append(_records("a", "b"))
    log.acquire("g", "me", 10)
    log.commit("g", 2, "me")
    now.at_s += 60
    log.acquire("g", "you", 10)
    assert log.committed("g") == 2


@pytest.mark.parametrize("offset", [-1, 3])
def test_an_offset_outside_the_log_is_refused(log: SqliteLog, offset: int) -> None:
    log.append(_records("a", "b"))
    log.acquire("g", "me", 10)
    with pytest.raises(ValueError, match=r"0\.\.2"):
        log.commit("g", offset, "me")


def test_going_back_means_reading_again(log: SqliteLog) -> None:
    log.append(_records("a", "b"))
    log.acquire("g", "me", 10)
    log.commit("g", 2, "me")
    log.commit("g", 0, "me")
    assert log.committed("g") == 0


# -- retention ---------------------------------------------------------------------------------------------------------


def test_offsets_never_come_twice(log: SqliteLog) -> None:
    log.append(_records("a", "b"))
    assert log.delete_before(9) == 2
    assert log.append(_records("c")) == range(2, 3)
    assert [record.offset for record in log.read(from_offset=0)] == [2], "it goes on with the oldest left"


def test_many_records_are_deleted_in_short_transactions(log: SqliteLog) -> None:
    log.append(_records(*["x"] * 2500))
    assert log.delete_before(2400) == 2400
    assert log.begin_offset() == 2400


# -- the file ----------------------------------------------------------------------------------------------------------


def test_a_file_of_another_program_is_left_alone(tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    db = sqlite3.connect(other)
    db.execute("CREATE TABLE things (x)")
    db.commit()
    db.close()
    with pytest.raises(ConfigError, match="another program"):
        SqliteLog(other)
    text = tmp_path / "notes.txt"
    text.write_text("not a database at all, but long enough to look like one" * 20)
    with pytest.raises(ConfigError, match="not a tracejudge log"):
        SqliteLog(text)
    assert text.read_text().startswith("not a database")


def test_a_log_of_a_newer_release_is_refused(tmp_path: Path) -> None:
    SqliteLog(tmp_path / "log.db").close()
    db = sqlite3.connect(tmp_path / "log.db")
    db.execute("PRAGMA user_version = 2")
    db.close()
    with pytest.raises(ConfigError, match="upgrade tracejudge"):
        SqliteLog(tmp_path / "log.db")


def test_a_new_log_is_for_its_owner_and_group_only(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "queue.db")
    log.append([(b"k", b"v", (), 0)])
    modes = {path.name: path.stat().st_mode & 0o007 for path in tmp_path.iterdir()}
    log.close()
    assert set(modes.values()) == {0}


def test_a_log_may_be_a_link_to_a_place_where_none_is_yet(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "log.db").symlink_to(tmp_path / "disk" / "log.db")
    log = SqliteLog(tmp_path / "log.db")
    log.append(_records("a"))
    log.close()
    assert _values(SqliteLog(tmp_path / "disk" / "log.db")) == ["a"]


def test_a_place_that_cannot_be_written_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TransportUnavailable, match="folder"):
        SqliteLog(tmp_path / "file" / "log.db")
    with pytest.raises(TransportUnavailable, match="cannot make it or its folder"):
        SqliteLog(tmp_path)


def test_a_wrong_durability_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="neither 'NORMAL' nor 'FULL'"):
        SqliteLog(tmp_path / "log.db", synchronous="OFF")  # type: ignore[arg-type]


def test_a_closed_log_says_so(log: SqliteLog) -> None:
    log.close()
    log.close()
    with pytest.raises(TransportUnavailable, match="closed"):
        log.append(_records("a"))


def test_a_locked_file_is_unavailable_and_works_again_later(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "log.db", busy_timeout_s=0.0)
    other = sqlite3.connect(tmp_path / "log.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(TransportUnavailable, match="locked"):
        log.append(_records("a"))
    other.execute("ROLLBACK")
    assert log.append(_records("a")) == range(1)
    other.close()


def test_a_file_that_was_deleted_is_made_again(log: SqliteLog) -> None:
    """Writing on into a file without a name would lose everything silently."""
    log.append(_records("a", "b"))
    for name in log.path.parent.iterdir():
        name.unlink()
    assert log.append(_records("c")) == range(1)
    assert _values(SqliteLog(log.path)) == ["c"]


def test_threads_and_connections_share_one_log(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    shared = SqliteLog(path)
    logs = [shared, shared, SqliteLog(path), SqliteLog(path)]

    def write(number: int) -> None:
        for i in range(50):
            logs[number].append(_records(f"{number}-{i}"))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    records = shared.read(from_offset=0, max_records=1000)
    assert [record.offset for record in records] == list(range(200))
    for number in range(4):
        mine = [r.value.decode() for r in records if r.value.startswith(f"{number}-".encode())]
        assert mine == [f"{number}-{i}" for i in range(50)]


def test_two_of_one_process_and_another_process_that_ends(tmp_path: Path) -> None:
    """POSIX takes all locks of a process on a file away when it closes any descriptor of it; a process that then ends
    believes that it was the last one, and deletes the WAL the others write to."""
    path = tmp_path / "log.db"
    first, second = SqliteLog(path), SqliteLog(path)
    assert _end_seen_by_another_process(path) == 0
    first.append(_records("a"))
    second.append(_records("b"))
    assert _end_seen_by_another_process(path) == 2


def _end_seen_by_another_process(path: Path) -> int:
    code = (
        "import sys; from tracejudge_sdk.transports.sqlite_log import SqliteLog\n"
        "log = SqliteLog(sys.argv[1]); print(log.end_offset()); log.close()"
    )
    seen = subprocess.run([sys.executable, "-c", code, str(path)], check=True, capture_output=True, text=True)
    return int(seen.stdout)


_WRITER = """
import sys
from tracejudge_sdk.transports.sqlite_log import SqliteLog
log = SqliteLog(sys.argv[1])
for i in range(10**6):
    offset = log.append([(None, b"x" * 500, (), 0)])[0]
    print(offset, flush=True)
"""


def test_what_was_acknowledged_survives_kill_9(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    process = subprocess.Popen([sys.executable, "-c", _WRITER, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    acknowledged = [int(process.stdout.readline()) for _ in range(200)]
    process.kill()
    acknowledged += [int(line) for line in process.stdout.read().split()]
    process.wait()
    log = SqliteLog(path)
    offsets = [record.offset for record in log.read(from_offset=0, max_records=10**6, max_bytes=10**9)]
    assert offsets == list(range(len(offsets)))
    assert set(acknowledged) <= set(offsets)
    db = sqlite3.connect(path)
    assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    db.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # 3.12 warns of any fork beside threads
def test_parent_and_forked_child_both_go_on_writing(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "log.db")
    log.append(_records("before"))
    child = os.fork()
    if child == 0:
        status = 1
        try:
            for i in range(20):
                log.append(_records(f"child-{i}"))
            status = 0
        finally:
            os._exit(status)
    for i in range(20):
        log.append(_records(f"parent-{i}"))
    log.close()  # while the child may still write: its records must not go with our WAL file
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    values = _values(SqliteLog(tmp_path / "log.db"))
    assert len(values) == 41
    assert [value for value in values if value.startswith("child")] == [f"child-{i}" for i in range(20)]


def test_opening_a_locked_file_takes_no_longer_than_the_busy_timeout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "q.db"
    SqliteLog(path).close()
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("PRAGMA locking_mode = EXCLUSIVE")
    holder.execute("BEGIN IMMEDIATE")
    pauses: list[float] = []
    monkeypatch.setattr("tracejudge_sdk.transports.sqlite_file.time.sleep", pauses.append)
    with pytest.raises(TransportUnavailable, match="locked"):
        SqliteLog(path, busy_timeout_s=0.05)
    assert len(pauses) <= 1, "each attempt waits for the whole timeout"
    holder.close()
