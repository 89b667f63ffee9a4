"""Language and refusal at one look at the words that a response is cut into for its overlap anyway.

Most answers are English and decline nothing, which their words show without the text being searched again: each word
is known with its counts, and the sums decide. Whatever they leave open is for `guess_language` and `is_refusal`, whose
answers these are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from tracejudge.signals.language import ENGLISH, LANGUAGE_CHARS, MIN_LEAD, MIN_SHARE, ascii_words, count_words
from tracejudge.signals.refusal import SEEN_CHARS, may_refuse

if TYPE_CHECKING:
    from tracejudge.signals.vocabulary import Vocabulary, Words

_BITS: Final = 12  # of a count: no text of LANGUAGE_CHARS has more words
_MASK: Final = (1 << _BITS) - 1
_MAY_REFUSE: Final = 4 * _BITS
_ENGLISH_BITS: Final = {word: 1 << number for number, word in enumerate(sorted(ENGLISH))}


def word_facts(word: str) -> tuple[int, int]:
    """What is known of a word, so that of a text it is known by a sum and by a union of bits.

    First its counts in one number: its runs of letters, those known as English alone, as shared with other languages,
    as foreign, and 1 where it may stand in a refusal. Then a bit for each of the commonest English words.
    """
    if not word.isascii():
        return 0, 0  # no text with such a word is decided here
    runs = [word] if word.isalpha() else ascii_words(word)
    words, alone, shared, foreign = count_words(runs)
    bits = 0
    for run in runs:
        if run in _ENGLISH_BITS:
            bits |= _ENGLISH_BITS[run]
    counts = words | alone << _BITS | shared << 2 * _BITS | foreign << 3 * _BITS | may_refuse(word) << _MAY_REFUSE
    return counts, bits


def first_looks(
    words: Words, vocabulary: Vocabulary, responses: Sequence[str]
) -> tuple[Sequence[bool], Sequence[bool]]:
    """Of which of these it is certain that they are English, and of which that they are no refusal. They are the first
    of the texts that `words` are of."""
    bounds = words.bounds[: len(responses) + 1]
    begins, ends = bounds[:-1], bounds[1:]
    numbers = words.numbers[: bounds[-1]]
    counts = vocabulary.counts.take(numbers)
    # Each field of a sum has room for a whole text; what runs over in the sum of all texts is gone in a difference.
    total = np.diff(np.append(0, np.cumsum(counts)).take(bounds))
    alone, shared, foreign = (total >> place * _BITS & _MASK for place in (1, 2, 3))
    known = alone + shared
    least = np.maximum(np.maximum(MIN_LEAD * (shared + foreign), MIN_SHARE * (total & _MASK)), 1)
    different = np.bitwise_or.reduceat(np.append(vocabulary.english.take(numbers), 0), begins)
    several = (different & (different - 1) != 0) & (ends > begins)
    certain = np.array(
        [len(text) <= LANGUAGE_CHARS and text.isascii() and "`" not in text for text in responses], np.bool_
    )
    english = certain & (known >= least) & several
    return english.tolist(), (certain & _no_refusal(words, counts, begins, ends)).tolist()


def _no_refusal(
    words: Words, counts: NDArray[np.int64], begins: NDArray[np.int64], ends: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """No word may stand in a refusal, or the first that does stands behind what is searched for one."""
    marked = np.append(np.flatnonzero(counts >> _MAY_REFUSE), len(counts))
    first = marked.take(np.searchsorted(marked, begins))
    before = np.append(0, np.cumsum(words.lengths[: len(counts)] + 1))  # a blank at the least between two words
    far = before.take(np.minimum(first, ends)) - before.take(begins) > SEEN_CHARS
    # Full stops and the like are passed over at the start; letters are not, so that the text is no bare "none".
    lettered = np.append(counts, 0).take(begins) & _MASK > 0
    found: NDArray[np.bool_] = (first >= ends) | (far & lettered)
    return found
