"""Language and refusal at one look at the pieces that a response is cut into for its overlap anyway.

Most answers are English and decline nothing, which their words show without the text being searched again: each piece
is known with its counts, and the sums decide. Whatever they leave open is for `guess_language` and `is_refusal`, whose
answers these are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from tracejudge.signals.language import LANGUAGE_CHARS, WordCounts, ascii_words, count_words, is_english
from tracejudge.signals.memo import Memo
from tracejudge.signals.refusal import may_refuse

_BITS: Final = 12  # of a count: no text of LANGUAGE_CHARS has more words
_MASK: Final = (1 << _BITS) - 1


class FirstLook(NamedTuple):
    """What is certain at the first look: that a text is English, that it is no refusal."""

    english: bool
    no_refusal: bool


_NOTHING: Final = FirstLook(english=False, no_refusal=False)


def first_look(response: str, pieces: Sequence[str]) -> FirstLook:
    """What is certain about `response`, of which `pieces` are what `stems.cut` gives."""
    if len(response) > LANGUAGE_CHARS or not response.isascii() or "`" in response:
        return _NOTHING
    total = sum(map(_COUNTS.__getitem__, pieces))
    counts = WordCounts(total & _MASK, total >> _BITS & _MASK, total >> 2 * _BITS & _MASK, total >> 3 * _BITS & _MASK)
    # Of the pieces those are words that hold nothing but letters; there are enough of them in most texts.
    return FirstLook(english=is_english(counts, pieces), no_refusal=not total >> 4 * _BITS)


def _counts(piece: str) -> int:
    """The counts of one piece in one number, so that the sum over a text is one call."""
    if not piece.isascii():
        return 0  # no text with such a piece comes here
    words, alone, shared, foreign = count_words(ascii_words(piece))
    return words | alone << _BITS | shared << 2 * _BITS | foreign << 3 * _BITS | may_refuse(piece) << 4 * _BITS


_COUNTS: Final = Memo(_counts)
