"""The content words of a text as stems: its words and numbers without the stop words, each in one spelling.

The stop list and the stemming are for English; other languages with spaces between words merely lose some matches.
"""

from __future__ import annotations

import re
from typing import Final

from tracejudge.signals.memo import Memo
from tracejudge.signals.stop_words import NUMBER_WORDS, STOP_WORDS

# A number with its inner points and commas, or a run of letters and digits with at most one apostrophe inside. Lengths
# are bounded so that a word of a megabyte becomes no row and no dictionary key.
_TOKEN: Final = re.compile(r"\d{1,40}(?:[.,]\d{1,40}){1,10}|[^\W_]{1,64}(?:['’][^\W\d_]{1,64})?")
# The same for texts of ASCII alone, most of them: a third faster, since every class is a table.
_ASCII_TOKEN: Final = re.compile(r"[0-9]{1,40}(?:[.,][0-9]{1,40}){1,10}|[0-9A-Za-z]{1,64}(?:'[A-Za-z]{1,64})?")
_NUMBER: Final = re.compile(r"\d[\d.,]*\Z")


def tokens(text: str) -> list[str]:
    """The words and numbers of `text` as written, in order."""
    return (_ASCII_TOKEN if text.isascii() else _TOKEN).findall(text)


def stem(word: str) -> str:
    """`word` lower-cased, with its English endings off: a light rule that never leaves less than three letters."""
    word = word.lower().replace("’", "'")
    if word.endswith("'s"):
        word = word[:-2]
    word = word.replace("'", "")
    if len(word) <= 3 or not word.isalpha():
        return _plain_number(word) if word[:1].isdigit() else word
    if word.endswith("ies"):
        word = word[:-3] + "y" if len(word) > 4 else word
    elif word.endswith(("sses", "shes", "ches", "xes", "zes")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending in ("ing", "ed", "ly"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: -len(ending)]
            if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "lsz":
                word = word[:-1]
            break
    if word.endswith("e") and len(word) > 3:
        word = word[:-1]
    return word[:-1] + "i" if word.endswith("y") and len(word) > 3 else word


def _plain_number(text: str) -> str:
    """A number in one spelling: no thousands separators, no zeros behind the point."""
    if not _NUMBER.match(text):
        return text
    text = text.rstrip(".,")
    head, _, tail = text.replace(",", "").partition(".")
    tail = tail.rstrip("0")
    return f"{head.lstrip('0') or '0'}.{tail}" if tail else head.lstrip("0") or "0"


NUMBER_STEMS: Final = {stem(word): digits for word, digits in NUMBER_WORDS.items()}
"""The stem of a number word to its digits."""


def _content_stem(token: str) -> str:
    return "" if token.lower().replace("’", "'") in STOP_WORDS else stem(token)


STEMS: Final = Memo(_content_stem)
content_stem: Final = STEMS.__getitem__
"""The stem of a token, "" for a stop word."""


def content_stems(text: str) -> list[str]:
    """The stems of the content words of `text`, in order."""
    return list(filter(None, map(content_stem, tokens(text))))


def stems_of(word: str) -> list[str]:
    """The content stems of a word, as `content_stems` gives them, without remembering them: for words that are seldom
    seen."""
    return list(filter(None, map(_content_stem, tokens(word))))


_INSIDE: Final = frozenset(b"0123456789abcdefghijklmnopqrstuvwxyz.,'")
CUT: Final = bytes(low if low in _INSIDE or low >= 0x80 else 0x20 for low in bytes(range(256)).lower())
"""Of a byte of UTF-8 its lower case, or a blank for an ASCII sign that is in no word and no number: what is left
between blanks are runs of letters, digits, full stops, commas and apostrophes, and no token reaches over a blank."""
