"""What a SQLite log may forget: read records after their time, and unread ones only of a group that is abandoned.

A record is deleted when every group has read it and it is older than `keep_s`. When the log outgrows `max_bytes`, the
oldest records go as well, but none that a live group has still to read: a group lives while it holds its lease and for
`abandoned_after_s` after that. What an abandoned group loses is counted. A log that no group has ever read keeps
everything up to `max_bytes`, and then the newest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tracejudge_sdk.transports.sqlite_log import LogReader, SqliteLog

_CHUNK: Final = 1_000  # records between two looks at the size
_SPARE: Final = 0.9  # deleted down to this share, so that the next record does not begin it anew


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long and how much a log keeps. Times in seconds."""

    keep_s: float = 7 * 86_400.0
    max_bytes: int = 10_000_000_000
    abandoned_after_s: float = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Retained:
    """What one round deleted. `unread`: by abandoned group, records that it had still to read; "" stands for a log that
    nobody reads. `too_large`: over its bound, with a live group to wait for."""

    deleted: int = 0
    unread: Mapping[str, int] = field(default_factory=dict)
    too_large: bool = False


def retain(log: SqliteLog, policy: Retention, *, now_s: float, most_records: int = 20_000) -> Retained:
    """Deletes what may go, at most about `most_records` at once and in short transactions.

    Raises TransportUnavailable. Safe in several processes at once.
    """
    readers = log.readers()
    begin = log.begin_offset()
    deleted = 0
    if readers:
        read_by_all = min(reader.next_offset for reader in readers)
        old = _first_younger(log, begin, read_by_all, int((now_s - policy.keep_s) * 1000))
        deleted += log.delete_before(min(old, begin + most_records))
    if log.size_bytes() <= policy.max_bytes:
        return Retained(deleted=deleted)
    bound = log.end_offset()
    for reader in readers:
        if _lives(reader, policy, now_s):
            bound = min(bound, reader.next_offset)
    first = offset = log.begin_offset()
    while offset < min(bound, first + most_records) and log.size_bytes() > _SPARE * policy.max_bytes:
        offset = min(bound, offset + _CHUNK)
        deleted += log.delete_before(offset)
    unread = {reader.group: lost for reader in readers if (lost := offset - max(first, reader.next_offset)) > 0}
    if not readers and offset > first:
        unread[""] = offset - first
    return Retained(deleted=deleted, unread=unread, too_large=log.size_bytes() > policy.max_bytes and offset >= bound)


def _lives(reader: LogReader, policy: Retention, now_s: float) -> bool:
    return now_s * 1000 - reader.seen_ms < policy.abandoned_after_s * 1000


def _first_younger(log: SqliteLog, low: int, high: int, instant_ms: int) -> int:
    """The first offset of [low, high] whose record is of that instant or later, or `high`.

    By halves, since times grow with offsets, about: a look at every record would read the whole file.
    """
    while low < high:
        middle = (low + high) // 2
        timestamp_ms = log.timestamp_at(middle)
        if timestamp_ms is None or timestamp_ms >= instant_ms:
            high = middle
        else:
            low = middle + 1
    return low
