"""An append-only log in one SQLite file: offsets, one committed offset and one lease per group of readers.

It stands for Kafka on one machine, for any number of writing processes. Appends are durable against the death of any
process once `append` returned; against power loss too with synchronous="FULL" (with "NORMAL" the last commits before
the loss may be gone, the file stays whole). Local disks only: WAL does not work over network file systems.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from tracejudge_sdk.errors import LeaseLost
from tracejudge_sdk.transports.sqlite_file import SqliteFile

_DELETE_CHUNK: Final = 1000  # rows a delete transaction, so that writers wait for milliseconds only

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


class LogReader(NamedTuple):
    """A group of readers of a log."""

    group: str
    next_offset: int  # 0 while it has committed nothing
    seen_ms: int  # until when it is known to have lived: the end of its lease, or the moment it gave it back


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
        self.path = Path(path)
        self._now = now
        self._file = SqliteFile(self.path, synchronous=synchronous, busy_timeout_s=busy_timeout_s)
        with self._file.using():
            pass  # opens it, so that a wrong file is told at once

    # -- writing ---------------------------------------------------------------------------------------------------

    def append(self, records: Sequence[NewRecord]) -> range:
        """Appends all records or none, in order, and gives their offsets (contiguous, from 0)."""
        with self._file.writing() as db:
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

    def delete_before(self, offset: int) -> int:
        """Deletes the records below `offset`, in short transactions, and gives their number.

        Whether every group has read them is the caller's to ask (`readers`). The file does not shrink; its pages are
        used again.
        """
        deleted = 0
        while True:
            with self._file.writing() as db:
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
        with self._file.using() as db:
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
        with self._file.using() as db:
            (begin,) = db.execute(
                "SELECT coalesce((SELECT min(record_offset) FROM records), end_offset) FROM log_end"
            ).fetchone()
        return int(begin)

    def end_offset(self) -> int:
        """The offset the next record will get; never falls."""
        with self._file.using() as db:
            return _end(db)

    def timestamp_at(self, offset: int) -> int | None:
        """The timestamp (ms) of the first record at or beyond `offset`; None when there is none."""
        with self._file.using() as db:
            row = db.execute(
                "SELECT timestamp_ms FROM records WHERE record_offset >= ? ORDER BY record_offset LIMIT 1", (offset,)
            ).fetchone()
        return None if row is None else int(row[0])

    def size_bytes(self) -> int:
        """What the records take in the file, about: its pages but for the free ones, which are used again."""
        with self._file.using() as db:
            (pages,) = db.execute("PRAGMA page_count").fetchone()
            (free,) = db.execute("PRAGMA freelist_count").fetchone()
            (page_bytes,) = db.execute("PRAGMA page_size").fetchone()
        return (int(pages) - int(free)) * int(page_bytes)

    # -- groups ----------------------------------------------------------------------------------------------------

    def groups(self) -> dict[str, int | None]:
        """Every group with its committed offset (None: it committed nothing yet)."""
        with self._file.using() as db:
            return dict(db.execute("SELECT name, next_offset FROM reader_groups ORDER BY name").fetchall())

    def readers(self) -> list[LogReader]:
        """Every group, with when it was last there."""
        with self._file.using() as db:
            rows = db.execute("SELECT name, coalesce(next_offset, 0), lease_until_ms FROM reader_groups ORDER BY name")
            return [LogReader(*row) for row in rows.fetchall()]

    def committed(self, group: str) -> int | None:
        """The next offset the group has to read; None when it committed nothing yet."""
        with self._file.using() as db:
            row = db.execute("SELECT next_offset FROM reader_groups WHERE name = ?", (group,)).fetchone()
        return None if row is None else row[0]

    def commit(self, group: str, next_offset: int, owner: str) -> None:
        """Stores that everything below `next_offset` is done. Going back is allowed and means reading again.

        Raises LeaseLost when `owner` does not hold the group's lease, ValueError for an offset outside the log.
        """
        with self._file.writing() as db:
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
        with self._file.writing() as db:
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
        with self._file.writing() as db:
            ttl_ms = int(ttl_s * 1000)
            done = db.execute(
                "UPDATE reader_groups SET lease_ttl_ms = ?, lease_until_ms = ? WHERE name = ? AND owner = ?",
                (ttl_ms, int(self._now() * 1000) + ttl_ms, group, owner),
            )
            return done.rowcount > 0

    def release(self, group: str, owner: str) -> bool:
        """Gives the lease back; False when the owner did not hold it."""
        with self._file.writing() as db:
            # The moment stays: it says when the group was last there.
            done = db.execute(
                "UPDATE reader_groups SET owner = NULL, lease_until_ms = ? WHERE name = ? AND owner = ?",
                (int(self._now() * 1000), group, owner),
            )
            return done.rowcount > 0

    def close(self, timeout_s: float = 10.0) -> None:
        """Closes the file. May be called twice; any other call afterwards raises TransportUnavailable."""
        self._file.close(timeout_s)

    def holder(self, group: str) -> str | None:
        """The owner that holds the group's lease, expired or not; None when it is free."""
        with self._file.using() as db:
            return _owner(db, group)


def _end(db: sqlite3.Connection) -> int:
    (end,) = db.execute("SELECT end_offset FROM log_end").fetchone()
    return int(end)


def _owner(db: sqlite3.Connection, group: str) -> str | None:
    row = db.execute("SELECT owner FROM reader_groups WHERE name = ?", (group,)).fetchone()
    return None if row is None else row[0]


def _pack_headers(headers: Headers) -> str | None:
    return json.dumps([[name, value.hex()] for name, value in headers]) if headers else None


def _unpack_headers(packed: str | None) -> Headers:
    if packed is None:
        return ()
    pairs: list[Any] = json.loads(packed)
    return tuple((name, bytes.fromhex(value)) for name, value in pairs)
