"""One file of the spool and the lock that says whose it is.

The lock is the operating system's, on a file beside it: it ends with the process, however that ends, and not with a
clock; a process that was merely frozen still holds it. So a file is drained by one process at a time, without leases.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tracejudge_sdk.ids import new_trace_id
from tracejudge_sdk.transports.sqlite_log import LogRecord, NewRecord, SqliteLog

SUFFIX: Final = ".spool"
_LOCK_SUFFIX: Final = ".lock"
_BESIDE: Final = ("-wal", "-shm")
_BUSY_TIMEOUT_S: Final = 2.0


class SpoolFile:
    """A SQLite log that this process alone writes and drains. Make one with `create` or `adopt`."""

    def __init__(self, path: Path, lock_fd: int) -> None:
        self.path = path
        self.next_offset = 0
        """The first record that still has to be sent; what stands before it may not be deleted yet."""
        self.generation = 0
        """Grows when somebody deleted the file and its offsets begin anew."""
        self._end = 0  # where the next append has to begin, in a file of our own
        self._lock_fd: int | None = lock_fd
        self._log = self._open()

    @classmethod
    def create(cls, folder: Path) -> SpoolFile:
        """A new file in `folder`, which is made when it is not there. Raises OSError or TransportUnavailable."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{new_trace_id()}{SUFFIX}"
        # The lock first: nobody may ever see the file without it.
        lock_fd = _locked(path)
        if lock_fd is None:
            raise OSError(f"spool: {path} is in use")
        try:
            return cls(path, lock_fd)
        except BaseException:  # Ctrl-C too: it goes on, but a lock left behind would hide the file for good
            os.close(lock_fd)
            _lock_path(path).unlink(missing_ok=True)
            raise

    @classmethod
    def adopt(cls, path: Path) -> SpoolFile | None:
        """A file whose process has ended; None while that one lives, or when another one was quicker."""
        lock_fd = _locked(path)
        if lock_fd is None:
            return None
        try:
            if path.exists():
                return cls(path, lock_fd)
        except BaseException:  # as above: the next process must be able to adopt it
            os.close(lock_fd)
            raise
        os.close(lock_fd)
        _lock_path(path).unlink(missing_ok=True)
        return None

    def append(self, records: Sequence[NewRecord]) -> None:
        """Appends all records or none; durable against the death of this process once it returned."""
        offsets = self._log.append(records)
        if offsets.start != self._end:
            self.generation += 1
            self.next_offset = 0
        self._end = offsets.stop

    def read(self, *, max_records: int, max_bytes: int) -> list[LogRecord]:
        """The oldest records that have to be sent."""
        return self._log.read(from_offset=self.next_offset, max_records=max_records, max_bytes=max_bytes)

    def done_before(self, offset: int) -> None:
        """Deletes the records before `offset`, which need not be sent again."""
        self.next_offset = offset
        self._log.delete_before(offset)

    def count(self) -> int:
        """How many records the file holds."""
        return self._log.end_offset() - self._log.begin_offset()

    def disk_bytes(self) -> int:
        """What it takes on the disk."""
        return disk_bytes(self.path)

    def renew(self) -> None:
        """Begins an empty file of the same name: SQLite never gives disk space back."""
        self._log.close()
        _unlink(self.path)
        self.next_offset = self._end = 0
        self._log = self._open()

    def remove(self) -> None:
        """Deletes the file and gives the lock up."""
        self._log.close()
        _unlink(self.path)
        _lock_path(self.path).unlink(missing_ok=True)
        self._unlock()

    def release(self, timeout_s: float) -> None:
        """Closes the file and gives the lock up: another process may adopt it."""
        self._log.close(timeout_s)
        self._unlock()

    def forget(self) -> None:
        """For a forked child: the lock stays the parent's, whose file this is."""
        self._unlock()

    def _open(self) -> SqliteLog:
        return SqliteLog(self.path, busy_timeout_s=_BUSY_TIMEOUT_S)

    def _unlock(self) -> None:
        # Closing and not unlocking: after a fork an unlock by the child would undo the parent's lock too.
        fd, self._lock_fd = self._lock_fd, None
        if fd is not None:
            os.close(fd)


def disk_bytes(path: Path) -> int:
    """What the file and those that SQLite keeps beside it take on the disk; 0 when it is gone."""
    size = 0
    for name in (path, *(Path(f"{path}{end}") for end in _BESIDE)):
        with contextlib.suppress(OSError):
            size += name.stat().st_size
    return size


def _lock_path(path: Path) -> Path:
    return path.with_suffix(_LOCK_SUFFIX)


def _locked(path: Path) -> int | None:
    """An open file that holds the lock; None when somebody else does. Raises OSError."""
    fd = os.open(_lock_path(path), os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o660)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(fd), _lock_path(path).stat()):
            return fd
    except OSError:
        pass  # held by another one, or deleted by it meanwhile
    os.close(fd)
    return None


def _unlink(path: Path) -> None:
    for end in ("", *_BESIDE):
        Path(f"{path}{end}").unlink(missing_ok=True)
