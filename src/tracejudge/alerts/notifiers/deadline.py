"""A socket for one exchange over HTTP: bounded in time as a whole, and in what is read.

A socket's own timeout bounds each wait only: a receiver that sends a byte now and then would hold its caller for ever.
"""

from __future__ import annotations

import io
import socket
from typing import Final

from tracejudge.clock import Clock

MAX_REPLY_BYTES: Final = 16_384
"""Of the other side's words: a status line and its headers, with room."""


class Deadline:
    """An instant, `timeout_s` from now, at which an exchange must be over."""

    def __init__(self, timeout_s: float, *, clock: Clock) -> None:
        self._timeout_s = timeout_s
        self._clock = clock
        self._end = clock.monotonic() + timeout_s

    def left_s(self) -> float:
        """Seconds until then, above 0. Raises TimeoutError when there are none."""
        left = self._end - self._clock.monotonic()
        if left <= 0:
            raise TimeoutError(f"the exchange took longer than {self._timeout_s:g} s")
        return left


class DeadlineSocket:
    """A connected socket with a deadline, as far as http.client needs one. Raises TimeoutError at the deadline, OSError
    for a long reply."""

    def __init__(self, connected: socket.socket, deadline: Deadline) -> None:
        self._socket = connected
        self._deadline = deadline

    def sendall(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            self._socket.settimeout(self._deadline.left_s())
            rest = rest[self._socket.send(rest) :]

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(_Reply(self._socket, self._deadline))

    def close(self) -> None:
        self._socket.close()


class _Reply(io.RawIOBase):
    def __init__(self, connected: socket.socket, deadline: Deadline) -> None:
        self._socket = connected
        self._deadline = deadline
        self._read = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # typeshed's Buffer has no type to index
        if self._read >= MAX_REPLY_BYTES:
            raise OSError(f"the reply's head is longer than {MAX_REPLY_BYTES} bytes")
        self._socket.settimeout(self._deadline.left_s())
        got = self._socket.recv_into(buffer)
        self._read += got
        return got
