"""What the words of responses and passages say, many traces at a time: overlap, and a first look at each response."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from tracejudge.signals.first_look import first_looks
from tracejudge.signals.lexical import can_split
from tracejudge.signals.vocabulary import Integers, Vocabulary, Words

Texts = tuple[str, Sequence[str]]
"""A response and its passages that hold text."""


class WordSignals(NamedTuple):
    """What is certain about a response by its words, and its overlap.

    `overlap` is the share in [0, 1] of the response's content words that occur in the passages; None where there is
    nothing to compare: no content word, no passage with text, or a script without spaces.
    """

    english: bool
    no_refusal: bool
    overlap: float | None


class WordReader:
    """Reads texts by a vocabulary that it keeps. Threads may use it at once; they wait for each other."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._vocabulary = Vocabulary()

    def signals(self, texts: Sequence[Texts]) -> list[WordSignals]:
        """Those of each response with its passages. Of some hundred thousand characters in all at the most."""
        responses = [_plain(response) for response, _ in texts]
        passages = [_plain(passage) for _, some in texts for passage in some]
        owners = np.repeat(np.arange(len(texts)), [len(some) for _, some in texts])
        with self._lock:
            if self._vocabulary.is_full:
                self._vocabulary = Vocabulary()
            words = self._vocabulary.read(responses + passages)
            english, no_refusal = first_looks(words, self._vocabulary, responses)
            overlaps = _overlaps(words, self._vocabulary, owners, len(texts))
        for number in _unspaced(responses, passages, owners):
            overlaps[number] = None
        return list(map(WordSignals, english, no_refusal, overlaps))


WORDS: Final = WordReader()
"""Of this process."""


def _overlaps(words: Words, vocabulary: Vocabulary, of_passages: Integers, count: int) -> list[float | None]:
    """Of each of `count` responses, where the words are theirs and then those of the passages, whose response is
    `of_passages`."""
    owners = np.repeat(np.append(np.arange(count), of_passages), np.diff(words.bounds))
    begin = words.bounds[count]
    own = vocabulary.stems(words.numbers[:begin], owners[:begin])
    given = vocabulary.stems(words.numbers[begin:], owners[begin:])
    every = np.bincount(own[1], minlength=count)
    held = np.bincount(own[1][vocabulary.held(own, given)], minlength=count)
    comparable = (every > 0) & (np.bincount(of_passages, minlength=count) > 0)
    shares = (held / np.maximum(every, 1)).tolist()
    return [share if is_one else None for share, is_one in zip(shares, comparable.tolist(), strict=True)]


def _unspaced(responses: Sequence[str], passages: Sequence[str], of_passages: Integers) -> set[int]:
    """The numbers of responses that, or a passage of which, are in a script without spaces between words."""
    found = {at for at, text in enumerate(responses) if not text.isascii() and not can_split(text)}
    odd = [at for at, text in enumerate(passages) if not text.isascii() and not can_split(text)]
    return found.union(of_passages.take(odd).tolist()) if odd else found


def _plain(text: str) -> str:
    """`text` with the signs of typesetting as ASCII has them, or blanks: to all that looks at words they are the same,
    and most texts that hold any hold no other character beyond ASCII."""
    if text.isascii():
        return text
    for sign, plain in _SIGNS:
        if sign in text:
            text = text.replace(sign, plain)
    return text


_SIGNS: Final = (("\u2019", "'"), *((sign, " ") for sign in "\u201c\u201d\u2013\u2014\u2022\u2026\u00a0\u00b0\u00ae"))
