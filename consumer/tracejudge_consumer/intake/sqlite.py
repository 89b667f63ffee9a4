"""The SQLite log as an intake: one partition, read by whoever holds the group's lease.

The lease is renewed on `poll`, at a third of its time; a reader that was stopped for longer looks again before it reads
on. A reader without the lease waits politely and takes over when the holder has released it, or has been silent for the
lease's time (it was killed). The holder also deletes what the log need not keep any longer.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Collection, Mapping
from typing import Final

from tracejudge.clock import Clock, SystemClock
from tracejudge_consumer.intake import PartitionKey, PartitionListener, RawRecord
from tracejudge_consumer.intake.ownership import ThreadOwnership
from tracejudge_sdk.errors import LeaseLost, TransportUnavailable
from tracejudge_sdk.transports.sqlite_log import SqliteLog
from tracejudge_sdk.transports.sqlite_retention import Retention, retain

_LOG = logging.getLogger(__name__)
_RETAIN_EVERY_S: Final = 60.0
_LOOK_AGAIN_S: Final = 0.05  # SQLite tells nobody that something was appended


def _sleep(seconds: float) -> None:
    threading.Event().wait(seconds)


class SqliteIntake:
    """Reads a SQLite log for `group`. Used by one thread; closing it closes the log."""

    def __init__(
        self,
        log: SqliteLog,
        *,
        group: str,
        owner: str | None = None,
        lease_ttl_s: float = 10.0,
        max_poll_bytes: int = 8_000_000,
        retention: Retention | None = None,
        deleted_unread: Callable[[str, int], None] = lambda _group, _records: None,
        clock: Clock | None = None,
        wait: Callable[[float], object] = _sleep,
    ) -> None:
        """`lease_ttl_s`: how long after a kill another reader takes over; `wait` passes that many seconds.

        `deleted_unread` is told how many records were deleted that a group, ours or an abandoned one, had not read.
        """
        self.source = f"sqlite:{log.path.name}"
        self._log = log
        self._group = group
        self._owner = owner or uuid.uuid4().hex
        self._ttl_s = lease_ttl_s
        self._max_poll_bytes = max_poll_bytes
        self._retention = retention or Retention()
        self._deleted_unread = deleted_unread
        self._retained_at: float | None = None
        self._clock = clock or SystemClock()
        self._wait = wait
        self._key = PartitionKey(self.source, 0)
        self._thread = ThreadOwnership("SqliteIntake")
        self._listener: PartitionListener | None = None
        self._renewed: float | None = None  # monotonic; None while the lease is not ours
        self._position = 0
        self._paused = False
        self._refused = 0
        self._failing = False
        self._closed = False

    def listen(self, listener: PartitionListener) -> None:
        self._listener = listener

    def poll(self, *, timeout_s: float, max_records: int) -> list[RawRecord]:
        self._thread.check()
        deadline = self._clock.monotonic() + timeout_s
        while True:
            records = self._read(max_records)
            left_s = deadline - self._clock.monotonic()
            if records or left_s <= 0:
                return records
            self._wait(min(left_s, _LOOK_AGAIN_S))

    def commit(self, offsets: Mapping[PartitionKey, int]) -> bool:
        self._thread.check()
        next_offset = offsets.get(self._key)
        if next_offset is None:
            return True
        try:
            self._log.commit(self._group, next_offset, self._owner)
        except (LeaseLost, ValueError) as error:
            # ValueError: the log ends below the offset, so it is not the log that was read.
            self._refused += 1
            self._lose(str(error))
            return False
        except TransportUnavailable as error:
            self._complain(error)
            return False
        return True

    @property
    def refused_commits(self) -> int:
        return self._refused

    def pause(self, partitions: Collection[PartitionKey]) -> None:
        self._paused = self._paused or self._key in partitions

    def resume(self, partitions: Collection[PartitionKey]) -> None:
        self._paused = self._paused and self._key not in partitions

    def paused(self) -> frozenset[PartitionKey]:
        return self.assignment() if self._paused else frozenset()

    def assignment(self) -> frozenset[PartitionKey]:
        return frozenset() if self._renewed is None else frozenset([self._key])

    def positions(self) -> dict[PartitionKey, int]:
        return {} if self._renewed is None else {self._key: self._position}

    def lag(self) -> dict[PartitionKey, int | None]:
        self._thread.check()
        if self._renewed is None:
            return {}
        if self._failing:  # that its end can still be looked up says nothing: records do not come
            return {self._key: None}
        try:
            return {self._key: self._log.end_offset() - max(self._position, self._log.begin_offset())}
        except TransportUnavailable as error:
            self._complain(error)
            return {self._key: None}

    def close(self) -> None:
        self._thread.check()
        if self._closed:
            return
        self._closed = True
        if self._renewed is not None:
            offsets = {} if self._listener is None else self._listener.revoked([self._key])
            if offsets:
                self.commit(offsets)
            self._renewed = None
            try:
                self._log.release(self._group, self._owner)
            except TransportUnavailable as error:
                _LOG.warning("lease of group %r not given back, it runs out by itself: %s", self._group, error)
        self._log.close()

    def _read(self, max_records: int) -> list[RawRecord]:
        try:
            if not self._hold_lease():
                return []
            self._retain()
            if self._paused:
                return []
            found = self._log.read(from_offset=self._position, max_records=max_records, max_bytes=self._max_poll_bytes)
        except TransportUnavailable as error:
            self._complain(error)
            return []
        self._failing = False
        if found:
            self._position = found[-1].offset + 1
        return [
            RawRecord(
                source=self.source,
                partition=0,
                offset=one.offset,
                key=one.key,
                value=one.value,
                headers=one.headers,
                timestamp_ms=one.timestamp_ms,
            )
            for one in found
        ]

    def _hold_lease(self) -> bool:
        now = self._clock.monotonic()
        if self._renewed is None:
            if not self._log.acquire(self._group, self._owner, self._ttl_s):
                return False
            committed, begin = self._log.committed(self._group), self._log.begin_offset()
            self._position = begin if committed is None else committed
            if self._position < begin:
                self._miss(begin)
            self._renewed = now
            _LOG.info("group %r reads %s from offset %d", self._group, self.source, self._position)
        elif now - self._renewed >= self._ttl_s / 3:
            if not self._log.renew(self._group, self._owner, self._ttl_s):
                self._lose("the lease ran out and was taken by another reader")
                return False
            if self._log.end_offset() < self._position:
                self._lose("the log was replaced by a shorter one")
                return False
            self._renewed = now
        return True

    def _miss(self, begin: int) -> None:
        """Records that this group had still to read are gone: it was away for so long that the log did without it."""
        missed, self._position = begin - self._position, begin
        _LOG.error(
            "group %r: %d records of %s were deleted before it read them; it was taken for abandoned, and the log was "
            "full (queue_max_bytes)",
            self._group,
            missed,
            self.source,
        )
        self._deleted_unread(self._group, missed)

    def _retain(self) -> None:
        """Deletes what need not be kept. Between polls, in short transactions; records of ours are read by us first."""
        now = self._clock.monotonic()
        if self._retained_at is not None and now - self._retained_at < _RETAIN_EVERY_S:
            return
        self._retained_at = now
        done = retain(self._log, self._retention, now_s=self._clock.now().timestamp())
        for group, count in done.unread.items():
            _LOG.warning("%s: %d records deleted unread by group %r, which is abandoned", self.source, count, group)
            self._deleted_unread(group, count)
        if done.too_large:
            _LOG.warning(
                "%s is larger than queue_max_bytes, %d, and waits for its readers",
                self.source,
                self._retention.max_bytes,
            )

    def _lose(self, why: str) -> None:
        if self._renewed is not None:
            self._renewed = None
            _LOG.warning("group %r lost %s: %s; what was not committed is read again", self._group, self.source, why)
            if self._listener is not None:
                self._listener.lost([self._key])

    def _complain(self, error: TransportUnavailable) -> None:
        if not self._failing:
            self._failing = True
            _LOG.warning("waiting for the queue: %s", error)
