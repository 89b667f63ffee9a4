"""Statements on a store that may go away and come back: a client per thread, and every statement retried in peace.

A statement that failed for want of an answer is sent again, possibly after this process has become the embedded
engine's owner. That is safe because every insert of ours may be repeated: the same rows change nothing.
"""

from __future__ import annotations

import logging
import os
import re
import struct
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tracejudge.errors import EmbeddedStoreLocked, MissingExtra, StoreError, StoreUnavailable, StoreUnusable
from tracejudge.store.embedded import Endpoint, locate, release
from tracejudge.store.sockets import OpenSockets
from tracejudge.store.target import EmbeddedTarget, Target

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client
    from clickhouse_connect.driver.query import QueryResult

logger = logging.getLogger(__name__)
# The driver warns of every failed attempt; ours to tell, once, when all have failed.
logging.getLogger("clickhouse_connect").addHandler(logging.NullHandler())

Row = tuple[Any, ...]
_T = TypeVar("_T")

_TRY_AGAIN: Final = frozenset(
    {
        198,  # DNS_ERROR
        75, 243,  # CANNOT_WRITE_TO_FILE_DESCRIPTOR, NOT_ENOUGH_SPACE: its disk is full
        202,  # TOO_MANY_SIMULTANEOUS_QUERIES
        203, 209, 210,  # NO_FREE_CONNECTION, SOCKET_TIMEOUT, NETWORK_ERROR
        242,  # TABLE_IS_READ_ONLY: a replica that has lost its keeper
        252,  # TOO_MANY_PARTS: merges are behind
        319,  # UNKNOWN_STATUS_OF_INSERT
        394,  # QUERY_WAS_CANCELLED: the server or the owner is closing
        425,  # SYSTEM_ERROR
        999,  # KEEPER_EXCEPTION
    }
)  # fmt: skip
_AUTHENTICATION_FAILED: Final = 516
_TYPE_MISMATCH: Final = 53
_REMEDY: Final = {
    60: "the schema is missing or old: run `tracejudge migrate`",
    75: "make room on the disk of the store",
    243: "make room on the disk of the store",
    81: "the database is missing: run `tracejudge migrate`",
    47: "the schema may be older than this release: run `tracejudge migrate`",
    159: "ask for a shorter window, or raise the time limit of the store",
    160: "ask for a shorter window, or raise the time limit of the store",
    241: "ask for a shorter window, or raise the memory limit of the store",
    497: "grant this user the missing right (`tracejudge migrate --print` shows what is used)",
    516: "check user and password of the store's URL",
    164: "this user may only read: give the writing processes another one",
}
_UNUSABLE: Final = frozenset({60, 81, 164, 497, 516})  # mended by a person, in the settings or in the store
_DRIVERS_WORDS: Final = re.compile(
    r"Error \w+\(host=.*\(Caused by \w+\(\W?(?:\w+\(host=[^)]*\): )?(.+?)\W?\)\) executing .*"
)


