"""What follows from a short text alone, worked out once for each: words come again and again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

_T = TypeVar("_T")

_LONGEST: Final = 64  # numbers and words with an apostrophe can be longer; a memory full of those is heavy
_MOST: Final = 65_536


class Memo(dict[str, _T]):
    """`make` of each text. Looked up as a dict, since it is asked for every word."""

    def __init__(self, make: Callable[[str], _T]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, text: str) -> _T:
        made = self._make(text)
        if len(text) <= _LONGEST:
            if len(self) >= _MOST:
                self.clear()  # rare words go, and common ones are back at once
            self[text] = made
        return made
