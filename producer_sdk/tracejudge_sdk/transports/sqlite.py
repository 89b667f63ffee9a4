"""The SQLite log as a transport: durable once `send` returned, on this machine, with no service."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Final, Literal

from tracejudge_sdk.codec import DEFAULT_MAX_RECORD_BYTES
from tracejudge_sdk.errors import TransportUnavailable
from tracejudge_sdk.notices import debug, warn
from tracejudge_sdk.transports.sqlite_log import SqliteLog
from tracejudge_sdk.transports.sqlite_retention import Retention, retain

_LOOK_EVERY: Final = 1_000  # records between two looks at what may be deleted


class SqliteTransport:
    """Appends each batch in one transaction."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        synchronous: Literal["NORMAL", "FULL"] = "NORMAL",
        busy_timeout_s: float = 10.0,
        max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
        retention: Retention | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        """`retention` bounds the file also where nobody reads it; the default is that of Retention."""
        self.max_record_bytes = max_record_bytes
        self._now = now
        self._retention = retention or Retention()
        self._since_look = 0
        self._log = SqliteLog(path, synchronous=synchronous, busy_timeout_s=busy_timeout_s, now=now)

    def send(self, records: Sequence[tuple[str, bytes]]) -> None:
        if records:
            timestamp_ms = int(self._now() * 1000)
            self._log.append([(key.encode("utf-8", "replace"), value, (), timestamp_ms) for key, value in records])
            self._since_look += len(records)
            if self._since_look >= _LOOK_EVERY:
                self._since_look = 0
                try:
                    self._retain()
                except TransportUnavailable as error:
                    # The records are in the log: a failure told here would have them sent a second time.
                    debug("SQLite log %s: nothing deleted this time: %s", self._log.path, error)

    def _retain(self) -> None:
        done = retain(self._log, self._retention, now_s=self._now())
        for group, count in done.unread.items():
            who = f"group {group!r}, which is abandoned," if group else "anybody"
            warn("SQLite log %s: %d records deleted before %s had read them", self._log.path, count, who)

    def close(self, timeout_s: float) -> None:
        self._log.close(timeout_s)
