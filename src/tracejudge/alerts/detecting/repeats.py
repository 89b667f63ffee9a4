"""Which contents a series has seen in which hour: the same answer to the same question is one observation.

A judge says the same of the same content (mostly from the cache, for nothing), so a question that a hundred users ask
within the hour is no hundredfold evidence. The first of its rows is the observation; the others add their weight to the
rates and none to the evidence.
"""

from __future__ import annotations

import base64
import hashlib
import struct
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

MAX_CONTENTS: Final = 1024
"""16 kB. Beyond it the oldest hours are forgotten, then nothing more is remembered in the running one."""

_HOURS_KEPT: Final = 3
_ROW: Final = struct.Struct("<Qd")


class Repeats:
    """The weight folded so far of each content, by the hour (UTC) in which it was served."""

    __slots__ = ("_by_hour", "_count")

    def __init__(self) -> None:
        self._by_hour: dict[int, dict[int, float]] = {}
        self._count = 0

    def before(self, content_hash: str, at: datetime, weight: float) -> float | None:
        """The weight that this content had before in the hour of `at`; None when it is new, or its hour is forgotten.

        Rows without a hash are always new. The row is remembered.
        """
        if not content_hash:
            return None
        hour, key = int(at.timestamp()) // 3600, _hash(content_hash)
        contents = self._by_hour.get(hour)
        if contents is None:
            contents = self._by_hour[hour] = {}
            for old in sorted(self._by_hour)[:-_HOURS_KEPT]:
                self._count -= len(self._by_hour.pop(old))
        earlier = contents.get(key)
        if earlier is not None:
            contents[key] = earlier + weight
            return earlier
        while self._count >= MAX_CONTENTS and len(self._by_hour) > 1:
            self._count -= len(self._by_hour.pop(min(self._by_hour)))
        if hour in self._by_hour and self._count < MAX_CONTENTS:
            contents[key] = weight
            self._count += 1
        return None

    def to_state(self) -> dict[str, str]:
        """JSON values; `from_state` continues exactly."""
        return {
            str(hour): base64.b64encode(b"".join(_ROW.pack(*item) for item in contents.items())).decode()
            for hour, contents in sorted(self._by_hour.items())
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Repeats:
        repeats = cls()
        for hour, packed in state.items():
            contents = dict(_ROW.iter_unpack(base64.b64decode(packed)))
            repeats._by_hour[int(hour)] = contents
            repeats._count += len(contents)
        return repeats


def _hash(content_hash: str) -> int:
    digest = hashlib.blake2b(content_hash.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")
