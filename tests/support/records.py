"""Records in a SQLite log, for tests of whoever reads them."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

from tracejudge_consumer.intake.sqlite import SqliteIntake
from tracejudge_sdk.codec import encode
from tracejudge_sdk.trace import Record
from tracejudge_sdk.transports.sqlite_log import SqliteLog

GROUP = "tests"


def append(path: Path, records: Iterable[Record | bytes]) -> range:
    """Appends records (bytes as they are) to the log at `path`; gives their offsets."""
    now_ms = int(time.time() * 1000)  # as a service would: what is long past may be deleted once it is read
    rows = [
        (None, record, (), now_ms)
        if isinstance(record, bytes)
        else (record.trace_id.encode(), encode(record), (), now_ms)
        for record in records
    ]
    log = SqliteLog(path)
    try:
        return log.append(rows)
    finally:
        log.close()


def committed(path: Path, group: str = GROUP) -> int | None:
    """What the group has committed."""
    log = SqliteLog(path)
    try:
        return log.committed(group)
    finally:
        log.close()


def intake(path: Path, group: str = GROUP) -> SqliteIntake:
    """A reader of the log at `path`."""
    return SqliteIntake(SqliteLog(path), group=group)
