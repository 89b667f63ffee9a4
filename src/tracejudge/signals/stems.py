"""The content words of a text as stems: its words and numbers without the stop words, each in one spelling.

The stop list and the stemming are for English; other languages with spaces between words merely lose some matches.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import chain
from typing import Final, cast

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


def _piece_stems(piece: str) -> str | tuple[str, ...]:
    """Of what stands between two blanks, with its full stops and commas: "" for no stem, a tuple for several."""
    found = content_stems(piece)
    return found[0] if len(found) == 1 else tuple(found) or ""


_PIECES: Final = Memo(_piece_stems)
_INSIDE: Final = frozenset(b"0123456789abcdefghijklmnopqrstuvwxyz.,'")
_CUT: Final = bytes(low if low in _INSIDE or low >= 0x80 else 0x20 for low in bytes(range(256)).lower())
"""Of a byte its lower case, or a blank for an ASCII sign that is in no word and no number."""


def cut(text: str) -> list[str]:
    """What stands between blanks and signs in `text`, with ASCII letters in lower case: runs of letters, digits, full
    stops, commas and apostrophes."""
    return text.encode("utf-8", "surrogatepass").translate(_CUT).decode("utf-8", "surrogatepass").split()


def stems_of(pieces: Iterable[str]) -> list[str]:
    """The stems of what `cut` gave: those of `content_stems`, in no order, in a third of the time, since no word
    reaches over a blank."""
    stems = list(filter(None, map(_PIECES.__getitem__, pieces)))
    several = [one for one in stems if one.__class__ is tuple]
    if several:
        stems = [one for one in stems if one.__class__ is str]
        stems += chain.from_iterable(several)
    return cast("list[str]", stems)


def different_stems(text: str) -> set[str]:
    """The stems of `text`, each once: half of a passage's words say nothing new."""
    stems = set(map(_PIECES.__getitem__, cut(text)))
    stems.discard("")
    several = [one for one in stems if one.__class__ is tuple]
    if several:
        stems.difference_update(several)
        stems.update(*several)
    return cast("set[str]", stems)
