"""The file of the SQLite log: its format, its one connection, and how both survive forks and other processes."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

from tracejudge_sdk import forks
from tracejudge_sdk.errors import ConfigError, LogDamaged, TransportUnavailable

APPLICATION_ID: Final = 0x7472_6A6C  # "trjl": says whose file this is
FORMAT_VERSION: Final = 1
_OPEN_ATTEMPTS: Final = 20
_DAMAGED: Final = "malformed"  # in SQLite's own words

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


class SqliteFile:
    """One file, made with its folders when it is not there. Safe for threads, processes and forks.

    Every use raises TransportUnavailable when the file stays locked, the disk is full or gone, and ConfigError when the
    file is not a log of ours or was written by a newer release.
    """

    def __init__(self, path: Path, *, synchronous: Literal["NORMAL", "FULL"], busy_timeout_s: float) -> None:
        if synchronous not in ("NORMAL", "FULL"):
            raise ConfigError(f"synchronous: {synchronous!r} is neither 'NORMAL' nor 'FULL'")
        # Absolute: a process may change its directory while the log is open.
        self.path = path.absolute()
        self._synchronous = synchronous
        self._busy_timeout_s = busy_timeout_s
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._file_id: tuple[int, int] | None = None
        self._closed = False
        forks.register(self)

    def close(self, timeout_s: float = 10.0) -> None:
        """Closes the file; where another thread uses it for longer than `timeout_s`, that thread closes it."""
        self._closed = True
        if self._lock.acquire(timeout=max(0.0, timeout_s)):
            try:
                self._disconnect()
            finally:
                self._lock.release()

    @contextmanager
    def using(self) -> Iterator[sqlite3.Connection]:
        """The connection, for this thread alone as long as the block runs."""
        with self._lock:
            try:
                yield self._connect()
            except (sqlite3.ProgrammingError, sqlite3.InterfaceError, sqlite3.IntegrityError):
                raise  # our own mistake, which trying again would not mend
            except sqlite3.Error as error:
                self._disconnect()
                said = f"SQLite log {str(self.path)!r}: {error}"
                if _DAMAGED in str(error):
                    raise LogDamaged(
                        f"{said}: the file is damaged: keep a copy (`sqlite3 FILE .recover` reads what is left) and "
                        "move it away, a new one is made"
                    ) from error
                raise TransportUnavailable(f"{said}: look at the disk and at who holds the file, try again") from error
            finally:
                if self._closed:
                    self._disconnect()

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A connection inside one write transaction, as `using` gives one: committed at the end of the block, rolled
        back when it raises."""
        with self.using() as db:
            # IMMEDIATE takes the write lock first: a read lock that is to be raised later can fail without waiting.
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:  # Ctrl-C too: an open transaction would lock every other process out
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
            _make(self.path)
            if self.path.is_dir() or not os.access(self.path, os.R_OK | os.W_OK):
                raise PermissionError(f"not a file this user may read and write: {str(self.path)!r}")
        except OSError as error:
            raise TransportUnavailable(
                f"SQLite log {str(self.path)!r}: cannot make it or its folder: {error}: check path and permissions"
            ) from error
        db = sqlite3.connect(self.path, timeout=self._busy_timeout_s, isolation_level=None, check_same_thread=False)
        try:
            self._prepare(db)
        except BaseException:  # Ctrl-C too: nobody else holds this connection
            db.close()
            raise
        return db

    def _prepare(self, db: sqlite3.Connection) -> None:
        try:
            mode = _set_wal(db, self._busy_timeout_s)
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError) or _DAMAGED in str(error):
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
            except BaseException:  # as in `writing`
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

    def before_fork(self) -> None:
        """Waits until no thread uses the file (at most the busy timeout), and closes the connection.

        SQLite's locks and its shared memory do not survive a fork: a child that used (or merely closed) the parent's
        connection could let the parent delete a WAL file the child still writes to.
        """
        self._lock.acquire()
        self._disconnect()

    def after_fork(self) -> None:
        self._lock.release()


def _make(path: Path) -> None:
    """Makes the file where there is none. One that is there is not opened: when a process closes any descriptor of a
    file it loses all its locks on it (POSIX), those of its other connections too, and the next process that ends would
    delete the WAL under them.

    Questions and answers are nobody else's business: a new file is for its owner and group only. SQLite gives the same
    rights to the files beside it.
    """
    path = path.resolve()  # a link to where nothing is yet
    if path.exists():
        return
    with contextlib.suppress(FileExistsError):  # another thread or process came first
        if sys.platform == "linux":
            os.mknod(path, stat.S_IFREG | 0o660)  # never opened, so there is no moment in which it could be closed
        else:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o660))


def _set_wal(db: sqlite3.Connection, limit_s: float) -> str:
    # Switching to WAL needs the file for itself for a moment and does not always honour the busy timeout, so that
    # processes starting together can meet here. Where it does honour it, one attempt is enough: a fork waits for this.
    deadline = time.monotonic() + limit_s
    for attempt in range(_OPEN_ATTEMPTS):
        try:
            return str(db.execute("PRAGMA journal_mode = WAL").fetchone()[0]).lower()
        except sqlite3.OperationalError:
            if attempt == _OPEN_ATTEMPTS - 1 or time.monotonic() >= deadline:
                raise
            time.sleep(0.01 * (attempt + 1))
    raise AssertionError("unreachable")


def _file_id(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_dev, found.st_ino)
