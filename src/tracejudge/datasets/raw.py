"""The lines of a file as bytes, in constant memory: plain or gzip by content, bounded in length."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from typing import Final, NamedTuple

MAX_LINE_BYTES: Final = 64 * 1024 * 1024
"""A trace may hold passages of megabytes; a line above this is some other kind of file."""

_GZIP: Final = b"\x1f\x8b"
_BOM: Final = b"\xef\xbb\xbf"
_KEPT_BYTES: Final = 64 * 1024
_SKIP_BYTES: Final = 1024 * 1024


class RawLine(NamedTuple):
    """A line without its end, counted from 1; with a fault, its start and why it was not read."""

    number: int
    data: bytes
    reason: str = ""
    detail: str = ""


def raw_lines(stream: io.BufferedReader, *, max_line_bytes: int = MAX_LINE_BYTES) -> Iterator[RawLine]:
    """The lines of `stream` that are not blank. Line ends are LF or CR LF; a byte order mark at the start is dropped.

    Gzip is told by its first two bytes, whatever the file is called; several members in a row are one text. A file
    damaged in the middle yields what stands before the damage, then a line that says so.
    """
    source: io.BufferedReader | gzip.GzipFile = stream
    if stream.peek(len(_GZIP))[: len(_GZIP)] == _GZIP:
        source = gzip.GzipFile(fileobj=stream, mode="rb")
    number = 0
    while True:
        number += 1
        try:
            data = source.readline(max_line_bytes + 1)
            too_long = len(data) > max_line_bytes
            if too_long:
                _skip_rest(source, data)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            yield RawLine(number, b"", "damaged_gzip", f"gzip data is damaged: {error}: the rest of the file is lost")
            return
        if not data:
            return
        if number == 1:
            data = data.removeprefix(_BOM)
        if too_long:
            yield RawLine(
                number, data[:_KEPT_BYTES], "line_too_long", f"line is longer than the limit of {max_line_bytes} bytes"
            )
        elif (data := data.rstrip(b"\r\n")) and not data.isspace():
            yield RawLine(number, data)


def _skip_rest(source: io.BufferedReader | gzip.GzipFile, data: bytes) -> None:
    while data and not data.endswith(b"\n"):
        data = source.readline(_SKIP_BYTES)
