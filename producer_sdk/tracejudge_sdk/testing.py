"""For tests of a service that logs: a transport that keeps what was sent, and the records in it."""

from __future__ import annotations

from tracejudge_sdk.codec import decode
from tracejudge_sdk.trace import Record, Trace
from tracejudge_sdk.transports.memory import MemoryTransport

__all__ = ["MemoryTransport", "records_of", "traces_of"]


def records_of(transport: MemoryTransport) -> list[Record]:
    """Every record sent so far, decoded, in order."""
    return [decode(data) for _, data in list(transport.records)]


def traces_of(transport: MemoryTransport) -> list[Trace]:
    """The traces among them."""
    return [record for record in records_of(transport) if isinstance(record, Trace)]
