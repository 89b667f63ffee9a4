"""The store behind the contract suite: the embedded owner with the unmodified client, a server where one is named."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.support.store_fixture import EXISTING_SERVER, Databases
from tracejudge.store import Store, open_store

KINDS = ["chdb", *(["server"] if os.environ.get(EXISTING_SERVER) else [])]
"""Without a server its half is left out; `test_a_server_is_tested_where_one_is_named` says so once."""


@pytest.fixture(params=KINDS)
def contract_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """URL of an empty migrated database on each kind of store."""
    fixture = "embedded_databases" if request.param == "chdb" else "server_databases"
    databases: Databases = request.getfixturevalue(fixture)
    url = databases.take()
    yield url
    databases.give_back(url)


@pytest.fixture
def contract_store(contract_url: str) -> Iterator[Store]:
    """A Store on each kind of store."""
    with open_store(contract_url, settle_timeout_s=20.0) as store:
        yield store
