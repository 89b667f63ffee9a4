"""Content encodings of HTTP bodies, both ways, as ClickHouse's clients use them: lz4 frames, gzip, deflate, zstd."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any, Protocol


class BodyTooLarge(Exception):
    """A body that is above the limit once unpacked."""


class UnknownEncoding(Exception):
    """A content encoding this process cannot read."""


class Compressor(Protocol):
    """Packs a body piece by piece."""

    def compress(self, data: bytes) -> bytes: ...

    def flush(self) -> bytes: ...


def _optional(*names: str) -> ModuleType | None:
    for name in names:
        try:
            return import_module(name)
        except ImportError:
            continue
    return None


class _Lz4Compressor:
    def __init__(self, frame: Any) -> None:
        self._frame = frame.LZ4FrameCompressor()
        self._begun = False

    def compress(self, data: bytes) -> bytes:
        head = b"" if self._begun else bytes(self._frame.begin())
        self._begun = True
        return head + bytes(self._frame.compress(data))

    def flush(self) -> bytes:
        head = b"" if self._begun else bytes(self._frame.begin())
        return head + bytes(self._frame.flush())


def compressor_for(accept_encoding: str) -> tuple[str, Compressor] | None:
    """The first encoding the client names that can be written here."""
    for item in accept_encoding.split(","):
        name = item.split(";")[0].strip().lower()
        if name == "lz4" and (frame := _optional("lz4.frame")) is not None:
            return name, _Lz4Compressor(frame)
        if name == "gzip":
            return name, zlib.compressobj(1, zlib.DEFLATED, 31)
        if name == "deflate":
            return name, zlib.compressobj(1)
    return None


def unpack(data: bytes, encoding: str, *, limit: int) -> bytes:
    """The body behind `encoding`, of at most `limit` bytes.

    Raises BodyTooLarge, UnknownEncoding, or ValueError when the data is damaged.
    """
    name = encoding.strip().lower()
    if name in ("", "identity"):
        return data
    if name in ("gzip", "x-gzip"):
        return _bounded(zlib.decompressobj(31), data, limit)
    if name == "deflate":
        return _bounded(zlib.decompressobj(), data, limit)
    if name == "lz4" and (frame := _optional("lz4.frame")) is not None:
        return _frames(frame.LZ4FrameDecompressor, data, limit)
    if name == "zstd" and (zstd := _optional("compression.zstd", "backports.zstd")) is not None:
        return _frames(zstd.ZstdDecompressor, data, limit)
    raise UnknownEncoding(f"content encoding {encoding!r} is not one of identity, gzip, deflate, lz4, zstd")


def _bounded(unpacker: Any, data: bytes, limit: int) -> bytes:
    try:
        result = unpacker.decompress(data, limit + 1)
    except zlib.error as error:
        raise ValueError(f"damaged body: {error}") from error
    if len(result) > limit or unpacker.unconsumed_tail:
        raise BodyTooLarge
    if not unpacker.eof:
        raise ValueError("damaged body: it ends too early")
    return bytes(result)


def _frames(make: Callable[[], Any], data: bytes, limit: int) -> bytes:
    """The decompressed frames one after the other, as a streaming writer sends them."""
    pieces: list[bytes] = []
    size = 0
    while data:
        unpacker = make()
        try:
            pieces.append(unpacker.decompress(data, limit + 1 - size))
        except Exception as error:  # each library has its own error class
            raise ValueError(f"damaged body: {error}") from error
        size += len(pieces[-1])
        if size > limit:
            raise BodyTooLarge
        if not unpacker.eof:
            if not unpacker.needs_input:
                raise BodyTooLarge
            raise ValueError("damaged body: it ends too early")
        data = unpacker.unused_data or b""
    return b"".join(pieces)
