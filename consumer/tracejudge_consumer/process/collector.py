"""The garbage collector in a process that works through a stream: it looks at what comes and goes, and at nothing else.

LlamaIndex, the store's driver and the settings are a few hundred thousand objects that live as long as the process. The
collector would walk over all of them again and again while traces come and go: measured, two fifths of the CPU of
judging. Frozen, they are passed over; everything made afterwards is collected as ever.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_NEW_OBJECTS: Final = 100_000
"""So many more containers than before start a collection, and each looks at all that is in flight. Python's 700 are
less than one batch of traces; nothing of ours makes cycles, so that what waits for a collection is little."""


@contextmanager
def settled_heap() -> Iterator[None]:
    """What exists now is out of the collector's sight until the context ends. Enter it when everything is built."""
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
