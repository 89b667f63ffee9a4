"""The transport that goes nowhere: a list inside this process, for tests."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Final

from tracejudge_sdk.codec import DEFAULT_MAX_RECORD_BYTES
from tracejudge_sdk.errors import TransportUnavailable


class MemoryTransport:
    """Keeps what was sent in `records`, as (record key, encoded record) pairs in order.

    Set `error` to make every `send` raise it, as a broker would that is down or says no.
    """

    def __init__(
        self,
        *,
        records: list[tuple[str, bytes]] | None = None,
        max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
    ) -> None:
        self.max_record_bytes = max_record_bytes
        self.records: list[tuple[str, bytes]] = [] if records is None else records
        self.error: Exception | None = None
        self.closed = False

    def send(self, records: Sequence[tuple[str, bytes]]) -> None:
        if self.closed:
            raise TransportUnavailable("memory transport is closed: build another one")
        if self.error is not None:
            raise self.error
        self.records.extend(records)

    def close(self, timeout_s: float) -> None:
        self.closed = True


_QUEUES: Final[dict[str, list[tuple[str, bytes]]]] = {}
_QUEUES_LOCK: Final = threading.Lock()


def memory_transport(name: str, *, max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES) -> MemoryTransport:
    """A transport to memory://NAME: those of one name share their records."""
    with _QUEUES_LOCK:
        records = _QUEUES.setdefault(name, [])
    return MemoryTransport(records=records, max_record_bytes=max_record_bytes)
