"""Random hexadecimal digits, drawn from the system a few hundred at a time.

A call to the system for each marker and each id costs more than all else that goes into a request. A forked process
draws its own: what its parent had left over must not come twice.
"""

from __future__ import annotations

import os
import threading
from typing import Final

_DRAWN_BYTES: Final = 4_096


class _Pool:
    def __init__(self) -> None:
        self._digits = ""
        self._at = 0
        self._lock = threading.Lock()

    def take(self, count: int) -> str:
        with self._lock:
            end = self._at + count
            if end > len(self._digits):
                self._digits, self._at, end = os.urandom(_DRAWN_BYTES).hex(), 0, count
            taken = self._digits[self._at : end]
            self._at = end
            return taken


_pool = _Pool()


def _renew() -> None:
    global _pool
    _pool = _Pool()


os.register_at_fork(after_in_child=_renew)


def hex_digits(count: int) -> str:
    """`count` random digits (at most 8 192), unpredictable, each used once."""
    return _pool.take(count)
