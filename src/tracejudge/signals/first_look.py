"""Language and refusal at one look at the words that a response is cut into for its overlap anyway.

Most answers are English and decline nothing, which their words show without the text being searched again: each word
is known with its counts, and the sums decide. Whatever they leave open is for `guess_language` and `is_refusal`, whose
answers these are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tracejudge.signals.language import LANGUAGE_CHARS, MIN_LEAD, MIN_SHARE
from tracejudge.signals.refusal import SEEN_CHARS
from tracejudge.signals.vocabulary import Integers, Vocabulary, Words
from tracejudge.signals.word_facts import COUNT_BITS

_MASK: Final = (1 << COUNT_BITS) - 1
_MAY_REFUSE: Final = 4 * COUNT_BITS


def first_looks(
    words: Words, vocabulary: Vocabulary, responses: Sequence[str]
) -> tuple[Sequence[bool], Sequence[bool]]:
    """For each response, whether it is certainly English, and whether it is certainly no refusal. `words` are the
    responses' words."""
    begins, ends = words.bounds[:-1], words.bounds[1:]
    counts = vocabulary.counts.take(words.numbers)
    # Each field of a sum has room for a whole text; what runs over in the sum of all texts is gone in a difference.
    total = np.diff(np.append(0, np.cumsum(counts)).take(words.bounds))
    alone, shared, foreign = (total >> place * COUNT_BITS & _MASK for place in (1, 2, 3))
    known = alone + shared
    least = np.maximum(np.maximum(MIN_LEAD * (shared + foreign), MIN_SHARE * (total & _MASK)), 1)
    different = np.bitwise_or.reduceat(np.append(vocabulary.english.take(words.numbers), 0), begins)
    several = (different & (different - 1) != 0) & (ends > begins)
    certain = np.array(
        [len(text) <= LANGUAGE_CHARS and text.isascii() and "`" not in text for text in responses], np.bool_
    )
    english = certain & (known >= least) & several
    return english.tolist(), (certain & _no_refusal(words, counts, begins, ends)).tolist()


def _no_refusal(words: Words, counts: Integers, begins: Integers, ends: Integers) -> NDArray[np.bool_]:
    """No word may stand in a refusal, or the first that does stands behind what is searched for one."""
    marked = np.append(np.flatnonzero(counts >> _MAY_REFUSE), len(counts))
    first = marked.take(np.searchsorted(marked, begins))
    before = np.append(0, np.cumsum(words.lengths + 1))  # a blank at the least between two words
    far = before.take(np.minimum(first, ends)) - before.take(begins) > SEEN_CHARS
    # Full stops and the like are passed over at the start; letters are not, so that the text is no bare "none".
    lettered = np.append(counts, 0).take(begins) & _MASK > 0
    found: NDArray[np.bool_] = (first >= ends) | (far & lettered)
    return found
