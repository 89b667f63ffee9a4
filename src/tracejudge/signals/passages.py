"""The stems of passages, which come again and again: a service's answers rest on the same ones for days."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tracejudge.signals.lexical import can_split
from tracejudge.signals.typesetting import plain
from tracejudge.signals.vocabulary import Vocabulary

_MOST_STEMS: Final = 1_000_000  # of a generation: two of them are some 10 MB, and ten thousand passages
_AS_MUCH_AS: Final = 80  # stems: what an entry takes beside its own

_Key = tuple[int, int]
_Stems = NDArray[np.int32] | None


class Passages:
    """Remembers by a vocabulary's numbers the stems of passages. For one thread at a time.

    Two generations: what was asked for since the younger one began stays when the older one goes. A text is known by
    its length and Python's keyed hash of it, so that no text is kept for the sake of its words.
    """

    def __init__(self, vocabulary: Vocabulary, *, most_stems: int = _MOST_STEMS) -> None:
        self._vocabulary = vocabulary
        self._most_stems = most_stems
        self._young: dict[_Key, _Stems] = {}
        self._old: dict[_Key, _Stems] = {}
        self._weight = 0

    def __len__(self) -> int:
        """How many passages are remembered."""
        return len(self._young.keys() | self._old.keys())

    def stems(self, passages: Sequence[str]) -> list[_Stems]:
        """The stems of each, in no order; None for one whose script has no spaces between words."""
        keys = [(len(passage), hash(passage)) for passage in passages]
        young, old = self._young, self._old
        kept: dict[_Key, _Stems] = {}
        new: dict[_Key, str] = {}
        for key, passage in zip(keys, passages, strict=True):
            if key not in young:
                if key in old:
                    kept[key] = old[key]
                else:
                    new[key] = passage
        if new:
            kept.update(self._read(new))
        found = [young[key] if key in young else kept[key] for key in keys]
        if kept:
            self._keep(kept)
        return found

    def _read(self, new: dict[_Key, str]) -> dict[_Key, _Stems]:
        texts = {key: plain(text) for key, text in new.items()}
        unspaced = [key for key, text in texts.items() if not text.isascii() and not can_split(text)]
        for key in unspaced:
            del texts[key]
        words = self._vocabulary.read(list(texts.values()))
        stems, owners = self._vocabulary.stems(words.numbers, np.repeat(np.arange(len(texts)), np.diff(words.bounds)))
        order = np.argsort(owners, kind="stable")  # all but those of a word with several stand in order
        small = stems.astype(np.int32).take(order)
        ends = np.searchsorted(owners.take(order), np.arange(len(texts)), side="right").tolist()
        # Copies, so that one passage that is kept does not keep all that were read with it.
        found: dict[_Key, _Stems] = {
            key: small[begin:end].copy() for key, begin, end in zip(texts, [0, *ends], ends, strict=False)
        }
        return {**found, **dict.fromkeys(unspaced)}

    def _keep(self, passages: dict[_Key, _Stems]) -> None:
        more = sum([_AS_MUCH_AS + (0 if stems is None else len(stems)) for stems in passages.values()])
        if self._weight + more > self._most_stems:
            self._old, self._young, self._weight = self._young, {}, 0
        self._weight += more
        self._young.update(passages)
