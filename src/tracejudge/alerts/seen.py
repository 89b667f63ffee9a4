"""Remembers which rows near the cursor have been folded, so that rows that turn up behind the cursor are told apart.

A row's `judged_at` is when its judge answered, but it is stored later: with slow judges by some minutes, by which the
cursor has moved on. Such rows are found by reading again from behind the cursor; those remembered here are not folded
twice.
"""

from __future__ import annotations

import base64
import hashlib
import struct
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from typing import Any, Final

from tracejudge.scores import Score

MAX_ROWS: Final = 50_000
"""400 kB. Beyond it the oldest minutes are forgotten, and less of what is behind the cursor can be read again."""


class SeenRows:
    """Eight bytes of hash for each folded row of the last minutes, by the minute in which it was judged.

    An invalid verdict and the settled one that follows it are two rows; a settled verdict stored twice is one.
    """

    def __init__(self, *, max_rows: int = MAX_ROWS) -> None:
        self._max_rows = max_rows
        self._minute_of: dict[int, int] = {}
        self._by_minute: dict[int, list[int]] = {}
        self._floor = 0

    def add(self, score: Score) -> bool:
        """Remembers a row; False when it was remembered already."""
        key = _hash(score)
        if key in self._minute_of:
            return False
        minute = int(score.judged_at.timestamp()) // 60
        self._minute_of[key] = minute
        self._by_minute.setdefault(minute, []).append(key)
        while len(self._minute_of) > self._max_rows:
            self._forget(min(self._by_minute))
        return True

    def forget_before(self, at: datetime) -> None:
        """Forgets the minutes that end before `at`."""
        last = int(at.timestamp()) // 60
        for minute in [minute for minute in self._by_minute if minute < last]:
            self._forget(minute)
        self._floor = max(self._floor, last)

    def known_from(self, cursor: datetime, *, back: timedelta) -> datetime:
        """The instant from which on every folded row is remembered: `back` before `cursor`, or later."""
        floor = datetime.fromtimestamp(self._floor * 60, timezone.utc)
        return max(cursor - back, floor)

    def _forget(self, minute: int) -> None:
        for key in self._by_minute.pop(minute):
            del self._minute_of[key]
        self._floor = max(self._floor, minute + 1)

    def to_state(self) -> dict[str, Any]:
        """JSON values; `from_state` continues exactly."""
        minutes = {
            str(minute): base64.b64encode(struct.pack(f"<{len(keys)}Q", *keys)).decode()
            for minute, keys in sorted(self._by_minute.items())
        }
        return {"floor": self._floor, "minutes": minutes}

    @classmethod
    def from_state(cls, state: Mapping[str, Any], *, max_rows: int = MAX_ROWS) -> SeenRows:
        seen = cls(max_rows=max_rows)
        seen._floor = state["floor"]
        for text, packed in state["minutes"].items():
            data = base64.b64decode(packed)
            keys = list(struct.unpack(f"<{len(data) // 8}Q", data))
            seen._by_minute[int(text)] = keys
            seen._minute_of.update(dict.fromkeys(keys, int(text)))
        return seen


def _hash(score: Score) -> int:
    trace_id = score.trace_id
    place, verdict = _before(score.environment, score.app), _after(score.judge_id, score.outcome.settled)
    text = f"{place}{len(trace_id)}:{trace_id}{verdict}"
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


@lru_cache(maxsize=1024)
def _before(environment: str, app: str) -> str:
    return f"{len(environment)}:{environment}\x1f{len(app)}:{app}\x1f"


@lru_cache(maxsize=1024)
def _after(judge_id: str, settled: bool) -> str:
    return f"\x1f{len(judge_id)}:{judge_id}\x1f{len(str(settled))}:{settled}"
