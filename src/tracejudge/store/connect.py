"""From a store URL to a Store."""

from __future__ import annotations

from tracejudge.store.store import Store


def open_store(
    url: str,
    *,
    user: str | None = None,
    password: str | None = None,
    settle_timeout_s: float = 60.0,
    max_memory_bytes: int = 2_000_000_000,
    max_execution_s: float = 120.0,
) -> Store:
    """A Store on `url`, not yet migrated: call `.migrate()` or `.check_schema()` first.

    `chdb:///RELATIVE`, `chdb:////ABSOLUTE` (this process becomes the directory's owner, or connects to it),
    `clickhouse://user:password@host:port/database` or `clickhouses://...` (TLS). `?database=NAME` chooses a database
    in each. `settle_timeout_s` bounds how long a statement is retried while nobody answers.

    Raises SettingsError for a URL it cannot read, MissingExtra without the packages, StoreUnavailable when nobody
    answers in time, EmbeddedStoreLocked when the directory's holder does not answer.
    """
    raise NotImplementedError
