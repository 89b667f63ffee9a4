"""What the words of responses and passages say, many traces at a time: overlap, and a first look at each response."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from tracejudge.signals.first_look import first_looks
from tracejudge.signals.lexical import can_split
from tracejudge.signals.passages import Passages
from tracejudge.signals.typesetting import plain
from tracejudge.signals.vocabulary import Integers, Vocabulary, Words

Texts = tuple[str, Sequence[str]]
"""A response and its passages that hold text."""


class WordSignals(NamedTuple):
    """What a response's words say for certain about its language and about refusal, and its overlap with the passages.

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
        self._begin()

    def signals(self, texts: Sequence[Texts]) -> list[WordSignals]:
        """The word signals of each response with its passages; give at most some 300 000 characters in all."""
        responses = [plain(response) for response, _ in texts]
        # A sentence without blanks is one word, and seldom comes again: many of them would soon fill a vocabulary.
        spaced = [text if text.isascii() or can_split(text) else "" for text in responses]
        passages = [passage for _, some in texts for passage in some]
        owners = np.repeat(np.arange(len(texts)), [len(some) for _, some in texts])
        with self._lock:
            if self._vocabulary.is_full:
                self._begin()
            words = self._vocabulary.read(spaced)
            english, no_refusal = first_looks(words, self._vocabulary, responses)
            overlaps = self._overlaps(words, passages, owners)
        return list(map(WordSignals, english, no_refusal, overlaps))

    def forget_passages(self) -> None:
        """Passages are read anew from now on; words stay known."""
        with self._lock:
            self._passages = Passages(self._vocabulary)

    def _begin(self) -> None:
        self._vocabulary = Vocabulary()
        self._passages = Passages(self._vocabulary)  # what it remembers are numbers of this vocabulary

    def _overlaps(self, words: Words, passages: Sequence[str], of_passages: Integers) -> list[float | None]:
        """The overlap of each response, given by its words, with its passages; `of_passages` holds the index of each
        passage's response."""
        count = len(words.bounds) - 1
        given = self._passages.stems(passages)
        readable = [stems for stems in given if stems is not None]
        owners = of_passages[[stems is not None for stems in given]]
        sought = (
            np.concatenate(readable).astype(np.int64) if readable else _NO_STEMS,
            np.repeat(owners, [len(stems) for stems in readable]),
        )
        own = self._vocabulary.stems(words.numbers, np.repeat(np.arange(count), np.diff(words.bounds)))
        every = np.bincount(own[1], minlength=count)
        held = np.bincount(own[1][self._vocabulary.held(own, sought)], minlength=count)
        with_passages = np.bincount(of_passages, minlength=count)
        comparable = (every > 0) & (with_passages > 0) & (np.bincount(owners, minlength=count) == with_passages)
        shares = (held / np.maximum(every, 1)).tolist()
        return [share if is_one else None for share, is_one in zip(shares, comparable.tolist(), strict=True)]


_NO_STEMS: Final = np.zeros(0, np.int64)

WORDS: Final = WordReader()
"""Of this process."""
