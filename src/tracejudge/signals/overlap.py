"""How many of a response's words occur in its passages, where passages come again and again.

A service's answers rest on the same passages for days, so the words of a passage are remembered: what a trace costs is
its response, and the passages nobody has shown before.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Final

from tracejudge.signals.lexical import can_split
from tracejudge.signals.stems import cut, different_stems, stems_of

_MOST_STEMS: Final = 500_000  # of a generation: two of them are some 10 MB, and a few thousand passages
_AS_MUCH_AS: Final = 20  # stems: what an entry takes beside its own


class Remembered:
    """The content words of passages, None for one whose script has no spaces between words.

    Two generations: what was asked for since the younger one began stays when the older one goes. A text is known by
    its length and Python's keyed hash of it, so that no text is kept for the sake of its words. Threads may use it at
    once: the worst is a passage that is read twice.
    """

    def __init__(self, *, most_stems: int = _MOST_STEMS) -> None:
        self._most_stems = most_stems
        self.forget()

    def forget(self) -> None:
        """Begins anew."""
        self._young: dict[tuple[int, int], tuple[str, ...] | None] = {}
        self._old: dict[tuple[int, int], tuple[str, ...] | None] = {}
        self._stems = 0

    def __len__(self) -> int:
        """How many passages are remembered."""
        return len(self._young.keys() | self._old.keys())

    def words(self, text: str) -> tuple[str, ...] | None:
        """The stems of the content words of `text`, each once, in no order."""
        key = (len(text), hash(text))
        try:
            return self._young[key]
        except KeyError:
            pass
        old = self._old
        words = old[key] if key in old else tuple(different_stems(text)) if can_split(text) else None
        self._stems += _AS_MUCH_AS + len(words or ())
        if self._stems > self._most_stems:
            self._old, self._young, self._stems = self._young, {}, 0
        self._young[key] = words
        return words


PASSAGES: Final = Remembered()
"""Of this process."""


def lexical_overlap(response: str, passages: Sequence[str], pieces: Sequence[str] | None = None) -> float | None:
    """Share in [0, 1] of the response's content words that occur in the passages.

    None where there is nothing to compare: no content word, no passage with text, or a script without spaces. `pieces`
    is what `cut` gives of the response, where somebody has it.
    """
    texts = [passage for passage in passages if passage and not passage.isspace()]
    if not texts or not can_split(response):
        return None
    of_passages = [words for words in map(PASSAGES.words, texts) if words is not None]
    if len(of_passages) < len(texts):
        return None
    own = stems_of(cut(response) if pieces is None else pieces)
    if not own:
        return None
    found = set(own).intersection(chain.from_iterable(of_passages))
    return sum(map(found.__contains__, own)) / len(own)
