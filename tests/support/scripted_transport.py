"""A transport in memory whose queue can be taken away, held up, or made to refuse, while a gateway writes to it."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from tracejudge_sdk.errors import TransportRejected, TransportUnavailable
from tracejudge_sdk.transports.memory import MemoryTransport


class ScriptedTransport(MemoryTransport):
    """Set `down`, `lossy` (it can be reached), `refuse` (record keys) or `hold`, from any thread; it never closes."""

    def __init__(self) -> None:
        super().__init__()
        self.down = False
        self.lossy = False
        self.lost = 0
        self.refuse: set[str] = set()
        self.hold = False
        self.entered = threading.Event()
        self.go = threading.Event()
        self.sends = 0

    def send(self, records: Sequence[tuple[str, bytes]]) -> None:
        if self.down:
            raise TransportUnavailable("scripted to be down")
        if not records:
            return
        self.sends += 1
        if self.lossy:
            self.lost += 1
            raise TransportUnavailable("scripted to lose batches")
        if self.hold:
            self.entered.set()
            assert self.go.wait(30)
        refused = tuple(i for i, (key, _) in enumerate(records) if key in self.refuse)
        super().send([record for i, record in enumerate(records) if i not in refused])
        if refused:
            raise TransportRejected("scripted to refuse", failed=refused)

    def close(self, timeout_s: float) -> None:
        pass
