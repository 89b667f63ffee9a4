"""An append-only log in one SQLite file: offsets, one committed offset and one lease per group of readers.

It stands for Kafka on one machine, for any number of writing processes. Appends are durable against the death of any
process once `append` returned; against power loss too with synchronous="FULL" (with "NORMAL" the last commits before
the loss may be gone, the file stays whole). Local disks only: WAL does not work over network file systems.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from tracejudge_sdk.errors import ConfigError, LeaseLost, TransportUnavailable

APPLICATION_ID: Final = 0x7472_6A6C  # "trjl": says whose file this is
FORMAT_VERSION: Final = 1
_DELETE_CHUNK: Final = 1000  # rows a delete transaction, so that writers wait for milliseconds only
_OPEN_ATTEMPTS: Final = 20

_SCHEMA: Final = (
    # The value stands last, so that reading an offset or a time never walks its overflow pages.
    """CREATE TABLE records (
        record_offset INTEGER PRIMARY KEY,
        timestamp_ms INTEGER NOT NULL,
        record_key BLOB,
        headers TEXT,
        value BLOB NOT NULL
    )""",
    # Kept apart from the rows: the end must not fall back when the newest row is deleted.
    "CREATE TABLE log_end (only_row INTEGER PRIMARY KEY CHECK (only_row = 1), end_offset INTEGER NOT NULL)",
    "INSERT INTO log_end VALUES (1, 0)",
    """CREATE TABLE reader_groups (
        name TEXT PRIMARY KEY,
        next_offset INTEGER,
        owner TEXT,
        lease_ttl_ms INTEGER NOT NULL DEFAULT 0,
        lease_until_ms INTEGER NOT NULL DEFAULT 0
    ) WITHOUT ROWID""",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {FORMAT_VERSION}",
)

Headers = tuple[tuple[str, bytes], ...]
NewRecord = tuple[bytes | None, bytes, Headers, int]
"""(key, value, headers, timestamp in ms since 1970)."""


class LogRecord(NamedTuple):
    """One record of the log."""

    offset: int
    key: bytes | None
    value: bytes
    headers: Headers
    timestamp_ms: int


class SqliteLog:
    """The log in the file `path`, made (with its folders) when it is not there.

    Safe for threads, for many processes, and across fork: a forked child opens its own connection. Every method raises
    TransportUnavailable when the file stays locked, the disk is full or gone; ConfigError says that the file is not a
    log of ours or was written by a newer release.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        synchronous: Literal["NORMAL", "FULL"] = "NORMAL",
        busy_timeout_s: float = 10.0,
        now: Callable[[], float] = time.time,
    ) -> None:
        if synchronous not in ("NORMAL", "FULL"):
            raise ConfigError(f"synchronous: {synchronous!r} is neither 'NORMAL' nor 'FULL'")
        self.path = Path(path)
        self._synchronous = synchronous
        self._busy_timeout_s = busy_timeout_s
        self._now = now
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._file_id: tuple[int, int] | None = None
        self._closed = False
        _LOGS.add(self)
        with self._using():
            pass  # opens it, so that a wrong file is told at once

    # -- writing ---------------------------------------------------------------------------------------------------

    def append(self, records: Sequence[NewRecord]) -> range:
        """Appends all records or none, in order, and gives their offsets (contiguous, from 0)."""
        with self._writing() as db:
            first = _end(db)
            db.executemany(
                "INSERT INTO records (record_offset, timestamp_ms, record_key, headers, value) VALUES (?, ?, ?, ?, ?)",
                [
                    (first + i, timestamp_ms, key, _pack_headers(headers), value)
                    for i, (key, value, headers, timestamp_ms) in enumerate(records)
                ],
            )
            db.execute("UPDATE log_end SET end_offset = ?", (first + len(records),))
        return range(first, first + len(records))

    def delete_before(self, offset: int, *, force: bool = False) -> int:
        """Deletes the records below `offset`, in short transactions, and gives their number.

        Stops at the lowest committed offset of the groups (a group that committed nothing keeps everything), unless
        `force`. The file does not shrink; its pages are used again.
        """
        if not force:
            with self._using() as db:
                (held,) = db.execute("SELECT min(coalesce(next_offset, 0)) FROM reader_groups").fetchone()
            if held is not None:
                offset = min(offset, held)
        deleted = 0
        while True:
            with self._writing() as db:
                (begin,) = db.execute("SELECT min(record_offset) FROM records").fetchone()
                if begin is None or begin >= offset:
                    return deleted
                up_to = min(offset, begin + _DELETE_CHUNK)
                deleted += db.execute("DELETE FROM records WHERE record_offset < ?", (up_to,)).rowcount

    # -- reading ---------------------------------------------------------------------------------------------------

    def read(self, *, from_offset: int, max_records: int = 500, max_bytes: int = 8_000_000) -> list[LogRecord]:
        """The next records from `from_offset` on, in order; [] at the end.

        At most `max_records`, and at most `max_bytes` of values, but at least one where there is one. Where records
        were deleted it goes on with the oldest left.
        """
        found: list[LogRecord] = []
        size = 0
        with self._using() as db:
            rows = db.execute(
                "SELECT record_offset, record_key, value, headers, timestamp_ms FROM records"
                " WHERE record_offset >= ? ORDER BY record_offset LIMIT ?",
                (from_offset, max_records),
            )
            for offset, key, value, headers, timestamp_ms in rows:
                size += len(value)
                if found and size > max_bytes:
                    break
                found.append(LogRecord(offset, key, value, _unpack_headers(headers), timestamp_ms))
            rows.close()
        return found

    def begin_offset(self) -> int:
        """The offset of the oldest record still there; `end_offset()` when there is none."""
        with self._using() as db:
            (begin,) = db.execute(
                "SELECT coalesce((SELECT min(record_offset) FROM records), end_offset) FROM log_end"
            ).fetchone()
        return int(begin)

    def end_offset(self) -> int:
        """The offset the next record will get; never falls."""
        with self._using() as db:
            return _end(db)

    def offset_at(self, timestamp_ms: int) -> int:
        """The first offset whose record is of `timestamp_ms` or later; `end_offset()` when there is none."""
        with self._using() as db:
            (offset,) = db.execute(
                "SELECT coalesce((SELECT min(record_offset) FROM records WHERE timestamp_ms >= ?), end_offset)"
                " FROM log_end",
                (timestamp_ms,),
            ).fetchone()
        return int(offset)

    # -- groups ----------------------------------------------------------------------------------------------------

    def groups(self) -> dict[str, int | None]:
        """Every group with its committed offset (None: it committed nothing yet)."""
        with self._using() as db:
            return dict(db.execute("SELECT name, next_offset FROM reader_groups ORDER BY name").fetchall())

    def delete_group(self, group: str) -> bool:
        """Forgets a group, so that it no longer holds back `delete_before`; False when there was none."""
        with self._writing() as db:
            return db.execute("DELETE FROM reader_groups WHERE name = ?", (group,)).rowcount > 0

    def committed(self, group: str) -> int | None:
        """The next offset the group has to read; None when it committed nothing yet."""
        with self._using() as db:
            row = db.execute("SELECT next_offset FROM reader_groups WHERE name = ?", (group,)).fetchone()
        return None if row is None else row[0]

    def commit(self, group: str, next_offset: int, owner: str) -> None:
        """Stores that everything below `next_offset` is done. Going back is allowed and means reading again.

        Raises LeaseLost when `owner` does not hold the group's lease, ValueError for an offset outside the log.
        """
        with self._writing() as db:
            end = _end(db)
            if not 0 <= next_offset <= end:
                raise ValueError(f"next_offset: {next_offset!r} is not in 0..{end}, the end of {self.path}")
            done = db.execute(
                "UPDATE reader_groups SET next_offset = ? WHERE name = ? AND owner = ?", (next_offset, group, owner)
            )
            if done.rowcount == 0:
                raise LeaseLost(group, owner, _owner(db, group))

    # -- leases ----------------------------------------------------------------------------------------------------

    def acquire(self, group: str, owner: str, ttl_s: float) -> bool:
        """Takes (or keeps) the group's lease for `ttl_s` seconds; False while another owner's has not run out.

        `owner` must be unique to the reader, for example a UUID: two readers of one name would both read.
        """
        with self._writing() as db:
            now_ms = int(self._now() * 1000)
            row = db.execute(
                "SELECT owner, lease_ttl_ms, lease_until_ms FROM reader_groups WHERE name = ?", (group,)
            ).fetchone()
            if row is not None:
                holder, held_ttl_ms, until_ms = row
                # A lease that would last longer than it was taken for comes from a clock that was set back since.
                if holder not in (None, owner) and now_ms < until_ms <= now_ms + held_ttl_ms:
                    return False
            ttl_ms = int(ttl_s * 1000)
            db.execute(
                "INSERT INTO reader_groups (name, owner, lease_ttl_ms, lease_until_ms) VALUES (?, ?, ?, ?)"
                " ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, lease_ttl_ms = excluded.lease_ttl_ms,"
                " lease_until_ms = excluded.lease_until_ms",
                (group, owner, ttl_ms, now_ms + ttl_ms),
            )
            return True

    def renew(self, group: str, owner: str, ttl_s: float) -> bool:
        """Makes the lease last `ttl_s` seconds from now; False when it was taken by somebody else or released."""
        with self._writing() as db:
            ttl_ms = int(ttl_s * 1000)
            done = db.execute(
                "UPDATE reader_groups SET lease_ttl_ms = ?, lease_until_ms = ? WHERE name = ? AND owner = ?",
                (ttl_ms, int(self._now() * 1000) + ttl_ms, group, owner),
            )
            return done.rowcount > 0

    def release(self, group: str, owner: str) -> bool:
        """Gives the lease back; False when the owner did not hold it."""
        with self._writing() as db:
            done = db.execute(
                "UPDATE reader_groups SET owner = NULL, lease_until_ms = 0 WHERE name = ? AND owner = ?", (group, owner)
            )
            return done.rowcount > 0

    def holder(self, group: str) -> str | None:
        """Who holds the group's lease, run out or not; None when it is free."""
        with self._using() as db:
            return _owner(db, group)

    # -- connection ------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Closes the file. May be called twice; any other call afterwards raises TransportUnavailable."""
        with self._lock:
            self._closed = True
            self._disconnect()

    @contextmanager
    def _using(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                yield self._connect()
            except sqlite3.Error as error:
                self._disconnect()
                raise TransportUnavailable(
                    f"SQLite log {str(self.path)!r}: {error}: look at the disk and at who holds the file, try again"
                ) from error

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._using() as db:
            # IMMEDIATE takes the write lock first: a read lock that is to be raised later can fail without waiting.
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise

    def _connect(self) -> sqlite3.Connection:
        if self._closed:
            raise TransportUnavailable(f"SQLite log {str(self.path)!r} is closed: open it again")
        if self._connection is not None and _file_id(self.path) != self._file_id:
            # The file was moved or deleted: writing on would go to a file without a name, and be lost.
            self._disconnect()
        if self._connection is None:
            self._connection = self._open()
            self._file_id = _file_id(self.path)
        return self._connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _open(self) -> sqlite3.Connection:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise TransportUnavailable(
                f"SQLite log {str(self.path)!r}: cannot make its folder: {error}: check path and permissions"
            ) from error
        db = sqlite3.connect(self.path, timeout=self._busy_timeout_s, isolation_level=None, check_same_thread=False)
        try:
            self._prepare(db)
        except BaseException:
            db.close()
            raise
        return db

    def _prepare(self, db: sqlite3.Connection) -> None:
        try:
            mode = _set_wal(db)
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise
            raise ConfigError(
                f"SQLite log {str(self.path)!r}: {error}: the file is not a tracejudge log, name another one"
            ) from error
        if mode != "wal":
            raise ConfigError(
                f"SQLite log {str(self.path)!r}: this file system gives journal mode {mode!r}, not 'wal': "
                "put the log on a local disk"
            )
        db.execute(f"PRAGMA synchronous = {self._synchronous}")
        if self._version(db) == 0:
            db.execute("BEGIN IMMEDIATE")
            try:
                if self._version(db) == 0:  # another process may have made it meanwhile
                    for statement in _SCHEMA:
                        db.execute(statement)
                db.execute("COMMIT")
            except BaseException:
                db.execute("ROLLBACK")
                raise

    def _version(self, db: sqlite3.Connection) -> int:
        """The format version of the file; 0 when it is empty. Raises ConfigError when it is not a log of ours."""
        (owner,) = db.execute("PRAGMA application_id").fetchone()
        (version,) = db.execute("PRAGMA user_version").fetchone()
        if owner == APPLICATION_ID:
            if version > FORMAT_VERSION:
                raise ConfigError(
                    f"SQLite log {str(self.path)!r} has format {version}, this release knows up to {FORMAT_VERSION}: "
                    "upgrade tracejudge"
                )
            return int(version)
        (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if owner or version or tables:
            raise ConfigError(f"SQLite log {str(self.path)!r}: the file belongs to another program, name another one")
        return 0


def _set_wal(db: sqlite3.Connection) -> str:
    # Switching to WAL needs the file for itself for a moment and does not always honour the busy timeout, so that
    # processes starting together can meet here.
    for attempt in range(_OPEN_ATTEMPTS):
        try:
            return str(db.execute("PRAGMA journal_mode = WAL").fetchone()[0]).lower()
        except sqlite3.OperationalError:  # noqa: PERF203 - a loop of tries, each of which may fail
            if attempt == _OPEN_ATTEMPTS - 1:
                raise
            time.sleep(0.01 * (attempt + 1))
    raise AssertionError("unreachable")


def _end(db: sqlite3.Connection) -> int:
    (end,) = db.execute("SELECT end_offset FROM log_end").fetchone()
    return int(end)


def _owner(db: sqlite3.Connection, group: str) -> str | None:
    row = db.execute("SELECT owner FROM reader_groups WHERE name = ?", (group,)).fetchone()
    return None if row is None else row[0]


def _file_id(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_dev, found.st_ino)


def _pack_headers(headers: Headers) -> str | None:
    return json.dumps([[name, value.hex()] for name, value in headers]) if headers else None


def _unpack_headers(packed: str | None) -> Headers:
    if packed is None:
        return ()
    pairs: list[Any] = json.loads(packed)
    return tuple((name, bytes.fromhex(value)) for name, value in pairs)


# SQLite's locks and its shared memory do not survive a fork: a child that used (or merely closed) the parent's
# connection could let the parent delete a WAL file the child still writes to. So no connection is open during a fork.
_LOGS: weakref.WeakSet[SqliteLog] = weakref.WeakSet()
_held: list[SqliteLog] = []


def _before_fork() -> None:
    for log in list(_LOGS):
        log._lock.acquire()
        _held.append(log)
        log._disconnect()


def _after_fork() -> None:
    while _held:
        _held.pop()._lock.release()


if hasattr(os, "register_at_fork"):  # not on Windows, where there is no fork
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
