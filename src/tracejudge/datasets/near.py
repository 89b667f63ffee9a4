"""Questions that are the same but for a few letters: MinHash finds candidates, the shingles themselves decide.

Jaccard similarity |A n B| / |A u B| of the sets of four-letter pieces of two questions (Broder 1997; the index of
candidates is datasketch's locality-sensitive hashing).
"""

from __future__ import annotations

import unicodedata
from typing import Any, Final

from tracejudge.errors import MissingExtra

_LETTERS: Final = 4
_PERMUTATIONS: Final = 128


def normal(text: str) -> str:
    """What two questions must have in common to be one: letters in one form and size, single spaces."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


class NearDuplicates:
    """Remembers texts; memory grows with those that were no duplicate.

    `threshold` in (0, 1]: the similarity from which on two texts are one. Raises MissingExtra without datasketch.
    """

    def __init__(self, threshold: float) -> None:
        try:
            from datasketch import MinHash, MinHashLSH
        except ImportError as error:
            raise MissingExtra("finding near duplicates", extra="datasets") from error
        self._threshold = threshold
        self._hash: Any = MinHash
        # Candidates from a little below, since the index only estimates what is then computed.
        self._index: Any = MinHashLSH(threshold=max(0.1, threshold - 0.15), num_perm=_PERMUTATIONS)
        self._pieces: list[frozenset[str]] = []

    def seen(self, text: str) -> bool:
        """Whether a text that is near enough was remembered; remembers it if not."""
        pieces = _pieces(normal(text))
        signature = self._hash(num_perm=_PERMUTATIONS, seed=1)
        signature.update_batch([piece.encode("utf-8", "surrogatepass") for piece in sorted(pieces)])
        for number in self._index.query(signature):
            known = self._pieces[int(number)]
            if len(pieces & known) >= self._threshold * len(pieces | known):
                return True
        self._index.insert(str(len(self._pieces)), signature)
        self._pieces.append(pieces)
        return False


def _pieces(text: str) -> frozenset[str]:
    padded = f" {text} "
    return frozenset(padded[start : start + _LETTERS] for start in range(max(1, len(padded) - _LETTERS + 1)))
