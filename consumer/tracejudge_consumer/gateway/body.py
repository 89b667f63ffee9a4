"""A request's body, read and unpacked piece by piece and never beyond its limits: a gzip bomb ends at the first byte
above them."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Final

from tracejudge_consumer.gateway.answers import Refusal

_GZIP: Final = 31  # zlib's word for a gzip header and trailer
_STEPS_A_TURN: Final = 8  # 2 MB, some milliseconds


class Budget:
    """The bytes that all requests of a gateway hold together. For one event loop."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self.held = 0

    def take(self, size: int) -> None:
        """Raises Refusal 429 when there is no room."""
        if self.held + size > self._limit:
            raise Refusal(
                429,
                reason="busy",
                field="body",
                value=f"{self.held} bytes of other requests are under way",
                limit=f"{self._limit} bytes at a time",
                remedy="send it again after the time in Retry-After",
                retry_after_s=1.0,
            )
        self.held += size

    def give_back(self, size: int) -> None:
        self.held -= size


async def read_body(
    pieces: AsyncIterator[bytes],
    *,
    encoding: str,
    max_body_bytes: int,
    max_unpacked_bytes: int,
    take: Callable[[int], None],
) -> bytes:
    """The unpacked body. `take` is told of every byte before it is held. Raises Refusal."""
    unpack = _Gunzip(max_unpacked_bytes) if encoding == "gzip" else None
    body = bytearray()
    packed = steps = 0
    try:
        async for piece in pieces:
            packed += len(piece)
            if packed > max_body_bytes:
                raise too_long(f"more than {max_body_bytes} bytes", max_body_bytes)
            for out in [piece] if unpack is None else unpack.feed(piece):
                take(len(out))
                body += out
                steps += 1
                if steps % _STEPS_A_TURN == 0:
                    await asyncio.sleep(0)  # a bomb keeps nobody else waiting
        if unpack is not None:
            unpack.end()
        return bytes(body)
    except BaseException:  # a cancelled request as well: what it unpacked must go just the same; it is raised again
        # The exception's traceback holds this frame, and with it what was unpacked, until the garbage is collected.
        body.clear()
        raise


def too_long(value: str, limit: int) -> Refusal:
    """The refusal of a body that is too large as it comes."""
    return Refusal(
        413,
        reason="body_too_large",
        field="body",
        value=value,
        limit=f"{limit} bytes",
        remedy="send fewer lines in one request",
    )


class _Gunzip:
    """Gzip members in a row, in steps of bounded size."""

    _STEP: Final = 256 * 1024

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._member = zlib.decompressobj(_GZIP)
        self._begun = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        """What `data` unpacks to, step by step: nothing is unpacked before it is asked for."""
        while True:
            if self._member.eof:
                if not data:
                    return
                self._member = zlib.decompressobj(_GZIP)
            self._begun = True
            try:
                out = self._member.decompress(data, self._STEP)
            except zlib.error as error:
                raise _damaged(str(error)) from error
            data = self._member.unused_data if self._member.eof else self._member.unconsumed_tail
            self._size += len(out)
            if self._size > self._limit:
                raise Refusal(
                    413,
                    reason="unpacked_too_large",
                    field="body",
                    value=f"more than {self._limit} bytes once unpacked",
                    limit=f"{self._limit} bytes once unpacked",
                    remedy="send fewer lines in one request",
                )
            yield out
            # A full step may have more behind it that zlib holds back, even when all input is consumed.
            if not data and len(out) < self._STEP and not self._member.eof:
                return

    def end(self) -> None:
        if self._begun and not self._member.eof:
            raise _damaged("it ends too early")


def _damaged(detail: str) -> Refusal:
    return Refusal(
        400,
        reason="damaged_gzip",
        field="body",
        value=f"gzip data that is damaged: {detail[:120]}",
        limit="gzip, as Content-Encoding says",
        remedy="compress the whole body with gzip, or leave out the header Content-Encoding",
    )
