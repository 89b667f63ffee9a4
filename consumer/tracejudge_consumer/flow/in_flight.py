"""How many records and bytes are in flight."""

from __future__ import annotations

import threading


class InFlight:
    """A counter of records and bytes, changed by two threads; `wait_for_less` sleeps until it has fallen."""

    def __init__(self) -> None:
        self._records = 0
        self._bytes = 0
        self._removed = 0
        self._awaited = 0
        self._changed = threading.Condition()

    @property
    def records(self) -> int:
        return self._records

    @property
    def size_bytes(self) -> int:
        return self._bytes

    @property
    def removed(self) -> int:
        """How many records have been removed since the start."""
        return self._removed

    def add(self, *, records: int, size_bytes: int) -> None:
        with self._changed:
            self._records += records
            self._bytes += size_bytes

    def remove(self, *, records: int, size_bytes: int) -> None:
        with self._changed:
            self._records -= records
            self._bytes -= size_bytes
            self._removed += records
            if self._records < self._awaited:
                self._changed.notify_all()

    def wait_for_less(self, timeout_s: float, *, than: int | None = None) -> None:
        """Returns when fewer than `than` records are in flight (by default: fewer than now), or after `timeout_s`.

        It does not wake at each record that is removed: a caller that waits for room for many cannot use one.
        """
        with self._changed:
            self._awaited = self._records if than is None else than
            if self._records >= self._awaited > 0:
                self._changed.wait(timeout_s)
            self._awaited = 0

    def wake(self) -> None:
        """Ends every wait now."""
        with self._changed:
            self._changed.notify_all()
