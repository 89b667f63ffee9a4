"""The C library's memory in a process whose threads hand texts to each other.

glibc gives each thread an arena of its own. What one thread reads and another is done with goes back to the arena of
the first, so that a reader goes on to memory that no cache holds, and pages are given back and taken anew. From one
arena the next text goes where the last one was. Threads of ours seldom allocate at once, as Python's lock is held.
"""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Final

_M_ARENA_MAX: Final = -8  # malloc.h of glibc
_OWN_CHOICE: Final = "MALLOC_ARENA_MAX"


def share_one_arena() -> bool:
    """Makes all threads started from now on allocate from one malloc arena. False, with nothing changed, where the C
    library has no arenas, and where MALLOC_ARENA_MAX is set, which is the user's own choice."""
    if not sys.platform.startswith("linux") or os.environ.get(_OWN_CHOICE):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none
    return mallopt is not None and bool(mallopt(_M_ARENA_MAX, 1))
