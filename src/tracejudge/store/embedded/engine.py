"""chDB on one directory of this process: a bounded pool of handles, each with its own database and settings.

chDB keeps `USE` and `SET` per handle, so a handle remembers what it was set to and is changed only where a request
differs: clients that always send the same settings cost no extra statement.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import threading
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tracejudge.errors import MissingExtra, StoreError
from tracejudge.store.embedded import sql

STREAMABLE: Final = frozenset({"Native", "TabSeparated", "TSV", "CSV", "RowBinary", "JSONEachRow", "NDJSON"})
"""Formats of which chDB's blocks, laid end to end, are one valid result; the others come whole."""

_SETTING_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CODE = re.compile(r"Code: (\d+)\.")
_READS: Final = frozenset({"SELECT", "WITH", "SHOW", "DESCRIBE", "DESC", "EXISTS", "EXPLAIN", "CHECK", "(", "FROM"})
_STREAMED: Final = frozenset({"SELECT", "WITH"})  # chDB refuses to stream DESCRIBE and the like
_imported_by: int | None = None


class EngineError(Exception):
    """The engine refused a statement. `code` is ClickHouse's."""

    def __init__(self, message: str, *, code: int | None = None) -> None:
        super().__init__(message)
        found = _CODE.search(message)
        self.code = code if code is not None else int(found.group(1)) if found else 1002  # UNKNOWN_EXCEPTION


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One request to the engine. `params` are in the escaped form of HTTP's `param_*`."""

    sql: bytes
    database: str = "default"
    params: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    default_format: str = "TabSeparated"
    read_only: bool = False  # asked for by the client: chDB's own setting could not be taken back from a handle

    @property
    def verb(self) -> str:
        """Its first word, in capitals."""
        return sql.first_word(self.sql)

    @property
    def reads(self) -> bool:
        """True when it only reads, so that it may be cancelled, and sent by GET or with `readonly`."""
        return self.verb in _READS and not sql.writes(self.sql)


@dataclass(slots=True)
class Summary:
    """The engine's summary of a finished statement."""

    format: str | None = None
    rows: int = 0
    bytes: int = 0
    written: bool = False

    def as_json(self) -> dict[str, str]:
        kind = "written" if self.written else "read"
        return {f"{kind}_rows": str(self.rows), f"{kind}_bytes": str(self.bytes)}


@contextmanager
def _standing_still() -> Iterator[None]:
    """Keeps this thread from changing the process's working directory.

    chDB 4.4 steps into its package folder while it is imported, and back. It needs no such step; and a takeover imports
    it in the middle of a process's life, when any other thread may be opening a relative path.
    """
    real, me = os.chdir, threading.get_ident()

    def chdir(path: Any) -> None:
        if threading.get_ident() != me:
            real(path)

    os.chdir = chdir
    try:
        yield
    finally:
        os.chdir = real


def _load_chdb() -> Any:
    global _imported_by
    try:
        with _standing_still():
            import chdb
    except ImportError as error:
        raise MissingExtra("an embedded store (chdb://)", extra="embedded") from error
    if _imported_by is None:
        _imported_by = os.getpid()
    elif _imported_by != os.getpid():
        # Measured: the engine's threads do not survive a fork, and the child's first query waits for ever.
        raise StoreError(
            f"chDB was loaded in process {_imported_by} and does not survive a fork (this is {os.getpid()}): "
            "start workers with the 'spawn' method, or open the store only in the child"
        )
    return chdb


def loaded_before_fork() -> bool:
    """True in a forked child whose parent had loaded chDB: here it would hang."""
    return _imported_by is not None and _imported_by != os.getpid()


