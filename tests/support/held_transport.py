"""A transport that stands still until it is let go, for tests of what piles up in front of it."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from tracejudge_sdk.transports.memory import MemoryTransport


class HeldTransport(MemoryTransport):
    """`send` says `entered` and waits for `go`; closing lets it go, as a real transport's close does."""

    def __init__(self) -> None:
        super().__init__()
        self.entered = threading.Event()
        self.go = threading.Event()

    def send(self, records: Sequence[tuple[str, bytes]]) -> None:
        self.entered.set()
        self.go.wait(60)
        super().send(records)

    def close(self, timeout_s: float) -> None:
        super().close(timeout_s)
        self.go.set()


class FailingTransport(MemoryTransport):
    """Raises the given errors, one a send, before it takes anything; notes what each send held."""

    def __init__(self, *errors: Exception) -> None:
        super().__init__()
        self.errors = list(errors)
        self.sends: list[list[str]] = []

    def send(self, records: Sequence[tuple[str, bytes]]) -> None:
        self.sends.append([key for key, _ in records])
        if self.errors:
            raise self.errors.pop(0)
        super().send(records)
