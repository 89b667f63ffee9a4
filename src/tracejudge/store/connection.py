"""Statements on a store that may go away and come back: each is repeated until it is answered, or a timeout passes.

A statement that was not answered is sent again, possibly after this process has become the embedded engine's owner.
That is safe because every insert of ours may be repeated: the same rows change nothing.
"""

from __future__ import annotations

import logging
import os
import struct
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from tracejudge.errors import EmbeddedStoreLocked, MissingExtra, StoreError, StoreUnavailable
from tracejudge.store.clickhouse_errors import TYPE_MISMATCH, passes, refusal, remedy, shortened
from tracejudge.store.embedded import Endpoint, locate, release
from tracejudge.store.sockets import OpenSockets
from tracejudge.store.target import EmbeddedTarget, Target

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client
    from clickhouse_connect.driver.query import QueryResult

logger = logging.getLogger(__name__)
# The driver warns of every failed attempt; we report once, when all attempts have failed.
logging.getLogger("clickhouse_connect").addHandler(logging.NullHandler())

Row = tuple[Any, ...]
_T = TypeVar("_T")


class Connection:
    """The connection to one store, shared by threads. Does not survive a fork."""

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
        self._made: tuple[int, Client] | None = None  # (generation, client), used by all threads
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
        """As `query`, by column; an empty list where there are no rows."""
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
        """The whole result of a SELECT, in the ClickHouse format `form`."""
        return self.run(lambda client: bytes(client.raw_query(sql, parameters=dict(parameters or {}), fmt=form)))

    def command(
        self,
        sql: str,
        parameters: Mapping[str, Any] | None = None,
        *,
        settings: Mapping[str, Any] | None = None,
        database: bool = True,
    ) -> None:
        """Runs a statement without a result, which must be repeatable; `database` False: outside any database."""

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
        """Inserts rows; their values are checked already."""
        self._insert(table, columns, types, rows, by_column=False, settings=settings)

    def insert_columns(self, table: str, types: Mapping[str, str], columns: Sequence[Sequence[Any]]) -> None:
        """Inserts columns of values that are checked already; `types` by column name, in the order of `columns`."""
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
                    # A backfill may touch more days than the default of 100 partitions; and an acknowledged row must
                    # be stored, not wait in a buffer of the server.
                    settings={"max_partitions_per_insert_block": 0, "async_insert": 0, **(settings or {})},
                )
            except (TypeError, ValueError, OverflowError, struct.error) as error:
                # The driver raises Python's own errors when it cannot write a cell.
                raise StoreError(f"{table}: a cell does not fit its column: {error}", code=TYPE_MISMATCH) from error

        self.run(work)

    def run(self, work: Callable[[Client], _T]) -> _T:
        """The result of `work`, which is tried again until the store answers.

        Raises StoreUnavailable after `settle_timeout_s` seconds without an answer, StoreError for what it refuses.
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
                if not passes(error, self.target):
                    raise refusal(error, self.target) from error
                cause = error
            now = time.monotonic()
            if deadline is None:
                deadline = now + self._settle_timeout_s
                logger.info("store %s does not answer, trying again for %g s", self.target, self._settle_timeout_s)
            if now >= deadline:
                known = remedy(cause) or "check that it runs and can be reached"
                raise StoreUnavailable(
                    f"store {self.target} does not answer ({shortened(cause)}): {known}, then do the same again: what "
                    "was sent may be sent again"
                ) from cause
            self._forget(generation)
            self._closed.wait(min(pause_s, max(0.0, deadline - now)))
            pause_s = min(pause_s * 2, 2.0)

    def connect(self) -> None:
        """Connects now instead of with the first statement."""
        self.run(lambda _: None)

    def close(self) -> None:
        """Closes this connection; an embedded engine that this process owns stops with its last connection.

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
        # One client for all threads: making one takes several requests, and without a session it keeps no state between
        # statements; its pool gives each statement a socket.
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
        """Makes the next statement look for the store anew; once for all threads that failed on this generation."""
        with self._lock:
            if generation != self._generation:
                return
            self._generation += 1
            self._endpoint = None
            if self._pool is not None:
                self._pool.clear()
                self._pool = None
