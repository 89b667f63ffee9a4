"""One thread per intake: Kafka's consumer is not thread-safe and does not say so when two threads use it."""

from __future__ import annotations

import threading


class ThreadOwnership:
    """Belongs to the first thread that checks in; any other one is told off."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._owner: int | None = None

    def check(self) -> None:
        """Raises RuntimeError in a thread that is not the owner."""
        me = threading.get_ident()
        if self._owner is None:
            self._owner = me
        elif self._owner != me:
            raise RuntimeError(f"{self._what} is used by two threads; poll, commit and close it from one")
