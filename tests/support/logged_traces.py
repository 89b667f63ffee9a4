"""What a client has logged to a MemoryTransport, for tests of the SDK's integrations."""

from __future__ import annotations

from collections.abc import Callable

from tracejudge_sdk import TraceClient
from tracejudge_sdk.testing import MemoryTransport, traces_of
from tracejudge_sdk.trace import Trace

Traces = Callable[[], list[Trace]]
"""Flushes the client and gives the traces logged so far."""


def logged_by(client: TraceClient, transport: MemoryTransport) -> Traces:
    def logged() -> list[Trace]:
        assert client.flush(30)
        return traces_of(transport)

    return logged
