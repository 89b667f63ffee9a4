r"""Any bytes as text that a terminal shows and does not obey.

What is UTF-8 stays readable, but for its control and formatting characters; every other byte stands as \xNN.

>>> preview(b'{"q": "caf\xc3\xa9"}\xff\x1b[2J', limit=100)
'{"q": "café"}\\xff\\x1b[2J'
"""

from __future__ import annotations

import unicodedata
from typing import Final

_UNSEEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def preview(value: bytes, *, limit: int) -> str:
    """The first `limit` bytes; characters that cannot be seen or that steer a terminal stand as escapes."""
    cut = value[:limit]
    for _ in range(3):  # a character of several bytes may have been cut at the end: it is left out, not shown broken
        try:
            cut.decode("utf-8")
        except UnicodeDecodeError as error:
            if len(value) <= limit or error.end < len(cut):
                break
            cut = cut[: error.start]
    text = cut.decode("utf-8", "backslashreplace")
    return "".join(char if unicodedata.category(char) not in _UNSEEN else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
