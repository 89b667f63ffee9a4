"""The transport that goes nowhere: a list inside this process, for tests."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Final

from tracejudge_sdk.codec import DEFAULT_MAX_RECORD_BYTES


class MemoryTransport:
    """Keeps what was sent in `records`, as (record key, encoded record) pairs in order.

    Set `error` to make every `send` raise it, as a broker would that is down or says no.
    """

    def __init__(self, *, max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES) -> None:
        self.max_record_bytes = max_record_bytes
        self.records: list[tuple[str, bytes]] = []
        self.error: Exception | None = None
        self.closed = False
        self._lock = threading.Lock()

    def send(self, records: Sequence[tuple[str, bytes]]) -> None:
        with self._lock:
            if self.error is not None:
                raise self.error
            self.records.extend(records)

    def close(self, timeout_s: float) -> None:
        self.closed = True


_QUEUES: Final[dict[str, MemoryTransport]] = {}
_QUEUES_LOCK: Final = threading.Lock()


def memory_transport(name: str, *, max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES) -> MemoryTransport:
    """The transport of memory://NAME: the same object for the same name."""
    with _QUEUES_LOCK:
        if name not in _QUEUES:
            _QUEUES[name] = MemoryTransport(max_record_bytes=max_record_bytes)
        return _QUEUES[name]
