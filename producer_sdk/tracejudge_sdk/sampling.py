"""The one hash that decides which traces are kept.

The decision is a pure function of the trace id, so every process, every replay and every language decides alike, and
raising a probability only ever adds traces. Two salts keep the SDK's choice (head) independent of the consumer's
(tail): with one salt, .1 of .1 would be .1 again instead of .01.
"""

from __future__ import annotations

import hashlib
from typing import Final

HEAD_SALT: Final = "tracejudge/head/1"
TAIL_SALT: Final = "tracejudge/tail/1"

_TWO_TO_64: Final = 2**64


def position(trace_id: str, salt: str) -> int:
    """Where the trace stands on [0, 2**64): the first 8 bytes, big-endian, of SHA-256(salt, a zero byte, trace id)."""
    digest = hashlib.sha256(salt.encode() + b"\x00" + trace_id.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big")


def keep(trace_id: str, probability: float, salt: str) -> bool:
    """True when the trace belongs to the kept share. 0 keeps none and 1 keeps all, exactly.

    Raises ValueError when `probability` is not in [0, 1].
    """
    if not 0.0 <= probability <= 1.0:
        raise ValueError(f"probability: {probability!r} is not in [0, 1]")
    if probability == 1.0:
        return True
    # Both sides are integers: a float position would round up to 1.0 and be lost at probability 1.
    return position(trace_id, salt) < int(probability * _TWO_TO_64)
