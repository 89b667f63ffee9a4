"""Which offset may be committed when work finishes out of order.

A commit is one number per partition and says "everything below is done". So what may be committed is the end of the
contiguous finished prefix of what was started; whatever is finished beyond it waits, and is delivered again after a
crash. Offsets may have holes (compaction, transaction markers, aborted records): contiguous means in the order of what
was started, not in arithmetic.
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
        """The partition was taken away: work that has not begun may be dropped, its new owner does it."""
        self._open: deque[int] = deque()  # started, in order, from the first unfinished one on
        self._unfinished: set[int] = set()
        self._end = -1  # one past the last started offset, or the position beyond it

    def start(self, offset: int) -> None:
        """A record was taken on. Raises ValueError when `offset` is not above all that came before."""
        if offset < 0 or offset < self._end:
            raise ValueError(f"offset {offset} of {self.partition} is not above {self._end - 1}, the last one started")
        self._open.append(offset)
        self._unfinished.add(offset)
        self._end = offset + 1

    def finish(self, offset: int) -> None:
        """All work on it is stored. Raises ValueError when it is not an unfinished started offset."""
        if offset not in self._unfinished:
            raise ValueError(f"offset {offset} of {self.partition} was not started, or is finished already")
        self._unfinished.remove(offset)
        while self._open and self._open[0] not in self._unfinished:
            self._open.popleft()

    def advance(self, position: int) -> None:
        """Nothing below `position` is still to come: lets the end move over a hole that no record follows."""
        self._end = max(self._end, position)

    def committable(self) -> int | None:
        """The offset of the next record to read after a crash; None when nothing is known yet."""
        if self._open:
            return self._open[0]
        return self._end if self._end >= 0 else None

    @property
    def gap(self) -> int:
        """How many started records lie at or beyond the first unfinished one: what a crash would repeat."""
        return len(self._open)

    @property
    def unfinished(self) -> int:
        return len(self._unfinished)


class OffsetBook:
    """The trackers of all partitions at hand. Thread-safe: the queue's client revokes from a thread of its own."""

    def __init__(self, *, max_gap: int) -> None:
        """`max_gap`: from this many records at or beyond the first unfinished one, a partition is `full`."""
        if max_gap < 1:
            raise ValueError(f"max_gap: {max_gap!r} is below 1")
        self._max_gap = max_gap
        self._trackers: dict[PartitionKey, OffsetTracker] = {}
        self._committed: dict[PartitionKey, int] = {}
        self._lock = threading.RLock()

    def start(self, partition: PartitionKey, offset: int) -> OffsetTracker:
        """Takes a record on; gives the tracker by which its work is finished later.

        An offset that is not above the last one means that the partition begins anew (the topic was made again): the
        former tracker is forgotten, so that its work cannot be taken for that of the new records.
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
            self._committed[partition] = offset  # nothing new to say before something is finished
            return tracker

    def finish(self, tracker: OffsetTracker, offsets: Iterable[int]) -> None:
        """The work on these offsets is stored. Without effect once the partition was taken away."""
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
        """What there is to commit, of these partitions or of all: only what moved since the last accepted commit."""
        with self._lock:
            found: dict[PartitionKey, int] = {}
            for partition in self._trackers if partitions is None else partitions:
                tracker = self._trackers.get(partition)
                offset = None if tracker is None else tracker.committable()
                if offset is not None and offset != self._committed[partition]:
                    found[partition] = offset
            return found

    def committed(self, offsets: Mapping[PartitionKey, int]) -> None:
        """The queue accepted these."""
        with self._lock:
            for partition, offset in offsets.items():
                if partition in self._trackers:
                    self._committed[partition] = offset

    def full(self) -> frozenset[PartitionKey]:
        """The partitions of which no more may be taken on before an earlier record is finished."""
        with self._lock:
            return frozenset(key for key, tracker in self._trackers.items() if tracker.gap >= self._max_gap)

    def forget(self, partitions: Iterable[PartitionKey]) -> None:
        """These were taken away: work on them that ends from now on changes nothing here."""
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
        """What a crash would repeat, over all partitions (see `OffsetTracker.gap`)."""
        with self._lock:
            return sum(tracker.gap for tracker in self._trackers.values())