class Connection:
    """One store's connection, shared by threads. `database` None in a call means outside any database."""

    def __init__(
        self,
        target: Target,
        *,
        settle_timeout_s: float,
        max_memory_bytes: int,
        max_execution_s: float,
    ) -> None:
        if isinstance(target, EmbeddedTarget):  # the process may change its directory before it closes this
            target = replace(target, directory=target.directory.absolute())
        self.target = target
        self._settle_timeout_s = settle_timeout_s
        self._execution_s = max_execution_s
        self._settings = {"max_memory_usage": str(max_memory_bytes), "max_execution_time": f"{max_execution_s:g}"}
        self._pid = os.getpid()
        self._made: tuple[int, Client] | None = None  # of which generation; all threads use it
        self._lock = threading.Lock()
        self._generation = 0
        self._endpoint: Endpoint | None = None
        self._pool: Any = None
        self._sockets = OpenSockets()
        self._closed = threading.Event()

    def query(
        self,
        sql: str,
        parameters: Mapping[str, Any] | None = None,
        *,
        binary: Sequence[str] = (),
        settings: Mapping[str, Any] | None = None,
    ) -> list[Row]:
        """All rows of a SELECT. Instants come as integers of their column's unit; columns in `binary` as bytes."""

        result = self._select(sql, parameters, binary=binary, settings=settings)
        return self.run(lambda client: list(map(tuple, result(client).result_rows)))

    def query_columns(
        self, sql: str, parameters: Mapping[str, Any] | None = None, *, binary: Sequence[str] = ()
    ) -> list[Sequence[Any]]:
        """The same, a column at a time; no columns where there are no rows."""
        result = self._select(sql, parameters, binary=binary)
        return self.run(lambda client: list(result(client).result_columns))

    def _select(
        self,
        sql: str,
        parameters: Mapping[str, Any] | None,
        *,
        binary: Sequence[str],
        settings: Mapping[str, Any] | None = None,
    ) -> Callable[[Client], QueryResult]:
        return lambda client: client.query(
            sql,
            parameters=dict(parameters or {}),
            query_formats={"DateTime*": "int"},
            column_formats=dict.fromkeys(binary, "bytes"),
            settings=dict(settings or {}),
        )

    def raw(self, sql: str, parameters: Mapping[str, Any] | None = None, *, form: str) -> bytes:
        """The result of a SELECT in one of ClickHouse's formats, whole."""
        return self.run(lambda client: bytes(client.raw_query(sql, parameters=dict(parameters or {}), fmt=form)))

    def command(
        self,
        sql: str,
        parameters: Mapping[str, Any] | None = None,
        *,
        settings: Mapping[str, Any] | None = None,
        database: bool = True,
    ) -> None:
        """Runs a statement that gives no rows; it must be repeatable."""

        def work(client: Client) -> None:
            client.command(sql, parameters=dict(parameters or {}), settings=dict(settings or {}), use_database=database)

        self.run(work)

    def insert(
        self,
        table: str,
        columns: Sequence[str],
        types: Sequence[str],
        rows: Sequence[Sequence[Any]],
        *,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        """Inserts rows of already checked values."""
        self._insert(table, columns, types, rows, by_column=False, settings=settings)

    def insert_columns(self, table: str, types: Mapping[str, str], columns: Sequence[Sequence[Any]]) -> None:
        """Inserts already checked values a column at a time; `types` by name, in the order of `columns`."""
        self._insert(table, list(types), list(types.values()), columns, by_column=True)

    def _insert(
        self,
        table: str,
        columns: Sequence[str],
        types: Sequence[str],
        data: Sequence[Sequence[Any]],
        *,
        by_column: bool,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        def work(client: Client) -> None:
            try:
                client.insert(
                    table,
                    data,
                    column_names=list(columns),
                    column_type_names=list(types),
                    column_oriented=by_column,
                    # A backfill may touch more days than the default of 100 partitions; and what is acknowledged is
                    # stored, not waiting in a server's buffer.
                    settings={"max_partitions_per_insert_block": 0, "async_insert": 0, **(settings or {})},
                )
            except (TypeError, ValueError, OverflowError, struct.error) as error:
                # The driver lets Python's own errors out when it cannot write a cell.
                raise StoreError(f"{table}: a cell does not fit its column: {error}", code=_TYPE_MISMATCH) from error

        self.run(work)

    def run(self, work: Callable[[Client], _T]) -> _T:
        """What `work` gives, tried again until `settle_timeout_s` have gone without an answer.

        Raises StoreUnavailable then, and StoreError for what the store refuses.
        """
        try:
            from clickhouse_connect.driver.exceptions import Error
        except ImportError as error:
            raise MissingExtra("the store", extra="consumer") from error
        deadline: float | None = None
        pause_s = 0.05
        while True:
            self._check()
            generation = self._generation
            try:
                return work(self._client())
            except EmbeddedStoreLocked as error:
                if deadline is None:
                    raise
                cause: Exception = error
            except Error as error:
                if not self._may_settle(error):
                    raise self._refused(error) from error
                cause = error
            now = time.monotonic()
            if deadline is None:
                deadline = now + self._settle_timeout_s
                logger.info("store %s does not answer, trying again for %g s", self.target, self._settle_timeout_s)
            if now >= deadline:
                remedy = _REMEDY.get(getattr(cause, "code", None) or 0, "check that it runs and can be reached")
                raise StoreUnavailable(
                    f"store {self.target} does not answer ({_short(cause)}): {remedy}, then do the same again: what "
                    "was sent may be sent again"
                ) from cause
            self._forget(generation)
            self._closed.wait(min(pause_s, max(0.0, deadline - now)))
            pause_s = min(pause_s * 2, 2.0)

    def connect(self) -> None:
        """Connects now instead of with the first statement."""
        self.run(lambda _: None)

    def close(self) -> None:
        """Closes this connection; the owner in this process stops with its last user.

        Statements of other threads end with StoreError, also those that wait for an answer.
        """
        if self._closed.is_set() or self._pid != os.getpid():
            return
        self._closed.set()
        self._sockets.cut()
        with self._lock:
            if self._pool is not None:
                self._pool.clear()
            self._pool = None
        if isinstance(self.target, EmbeddedTarget):
            release(self.target.directory, user=self)

    def _check(self) -> None:
        if self._closed.is_set():
            raise StoreError("this store is closed: open it again")
        if self._pid != os.getpid():
            raise StoreError(
                f"this store was opened in process {self._pid} and does not survive a fork (this is {os.getpid()}): "
                "start workers with the 'spawn' method and open the store in them"
            )

    def _client(self) -> Client:
        # One for all threads: without a session it keeps nothing between two statements, its pool gives each of them a
        # socket, and to make one takes several requests.
        made = self._made
        if made is None or made[0] != self._generation:
            with self._lock:
                self._check()  # once closed, it must not become the directory's owner again
                made = self._made
                if made is None or made[0] != self._generation:
                    made = self._made = (self._generation, self._new_client())
        return made[1]

    def _new_client(self) -> Client:
        import clickhouse_connect
        from clickhouse_connect.driver.exceptions import ProgrammingError

        target = self.target
        if isinstance(target, EmbeddedTarget):
            if self._endpoint is None:
                self._endpoint = locate(target.directory, user=self)
            host, port, secure = self._endpoint.host, self._endpoint.port, False
            user, password = self._endpoint.user, self._endpoint.password
        else:
            host, port, secure, user, password = target.host, target.port, target.secure, target.user, target.password
        if self._pool is None:
            self._pool = self._sockets.pool(maxsize=32)
        connect = partial(
            clickhouse_connect.get_client,
            host=host,
            port=port,
            interface="https" if secure else "http",
            username=user,
            password=password,
            compress=not isinstance(target, EmbeddedTarget),  # on loopback it costs more than it saves
            autogenerate_session_id=False,  # a session serialises, and refuses a second thread
            connect_timeout=5,
            send_receive_timeout=int(self._execution_s + 30),
            client_name="tracejudge",
            pool_mgr=self._pool,
            query_retries=0,
        )
        try:
            client = connect(settings=dict(self._settings))
        except ProgrammingError:  # a user with `readonly = 1` may not set limits: the server's own hold
            client = connect()
        client.database = target.database  # not at construction: before `migrate` it may not exist
        return client

    def _forget(self, generation: int) -> None:
        """Looks for the store anew, once for all threads that failed on the same connection."""
        with self._lock:
            if generation != self._generation:
                return
            self._generation += 1
            self._endpoint = None
            if self._pool is not None:
                self._pool.clear()
                self._pool = None

    def _may_settle(self, error: Exception) -> bool:
        from clickhouse_connect.driver.exceptions import DatabaseError, OperationalError, StreamFailureError

        code = getattr(error, "code", None)
        if code is not None:
            # A new owner of the directory has another password.
            return code in _TRY_AGAIN or (code == _AUTHENTICATION_FAILED and isinstance(self.target, EmbeddedTarget))
        if isinstance(error, OperationalError | StreamFailureError):
            return True
        # No ClickHouse answers like this: a proxy before it, or a stranger on the port of an owner that has gone.
        return isinstance(error, DatabaseError) and "HTTP status" in str(error) and not _is_ours_to_fix(error)

    def _refused(self, error: Exception) -> StoreError:
        from clickhouse_connect.driver.exceptions import DataError

        code = _TYPE_MISMATCH if isinstance(error, DataError) else getattr(error, "code", None)
        remedy = _REMEDY.get(code or 0)
        kind = StoreUnusable if code in _UNUSABLE else StoreError
        return kind(f"store {self.target}: {_short(error)}" + (f": {remedy}" if remedy else ""), code=code)


def _is_ours_to_fix(error: Exception) -> bool:
    return any(f"HTTP status {status}" in str(error) for status in (400, 404, 405, 411, 413, 414))


def _short(error: Exception) -> str:
    text = str(error)
    for noise in ("Received ClickHouse exception, ", "server response: "):
        text = text.replace(noise, "")
    text = text.split(" (for url ")[0].replace("\n", " ").strip()
    return _DRIVERS_WORDS.sub(r"\1", text)[:600]
