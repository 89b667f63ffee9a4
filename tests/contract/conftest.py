"""The store behind the contract suite: chDB in this process, its owner in another one, a server where one is named.

The client is the unmodified HTTP client in all of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.support.store_fixture import EXISTING_SERVER, Databases
from tracejudge.store import Store, open_store

KINDS = ["chdb", "owner", *(["server"] if os.environ.get(EXISTING_SERVER) else [])]
"""Without a server its half is left out; `test_a_server_is_tested_where_one_is_named` says so once."""


_FIXTURES = {"chdb": "embedded_databases", "owner": "owner_databases", "server": "server_databases"}


@pytest.fixture(params=KINDS)
def contract_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """URL of an empty migrated database on each kind of store."""
    databases: Databases = request.getfixturevalue(_FIXTURES[request.param])
    url = databases.take()
    yield url
    databases.give_back(url)


@pytest.fixture
def contract_store(contract_url: str) -> Iterator[Store]:
    """A Store on each kind of store."""
    with open_store(contract_url, settle_timeout_s=20.0) as store:
        yield store
