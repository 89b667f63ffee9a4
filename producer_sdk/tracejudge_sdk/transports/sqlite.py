"""The SQLite log as a transport: durable once `send` returned, on this machine, with no service."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Literal

from tracejudge_sdk.codec import DEFAULT_MAX_RECORD_BYTES
from tracejudge_sdk.transports.sqlite_log import SqliteLog


class SqliteTransport:
    """Appends each batch in one transaction."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        synchronous: Literal["NORMAL", "FULL"] = "NORMAL",
        busy_timeout_s: float = 10.0,
        max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.max_record_bytes = max_record_bytes
        self._now = now
        self._log = SqliteLog(path, synchronous=synchronous, busy_timeout_s=busy_timeout_s, now=now)

    def send(self, records: Sequence[tuple[str, bytes]]) -> None:
        if records:
            timestamp_ms = int(self._now() * 1000)
            self._log.append([(key.encode("utf-8", "replace"), value, (), timestamp_ms) for key, value in records])

    def close(self, timeout_s: float) -> None:
        self._log.close(timeout_s)
