"""A statement's result on its way from the engine's thread to the event loop: whole while small, then in pieces.

Holding back the headers until the first megabytes are there turns nearly every error into a proper status and code.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass
from typing import Final

from tracejudge.store.embedded.engine import EngineError, Summary

_SMALL_BYTES: Final = 1 << 20
_WHOLE_BYTES: Final = 64 << 20  # with wait_end_of_query: a server would spill to disk, we start to stream
_STALLED_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class Whole:
    """The complete result."""

    body: bytes
    summary: Summary


@dataclass(frozen=True, slots=True)
class Begun:
    """The result is large: take it from `pieces`."""

    summary: Summary


@dataclass(frozen=True, slots=True)
class Failed:
    """The statement failed before anything was sent."""

    error: EngineError


class Outlet:
    """One writer (a thread: `put`, `finish`, `fail`) and one reader (the loop: `first`, then `pieces`)."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, whole: bool) -> None:
        self._loop = loop
        self._threshold = _WHOLE_BYTES if whole else _SMALL_BYTES
        self._held: list[bytes] = []
        self._size = 0
        self._streaming = False
        self._gone = threading.Event()
        self._first: asyncio.Future[Whole | Begun | Failed] = loop.create_future()
        self._queue: asyncio.Queue[bytes | EngineError | None] = asyncio.Queue(maxsize=4)
        self.handle_name = ""
        self.summary = Summary()

    def put(self, piece: bytes) -> bool:
        """Hands over a piece, waiting while the reader is behind. False when nobody reads any more."""
        if self._gone.is_set():
            return False
        if self._streaming:
            return self._send(piece)
        self._held.append(piece)
        self._size += len(piece)
        if self._size <= self._threshold:
            return True
        self._streaming = True
        self._answer(Begun(self.summary))
        held, self._held = b"".join(self._held), []
        return self._send(held)

    def finish(self) -> None:
        """The result is complete."""
        if self._streaming:
            self._send(None)
        else:
            self._answer(Whole(b"".join(self._held), self.summary))

    def fail(self, error: EngineError) -> None:
        """The statement failed; pieces already sent are followed by the error."""
        if self._streaming:
            self._send(error)
            self._send(None)
        else:
            self._answer(Failed(error))

    def abandon(self) -> None:
        """Notes that the client has closed the connection."""
        self._gone.set()
        while not self._queue.empty():  # makes room, so that a waiting writer wakes up and sees it
            self._queue.get_nowait()

    async def first(self) -> Whole | Begun | Failed:
        """What the answer's status and headers depend on."""
        return await self._first

    async def pieces(self) -> AsyncIterator[bytes | EngineError]:
        """The result after `Begun`."""
        while (piece := await self._queue.get()) is not None:
            yield piece

    def _answer(self, answer: Whole | Begun | Failed) -> None:
        def settle() -> None:
            if not self._first.done():
                self._first.set_result(answer)

        self._loop.call_soon_threadsafe(settle)

    def _send(self, piece: bytes | EngineError | None) -> bool:
        if self._gone.is_set():
            return False
        handed = asyncio.run_coroutine_threadsafe(self._queue.put(piece), self._loop)
        try:
            handed.result(timeout=_STALLED_S)
        except FutureTimeout:
            handed.cancel()
            self._gone.set()
        return not self._gone.is_set()