class Handle:
    """One chDB connection, with the database and the settings that it has at present."""

    def __init__(self, connection: Any, name: str) -> None:
        self._connection = connection
        self._database = "default"
        self._settings: dict[str, str] = {}
        self.name = name
        # Marks the handle's queries in system.processes, so that one of them can be killed.
        self._plain(f"SET log_comment = '{name}'")

    def matches(self, statement: Statement) -> bool:
        return self._database == statement.database and self._settings == dict(statement.settings)

    def run(self, statement: Statement, summary: Summary) -> Generator[bytes, None, None]:
        """The result in pieces; fills in `summary` at the end."""
        self._stand_at(statement)
        head = sql.split_insert(statement.sql)
        if head is not None:
            yield from self._insert(head, statement, summary)
            return
        if b";" in statement.sql and sql.has_more_than_one(statement.sql):
            raise EngineError("Code: 62. DB::Exception: Multi-statements are not allowed. (SYNTAX_ERROR)", code=62)
        try:
            text = statement.sql.decode("utf-8")
        except UnicodeDecodeError as error:
            raise EngineError(f"Code: 62. DB::Exception: the query is not UTF-8: {error}. (SYNTAX_ERROR)") from error
        reads = statement.reads
        summary.format = (sql.output_format(statement.sql) or statement.default_format) if reads else None
        if statement.verb in _STREAMED and summary.format in STREAMABLE:
            yield from self._stream(text, statement, summary)
        else:
            result = self._call(self._connection.query, text, statement.default_format, params=dict(statement.params))
            summary.rows, summary.bytes = int(result.rows_read()), int(result.bytes_read())
            yield result.bytes()

    def close(self) -> None:
        self._connection.close()

    def _stream(self, text: str, statement: Statement, summary: Summary) -> Generator[bytes, None, None]:
        stream = self._call(self._connection.send_query, text, statement.default_format, params=dict(statement.params))
        try:
            while True:
                piece = self._call(stream.fetch)
                if piece is None:
                    return
                data = piece.bytes()
                if not data:
                    return
                summary.rows += int(piece.rows_read())
                summary.bytes += int(piece.bytes_read())
                yield data
        finally:
            stream.close()

    def _insert(self, head: sql.InsertHead, statement: Statement, summary: Summary) -> Generator[bytes, None, None]:
        if statement.params:
            raise EngineError("Code: 48. DB::Exception: query parameters in an INSERT with data (NOT_IMPLEMENTED)")
        # chDB 4.4 has a streaming insert, whose `finish` keeps every failure of the writing to itself: a full disk, too
        # many parts, memory. Read from a file, the data are inserted by a query like any other, which says them.
        with _as_file(memoryview(statement.sql)[head.data_start :]) as path:
            text = f"{head.statement}\nFROM INFILE '{path}' {head.settings}\nFORMAT {head.format}"
            done = self._call(self._connection.query, text, "TabSeparated")
        summary.rows, summary.bytes, summary.written = int(done.rows_read()), int(done.bytes_read()), True
        yield b""

    def _stand_at(self, statement: Statement) -> None:
        if statement.database != self._database:
            name = statement.database.replace("\\", "\\\\").replace("`", "\\`")
            self._plain(f"USE `{name}`")
            self._database = statement.database
        for name in [name for name in self._settings if name not in statement.settings]:
            self._plain(f"SET {name} = DEFAULT")
            del self._settings[name]
        for name, value in statement.settings.items():
            if self._settings.get(name) != value:
                if not _SETTING_NAME.fullmatch(name):
                    raise EngineError(f"Code: 115. DB::Exception: Unknown setting {name!r}. (UNKNOWN_SETTING)")
                quoted = value.replace("\\", "\\\\").replace("'", "\\'")
                self._plain(f"SET {name} = '{quoted}'")
                self._settings[name] = value

    def _plain(self, text: str) -> None:
        self._call(self._connection.query, text, "TabSeparated")

    def _call(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except RuntimeError as error:  # ChdbError is one, too
            raise EngineError(_engine_text(error)) from error


@contextmanager
def _as_file(data: memoryview) -> Iterator[str]:
    """The data under a path of this process: in memory on Linux, since the disk may be full, and is slower anyway."""
    if sys.platform == "linux":
        descriptor = os.memfd_create("tracejudge-insert")
        try:
            with open(descriptor, "wb", closefd=False) as file:
                file.write(data)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
    else:
        with tempfile.NamedTemporaryFile(prefix="tracejudge-insert-") as file:
            file.write(data)
            file.flush()
            yield file.name


def _engine_text(error: Exception) -> str:
    text = str(error)
    start = text.find("Code: ")
    return text[start:] if start > 0 else text


class Engine:
    """chDB opened on `path`. At most `handles` statements run at once; a session keeps a handle of its own."""

    def __init__(self, path: Path, *, handles: int) -> None:
        self._chdb = _load_chdb()
        self._path = path
        self._free: list[Handle] = []
        self._made = 0
        self._limit = handles
        self._lock = threading.Condition()
        self._closed = False
        try:
            self._admin = Handle(self._chdb.connect(str(path)), "tracejudge-admin")
        except RuntimeError as error:
            raise StoreError(
                f"{path}: chDB would not open it: {error}. One directory a process, and one process a directory: "
                "close the other one first"
            ) from error

    @contextmanager
    def handle(self, statement: Statement) -> Iterator[Handle]:
        """A handle for one statement, the one already standing at its settings where there is one."""
        handle = self._take(statement)
        try:
            yield handle
        finally:
            with self._lock:
                self._free.append(handle)
                self._lock.notify()

    def session_handle(self, name: str) -> Handle:
        """A handle outside the pool, for a session: its temporary tables live as long as it does."""
        return Handle(self._chdb.connect(str(self._path)), name)

    def kill(self, handle_name: str) -> None:
        """Stops the statement that the handle is running, if any."""
        with self._lock:
            if not self._closed:
                self._admin._plain(f"KILL QUERY WHERE Settings['log_comment'] = '{handle_name}' ASYNC")

    def close(self) -> None:
        """Closes every handle; the engine then leaves the directory. Statements must have ended."""
        with self._lock:
            self._closed = True
            for handle in self._free:
                handle.close()
            self._free.clear()
            self._admin.close()

    def _take(self, statement: Statement) -> Handle:
        with self._lock:
            while True:
                if self._closed:
                    raise EngineError("Code: 210. DB::Exception: the engine is closing. (NETWORK_ERROR)")
                for index in range(len(self._free) - 1, -1, -1):
                    if self._free[index].matches(statement):
                        return self._free.pop(index)
                if self._made < self._limit:
                    self._made += 1
                    return Handle(self._chdb.connect(str(self._path)), f"tracejudge-{self._made}")
                if self._free:
                    return self._free.pop(0)  # the one unused for longest
                self._lock.wait()
