"""A client of app "shop" that logs into memory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.logged_traces import Traces, logged_by
from tracejudge_sdk import TraceClient
from tracejudge_sdk.testing import MemoryTransport


@pytest.fixture
def transport() -> MemoryTransport:
    return MemoryTransport()


@pytest.fixture
def client(transport: MemoryTransport) -> Iterator[TraceClient]:
    client = TraceClient(app="shop", transport=transport)
    yield client
    client.close(30)


@pytest.fixture
def traces(client: TraceClient, transport: MemoryTransport) -> Traces:
    return logged_by(client, transport)
