"""The signs of typesetting, which stand in many a text that is else ASCII."""

from __future__ import annotations

from typing import Final


def plain(text: str) -> str:
    """`text` with the signs of typesetting as ASCII has them, or blanks: to all that looks at words they are the same,
    and most texts that hold any hold no other character beyond ASCII."""
    if text.isascii():
        return text
    for sign, ascii_sign in _SIGNS:
        if sign in text:
            text = text.replace(sign, ascii_sign)
    return text


_SIGNS: Final = (("\u2019", "'"), *((sign, " ") for sign in "\u201c\u201d\u2013\u2014\u2022\u2026\u00a0\u00b0\u00ae"))
