"""The spool: a folder on disk where traces wait that the queue has not taken yet.

Every process writes a file of its own in the folder (`spool_file`); what a process left behind when it ended is drained
by the next one that looks, oldest first and before its own. A record is on disk before it is sent and deleted after it
was acknowledged, so that it outlives the process, and may be sent twice when that dies in between.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tracejudge_sdk.delivery import Ready
from tracejudge_sdk.errors import ConfigError, LogDamaged, SpoolFull, TraceJudgeSdkError
from tracejudge_sdk.notices import warn
from tracejudge_sdk.spool_file import SUFFIX, SpoolFile, disk_bytes

_ROW_BYTES: Final = 100  # what a record costs on disk beside its key and value
_RENEW_BYTES: Final = 4_000_000  # an empty file above this size gives its disk space back
_LOOK_AROUND_S: Final = 1.0
_LEFT_ALONE_S: Final = 600.0
"""How long a file that could not be read is left alone: what was in the way (no descriptor, a full disk, a lock) may
pass, and damage must not hold up what waits behind it."""


class SpoolBatch(NamedTuple):
    """Records that wait in `file`, in the order they were logged; `item` of each is its offset."""

    file: SpoolFile
    records: list[Ready]
    own: bool
    """Whether this process logged them."""
    generation: int


class Spool:
    """The folder as this process sees it. One thread appends, another one drains."""

    def __init__(self, folder: Path, *, max_bytes: int) -> None:
        # Absolute: a process may change its directory.
        self.folder = folder.absolute()
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._own: SpoolFile | None = None
        self._adopted: SpoolFile | None = None
        self._left_alone: dict[Path, float] = {}  # until when
        self._lost = 0  # our own records that are gone, and not counted yet
        self._held = self._count = 0  # bytes and number of the records in our own file
        self._others = 0  # bytes on disk of all other files, looked at once in a while
        self._look_again = 0.0

    # -- the thread that appends -----------------------------------------------------------------------------------

    def append(self, records: Sequence[Ready], *, on_disk: Callable[[Sequence[Ready]], None]) -> None:
        """Puts the records on disk, all or none, and calls `on_disk` with them before anybody can read them.

        Raises SpoolFull when the folder holds as much as it may, TransportUnavailable or OSError when the disk does
        not take them.
        """
        size = sum(map(_bytes_of, records))
        now_ms = time.time_ns() // 1_000_000
        with self._lock:
            held = self._held + self._bytes_of_others()
            if held + size > self._max_bytes:
                raise SpoolFull(
                    f"spool {str(self.folder)!r}: holds {held} of {self._max_bytes} bytes: "
                    "bring the queue back, or raise spool_max_bytes"
                )
            if self._own is None:
                self._own = SpoolFile.create(self.folder)
            self._own.append([(r.key.encode("utf-8", "replace"), r.data, (), now_ms) for r in records])
            self._held += size
            self._count += len(records)
            on_disk(records)

    # -- the thread that drains ------------------------------------------------------------------------------------

    def read(self, *, max_records: int, max_bytes: int) -> SpoolBatch | None:
        """The oldest records that wait: first those of a file that was adopted, then our own; None when none do."""
        with self._lock:
            for file in (self._adopted, self._own):
                if file is None:
                    continue
                try:
                    rows = file.read(max_records=max_records, max_bytes=max_bytes)
                except (TraceJudgeSdkError, OSError) as error:
                    if file is self._own:
                        if not isinstance(error, (LogDamaged, ConfigError)):
                            raise
                        self._own = None
                        self._lost += self._count
                        self._held = self._count = 0
                    else:
                        self._adopted = None
                    file.release(0.0)
                    self._leave_alone(file.path, error)
                    continue
                if rows:
                    records = [Ready(row.offset, (row.key or b"").decode(), row.value) for row in rows]
                    return SpoolBatch(file, records, own=file is self._own, generation=file.generation)
                if file is self._adopted:
                    file.remove()
                    self._adopted = None
        return None

    def done(self, batch: SpoolBatch, left: Sequence[Ready]) -> None:
        """Deletes what was sent of a batch; `left` are its records that have still to be sent."""
        kept = left[0].item if left else batch.records[-1].item + 1
        finished = [record for record in batch.records if record.item < kept]
        with self._lock:
            if batch.file is self._own:
                self._held -= sum(map(_bytes_of, finished))
                self._count -= len(finished)
            if batch.generation == batch.file.generation:  # else other records stand at these offsets now
                batch.file.done_before(kept)
            if batch.file is self._own and self._count == 0 and batch.file.disk_bytes() > _RENEW_BYTES:
                batch.file.renew()

    def vanished(self) -> int:
        """How many of our own records were lost since this was last asked: deleted by somebody together with their
        file, or in a file that was damaged."""
        with self._lock:
            if self._own is not None and self._count > 0 and (found := self._own.count()) < self._count:
                self._held = self._held * found // self._count
                self._lost += self._count - found
                self._count = found
            lost, self._lost = self._lost, 0
            return lost

    def adopt(self) -> bool:
        """Takes over the oldest file whose process has ended; False when there is none, or one is drained already."""
        with self._lock:
            if self._adopted is not None:
                return False
            own = None if self._own is None else self._own.path
            # The names begin with the time they were made.
            for path in sorted(self.folder.glob(f"*{SUFFIX}")):
                if path == own or time.monotonic() < self._left_alone.get(path, 0.0):
                    continue
                try:
                    self._adopted = SpoolFile.adopt(path)
                except (TraceJudgeSdkError, OSError) as error:
                    self._leave_alone(path, error)
                if self._adopted is not None:
                    return True
        return False

    # -- the end ---------------------------------------------------------------------------------------------------

    def close(self, timeout_s: float) -> None:
        """Lets go of the files: what is empty is deleted, the rest is for the next process. May be called twice."""
        if not self._lock.acquire(timeout=max(0.0, timeout_s)):
            return  # the end of the process lets go of the lock too
        try:
            own, self._own = self._own, None
            adopted, self._adopted = self._adopted, None
            if own is not None:
                if self._count == 0:
                    own.remove()
                else:
                    own.release(timeout_s)
            if adopted is not None:
                adopted.release(timeout_s)
        finally:
            self._lock.release()

    def forget(self) -> None:
        """For a forked child: the files and what waits in them are the parent's."""
        for file in (self._own, self._adopted):
            if file is not None:
                file.forget()

    def _leave_alone(self, path: Path, error: Exception) -> None:
        self._left_alone[path] = time.monotonic() + _LEFT_ALONE_S
        warn("tracejudge: a file of the spool cannot be read and is left alone for a while: %s", error)

    def _bytes_of_others(self) -> int:
        now = time.monotonic()
        if now >= self._look_again:
            self._look_again = now + _LOOK_AROUND_S
            own = None if self._own is None else self._own.path
            self._others = sum(disk_bytes(path) for path in self.folder.glob(f"*{SUFFIX}") if path != own)
        return self._others


def _bytes_of(record: Ready) -> int:
    return len(record.key) + len(record.data) + _ROW_BYTES
