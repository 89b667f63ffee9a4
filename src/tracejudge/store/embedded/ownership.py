"""Who owns a directory: a kernel lock that dies with its holder, and a file that tells the others where to connect.

`owner.lock` is flock'ed for as long as the owner lives (kill -9 included: the kernel lets go). `owner.json` holds its
process id, port and a random password, readable by its user only. The lock decides; the file only informs.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from tracejudge.errors import SettingsError

LOCK_NAME: Final = "owner.lock"
FILE_NAME: Final = "owner.json"
ENGINE_NAME: Final = "chdb"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """The address of an owner's server, with its credentials. `instance` is in every answer of its server: who does not
    show it gets no password."""

    host: str
    port: int
    user: str
    password: str
    instance: str
    pid: int

    def __repr__(self) -> str:  # a password in a log or a traceback would stay there
        return f"Endpoint(host={self.host!r}, port={self.port}, pid={self.pid})"


class DirectoryLock:
    """The lock of one directory, held by this process until `release`."""

    def __init__(self, directory: Path, descriptor: int) -> None:
        self._directory = directory
        self._descriptor = descriptor
        _held.append(self)

    @classmethod
    def try_acquire(cls, directory: Path) -> DirectoryLock | None:
        """The lock, or None when somebody holds it."""
        import fcntl  # not on Windows, where chDB is not either; a server's store works there

        # O_CLOEXEC is Python's default, so that a program started by the owner does not inherit the lock.
        descriptor = os.open(directory / LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            return None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        return cls(directory, descriptor)

    def release(self) -> None:
        """Lets the next one in. The engine must have left the directory before."""
        if self in _held:
            _held.remove(self)
            os.close(self._descriptor)

    def drop_in_child(self) -> None:
        """After a fork: closes the child's copies, or the child would keep the directory locked after its parent."""
        with contextlib.suppress(OSError):
            os.close(self._descriptor)
        status = str(self._directory / ENGINE_NAME / "status")  # the engine's own lock, a flock too
        descriptors = Path("/proc/self/fd")
        if descriptors.is_dir():
            for entry in descriptors.iterdir():
                with contextlib.suppress(OSError, ValueError):
                    if str(entry.readlink()) == status:
                        os.close(int(entry.name))


_held: list[DirectoryLock] = []


def _after_fork_in_child() -> None:
    for lock in _held:
        lock.drop_in_child()
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


def prepare(directory: Path) -> Path:
    """The directory, made where it is missing (mode 0700), as an absolute path without links.

    Raises SettingsError where it can be none of ours: a file stands there, or this user may not write.
    """
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise SettingsError([f"store: {directory}: is a file, not a folder: name another"]) from error
    except OSError as error:
        raise SettingsError(
            [f"store: {directory}: cannot be made ({error.strerror}): create it for this user, or name another"]
        ) from error
    if not os.access(directory, os.W_OK | os.X_OK):
        raise SettingsError(
            [f"store: {directory}: this user may not write there: grant write permission, or name another"]
        )
    return directory.resolve()


def holds_store(directory: Path) -> bool:
    """True where an embedded store is, served or not; also where this user may not look, which opening it says."""
    try:
        return (directory / ENGINE_NAME).is_dir()
    except PermissionError:
        return True


def publish(directory: Path, endpoint: Endpoint) -> None:
    """Writes the endpoint file for other processes, atomically: they see the old file or the new one, never a part of
    it."""
    temporary = directory / f".{FILE_NAME}.{secrets.token_hex(8)}"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(asdict(endpoint), file)
    temporary.replace(directory / FILE_NAME)


def withdraw(directory: Path) -> None:
    """Removes the file, and what a killed owner may have left half-written."""
    for path in (directory / FILE_NAME, *directory.glob(f".{FILE_NAME}.*")):
        path.unlink(missing_ok=True)


def published(directory: Path) -> Endpoint | None:
    """What the file says; None while there is none. It may be of an owner that has just died.

    Raises SettingsError when it is another user's: only that user may connect.
    """
    try:
        return Endpoint(**json.loads((directory / FILE_NAME).read_text()))
    except PermissionError as error:
        raise SettingsError(
            [f"store: {directory}: is served by another user's process: run this as that user"]
        ) from error
    except (FileNotFoundError, ValueError, TypeError):
        return None


def holder_pid(directory: Path) -> int | None:
    """The process id that the lock's holder wrote into it."""
    try:
        return int((directory / LOCK_NAME).read_text())
    except (OSError, ValueError):
        return None
