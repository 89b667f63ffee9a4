"""From a store URL to a Store."""

from __future__ import annotations

from tracejudge.store.connection import Connection
from tracejudge.store.store import Store
from tracejudge.store.target import parse_store_url


def open_store(
    url: str,
    *,
    password: str | None = None,
    settle_timeout_s: float = 60.0,
    max_memory_bytes: int = 2_000_000_000,
    max_execution_s: float = 120.0,
) -> Store:
    """A connected Store on `url`, not yet migrated: call `.migrate()` or `.check_schema()` first.

    `chdb:///RELATIVE`, `chdb:////ABSOLUTE` (this process becomes the directory's owner, or connects to it),
    `clickhouse://user:password@host:port/database` or `clickhouses://...` (TLS). `?database=NAME` chooses a database
    in each. `settle_timeout_s` bounds how long a statement is tried again while nobody answers; memory and time limits
    are of one statement.

    Raises SettingsError for a URL it cannot read, MissingExtra without the packages, StoreUnavailable when nobody
    answers in time, EmbeddedStoreLocked when the directory's holder does not answer, StoreError when this process
    cannot hold the directory.
    """
    connection = Connection(
        parse_store_url(url, password=password),
        settle_timeout_s=settle_timeout_s,
        max_memory_bytes=max_memory_bytes,
        max_execution_s=max_execution_s,
    )
    try:
        connection.connect()
    except BaseException:  # Ctrl-C too: an owner that is not closed keeps the directory
        connection.close()
        raise
    return Store(connection)
