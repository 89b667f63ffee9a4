"""What is known of a word by itself, in numbers that add up to what is known of a text."""

from __future__ import annotations

from typing import Final

from tracejudge.signals.language import ENGLISH, ascii_words, count_words
from tracejudge.signals.refusal import may_refuse

COUNT_BITS: Final = 12  # of a count: no text of LANGUAGE_CHARS has more words
_ENGLISH_BITS: Final = {word: 1 << number for number, word in enumerate(sorted(ENGLISH))}


def word_facts(word: str) -> tuple[int, int]:
    """The counts of a word in one number, and a bit for each of the commonest English words that it has.

    The counts from the lowest bits on, `COUNT_BITS` each: its runs of letters, those known as English alone, as shared
    with other languages, as foreign, and 1 where it may stand in a refusal.
    """
    if not word.isascii():
        return 0, 0  # no text with such a word is decided by them
    runs = [word] if word.isalpha() else ascii_words(word)
    bits = 0
    for run in runs:
        if run in _ENGLISH_BITS:
            bits |= _ENGLISH_BITS[run]
    counts = 0
    for place, count in enumerate((*count_words(runs), may_refuse(word))):
        counts |= count << place * COUNT_BITS
    return counts, bits
