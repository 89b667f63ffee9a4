"""The characters of a text that are not ASCII, found at the speed of copying it."""

from __future__ import annotations

from typing import Final

_ASCII: Final = bytes(range(0x80))


def beyond_ascii(text: str) -> str:
    """`text` without its ASCII characters: of most texts some quotation marks, so that what is searched for among
    other scripts' letters need not be searched for in all of it."""
    return text.encode("utf-8", "surrogatepass").translate(None, _ASCII).decode("utf-8", "surrogatepass")
