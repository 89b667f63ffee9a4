"""Ids of traces: UUIDv7, cheap enough for a request's own time and safe across forks.

The random part is made in advance, many at a time, by the sending thread where there is one. A forked child throws
away what was left, or parent and child would give the same ids in the same millisecond; threads that ask together each
take their own, because `list.pop` is one step.
"""

from __future__ import annotations

import os
import time
from typing import Final

_BYTES: Final = 10  # of entropy an id: 74 bits are used
_AT_ONCE: Final = 64
STOCK: Final = 512
"""How many random parts the sending thread keeps ready: more than a busy service logs between two of its looks."""

_TWO_TO_48: Final = 1 << 48
_VARIANT: Final = dict(zip("0123456789abcdef", "89ab" * 4, strict=True))
_ready: Final[list[str]] = []


def new_trace_id(time_ms: int | None = None) -> str:
    """A UUIDv7 as text: unique, and sorted by the time it was made (RFC 9562, section 5.7).

    `time_ms` is that time in milliseconds since 1970, by default now.
    """
    if not _ready:
        stock_up(_AT_ONCE)
    try:
        random = _ready.pop()
    except IndexError:  # other threads were quicker
        return new_trace_id(time_ms)
    # hex() of 2**48 and the time is "0x1" and its 12 digits: formatting a number by a rule takes several times as long.
    when = hex(_TWO_TO_48 | (time.time_ns() // 1_000_000 if time_ms is None else time_ms))
    return f"{when[3:11]}-{when[11:]}-7{random}"


def stock_up(count: int = STOCK) -> None:
    """Makes random parts until at least `count` are ready."""
    missing = count - len(_ready)
    if missing > 0:
        digits = os.urandom(missing * _BYTES).hex()
        drawn = [digits[start : start + 2 * _BYTES] for start in range(0, len(digits), 2 * _BYTES)]
        _ready.extend([f"{part[:3]}-{_VARIANT[part[3]]}{part[4:7]}-{part[7:19]}" for part in drawn])


if hasattr(os, "register_at_fork"):  # not on Windows, where there is no fork
    os.register_at_fork(after_in_child=_ready.clear)
