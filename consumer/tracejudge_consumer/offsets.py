"""Which offset may be committed when work finishes out of order.

A commit is one number per partition and says "everything below is done". So the end of the contiguous finished prefix
may be committed; what is finished beyond it is delivered again after a crash. Offsets may have holes (compaction,
transaction markers, aborted records): contiguous means without a gap in the order of started records, not in numbers.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Mapping

from tracejudge_consumer.intake import PartitionKey


class OffsetTracker:
    """The started and finished offsets of one partition during one assignment. Not thread-safe by itself."""

    __slots__ = ("_end", "_open", "_unfinished", "forgotten", "partition")

    def __init__(self, partition: PartitionKey) -> None:
        self.partition = partition
        self.forgotten = False
        """Whether the partition was revoked: work that has not begun may then be dropped, its new owner does it."""
        self._open: deque[int] = deque()  # started offsets in order, from the first unfinished one on
        self._unfinished: set[int] = set()
        self._end = -1  # one past the last started offset, or the position beyond it

    def start(self, offset: int) -> None:
        """Starts work on a record. Raises ValueError when `offset` is not above all that were started before."""
        if offset < 0 or offset < self._end:
            raise ValueError(f"offset {offset} of {self.partition} is not above {self._end - 1}, the last one started")
        self._open.append(offset)
        self._unfinished.add(offset)
        self._end = offset + 1

    def finish(self, offset: int) -> None:
        """Ends work on a record: all of it is stored. Raises ValueError unless the offset is started and unfinished."""
        if offset not in self._unfinished:
            raise ValueError(f"offset {offset} of {self.partition} was not started, or is finished already")
        self._unfinished.remove(offset)
        while self._open and self._open[0] not in self._unfinished:
            self._open.popleft()

    def advance(self, position: int) -> None:
        """Says that no record below `position` is still to come, so that a hole at the end can be committed."""
        self._end = max(self._end, position)

    def committable(self) -> int | None:
        """The offset of the next record to read after a crash; None when nothing is known yet."""
        if self._open:
            return self._open[0]
        return self._end if self._end >= 0 else None

    @property
    def gap(self) -> int:
        """Number of started records from the first unfinished one on: what a crash would repeat."""
        return len(self._open)

    @property
    def unfinished(self) -> int:
        return len(self._unfinished)


class OffsetBook:
    """The trackers of all assigned partitions. Thread-safe: the queue's client revokes from a thread of its own."""

    def __init__(self, *, max_gap: int) -> None:
        """`max_gap`: the gap (`OffsetTracker.gap`) from which on a partition is `full`."""
        if max_gap < 1:
            raise ValueError(f"max_gap: {max_gap!r} is below 1")
        self._max_gap = max_gap
        self._trackers: dict[PartitionKey, OffsetTracker] = {}
        self._committed: dict[PartitionKey, int] = {}
        self._lock = threading.RLock()

    def start(self, partition: PartitionKey, offset: int) -> OffsetTracker:
        """Starts work on a record; returns the tracker with which it is finished later.

        An offset that is not above the last one means that the partition begins anew (the topic was recreated): the
        former tracker is forgotten, so that its work is not mistaken for that of the new records.
        """
        with self._lock:
            tracker = self._trackers.get(partition)
            if tracker is not None:
                try:
                    tracker.start(offset)
                except ValueError:
                    self.forget([partition])
                else:
                    return tracker
            tracker = self._trackers[partition] = OffsetTracker(partition)
            tracker.start(offset)
            self._committed[partition] = offset  # nothing to commit before a record is finished
            return tracker

    def finish(self, tracker: OffsetTracker, offsets: Iterable[int]) -> None:
        """Ends work on these offsets of the tracker's partition. Without effect once that was revoked."""
        with self._lock:
            if not tracker.forgotten:
                for offset in offsets:
                    tracker.finish(offset)

    def advance(self, positions: Mapping[PartitionKey, int]) -> None:
        """Tells the trackers how far the queue has been read (see `OffsetTracker.advance`)."""
        with self._lock:
            for partition, position in positions.items():
                if partition in self._trackers:
                    self._trackers[partition].advance(position)

    def committable(self, partitions: Iterable[PartitionKey] | None = None) -> dict[PartitionKey, int]:
        """The offsets to commit, of these partitions or of all: those that moved since the last accepted commit."""
        with self._lock:
            found: dict[PartitionKey, int] = {}
            for partition in self._trackers if partitions is None else partitions:
                tracker = self._trackers.get(partition)
                offset = None if tracker is None else tracker.committable()
                if offset is not None and offset != self._committed[partition]:
                    found[partition] = offset
            return found

    def committed(self, offsets: Mapping[PartitionKey, int]) -> None:
        """Notes that the queue accepted a commit of these offsets."""
        with self._lock:
            for partition, offset in offsets.items():
                if partition in self._trackers:
                    self._committed[partition] = offset

    def full(self) -> frozenset[PartitionKey]:
        """The partitions from which no more may be polled before an earlier record is finished."""
        with self._lock:
            return frozenset(key for key, tracker in self._trackers.items() if tracker.gap >= self._max_gap)

    def forget(self, partitions: Iterable[PartitionKey]) -> None:
        """Drops partitions that were revoked: work on them that ends from now on has no effect here."""
        with self._lock:
            for partition in partitions:
                tracker = self._trackers.pop(partition, None)
                self._committed.pop(partition, None)
                if tracker is not None:
                    tracker.forgotten = True

    @property
    def unfinished(self) -> int:
        with self._lock:
            return sum(tracker.unfinished for tracker in self._trackers.values())

    @property
    def gap(self) -> int:
        """Number of records that a crash would repeat, over all partitions (see `OffsetTracker.gap`)."""
        with self._lock:
            return sum(tracker.gap for tracker in self._trackers.values())
