"""Pytest plugin: one embedded store a session, one empty migrated database a test.

chDB holds one directory per process, so the whole pytest process shares one; tests are kept apart by databases. Making
one takes most of a second and emptying it a hundredth, so clean ones are used again.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.store_process import StoreProcess
from tracejudge.store import Store, open_store

EXISTING_SERVER = "TRACEJUDGE_TEST_CLICKHOUSE"
"""Environment variable with the URL of a ClickHouse server (`clickhouse://user:password@host:port`) for the tests."""


def with_database(url: str, database: str) -> str:
    """The store URL with another database."""
    base = url.split("?")[0]
    return f"{base}?database={database}"


def empty(store: Store) -> None:
    """Removes every row but those of the schema."""
    for table, size in store.sizes().items():
        if size.rows and table != "schema_migrations":
            store.command(f"TRUNCATE TABLE `{table}`")


class Databases:
    """Migrated, empty databases of one store, handed out one at a time each."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._clean: list[str] = []
        self._made: list[str] = []

    def take(self) -> str:
        """The URL of an empty migrated database."""
        if self._clean:
            return with_database(self._url, self._clean.pop())
        name = f"test_{uuid.uuid4().hex[:12]}"
        self._made.append(name)
        url = with_database(self._url, name)
        with open_store(url) as store:
            store.migrate()
        return url

    def give_back(self, url: str) -> None:
        """Empties the database and keeps it for the next test."""
        with open_store(url) as store:
            empty(store)
        self._clean.append(url.partition("?database=")[2])

    def drop(self) -> None:
        """Removes all of them."""
        with open_store(self._url) as store:
            for name in self._made:
                store.command(f"DROP DATABASE IF EXISTS `{name}`")


@pytest.fixture(scope="session")
def embedded_store_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of an embedded store that this process owns until the session ends (database `default`, not migrated)."""
    pytest.importorskip("chdb", reason="the embedded store needs tracejudge[embedded]")
    directory: Path = tmp_path_factory.mktemp("embedded-store")
    url = f"chdb:///{directory}"
    with open_store(url):
        yield url


@pytest.fixture(scope="session")
def embedded_databases(embedded_store_url: str) -> Databases:
    """Databases of the session's embedded store."""
    return Databases(embedded_store_url)


@pytest.fixture(scope="session")
def owner_databases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Databases]:
    """Databases of an embedded store that another process owns until the session ends."""
    pytest.importorskip("chdb", reason="the embedded store needs tracejudge[embedded]")
    url = f"chdb:///{tmp_path_factory.mktemp('owned-elsewhere')}"
    with StoreProcess(url) as owner:
        assert owner.hear() == "open"
        yield Databases(url)


@pytest.fixture
def store_url(embedded_databases: Databases) -> Iterator[str]:
    """URL of an empty migrated database, for code under test that opens its own Store."""
    url = embedded_databases.take()
    yield url
    embedded_databases.give_back(url)


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    """An open Store on an empty migrated database."""
    with open_store(store_url, settle_timeout_s=20.0) as opened:
        yield opened


@pytest.fixture(scope="session")
def server_databases() -> Iterator[Databases]:
    """Databases of the ClickHouse server named by the environment; without one the test is skipped."""
    url = os.environ.get(EXISTING_SERVER)
    if not url:
        pytest.skip(f"no ClickHouse server: {EXISTING_SERVER} names none")
    databases = Databases(url)
    yield databases
    databases.drop()
