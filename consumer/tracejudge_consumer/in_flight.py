"""How much work is held at present, in records and bytes."""

from __future__ import annotations

import threading


class InFlight:
    """A count that two threads change; `wait_for_less` sleeps until some of it is gone."""

    def __init__(self) -> None:
        self._records = 0
        self._bytes = 0
        self._removed = 0
        self._changed = threading.Condition()

    @property
    def records(self) -> int:
        return self._records

    @property
    def size_bytes(self) -> int:
        return self._bytes

    @property
    def removed(self) -> int:
        """How many records have been removed in all."""
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
            self._changed.notify_all()

    def wait_for_less(self, timeout_s: float) -> None:
        """Returns when something was removed, at once when nothing is held, or after `timeout_s`."""
        with self._changed:
            if self._records:
                self._changed.wait(timeout_s)

    def wake(self) -> None:
        """Ends every wait now."""
        with self._changed:
            self._changed.notify_all()
