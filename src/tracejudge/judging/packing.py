"""Texts packed into a judge's window, and what does not fit cut into parts.

The rule (`PACKING` in every JudgeId of a judge that asks a model):

1. The window, less the reply's bound, the prompt's own text and a margin for markers, is the room for judged texts.
   Tokens are estimated from UTF-8 bytes, so that a Chinese character counts more than a Latin letter.
2. Of the conversation the latest turns go in, up to a quarter of the room; older ones are left out.
3. When everything else fits, it is one call.
4. Else the response may take half of the room (all of it where the judge reads no passages). A longer one is cut into
   parts of that size.
5. The passages go, in their order, into what is left: each call takes the next ones that fit whole; a passage that
   fits no call by itself is cut.
6. Cuts are made after a paragraph, else a line, a sentence, a word, in the last tenth of the part, else anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from tracejudge.judging.calls.cost import CHARS_PER_TOKEN

MARKER_TOKENS: Final = 24
"""Of the two lines around one text, with name and code."""

_MOST_BYTES: Final = 4  # of one character in UTF-8
_MARGIN_TOKENS: Final = 32  # roles and separators of the request itself
_ENDS: Final = tuple(re.compile(pattern) for pattern in (r"\n\s*\n", r"\n", r"[.!?。！？]['\")\]]*\s|[。！？]", r"\s"))
_SEARCHED: Final = 10  # a cut is looked for in the last tenth of a part


class Piece(NamedTuple):
    """A passage or a part of one. `part` is 0 where it is whole, else counts from 1."""

    number: int
    part: int
    text: str

    @property
    def name(self) -> str:
        return f"PASSAGE {self.number} PART {self.part}" if self.part else f"PASSAGE {self.number}"


def text_tokens(text: str) -> int:
    """Tokens of `text`, estimated: UTF-8 bytes at the rate of English characters, rounded up."""
    size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    return -int(-size // CHARS_PER_TOKEN)


def section_tokens(text: str) -> int:
    """Tokens of a text between its markers."""
    return text_tokens(text) + MARKER_TOKENS


def most_section_tokens(*, chars: int, texts: int) -> int:
    """An upper bound of `section_tokens` for `texts` texts of `chars` characters together, whatever they say."""
    return int(_MOST_BYTES * chars / CHARS_PER_TOKEN) + (MARKER_TOKENS + 1) * texts


def room_tokens(*, window: int, reply: int, prompt: Sequence[str]) -> int:
    """Tokens left for judged texts; negative where the prompt alone is too long."""
    return window - reply - _MARGIN_TOKENS - sum(map(text_tokens, prompt))


def cut(text: str, tokens: int) -> list[str]:
    """`text` in parts of at most `tokens` each, none of them blank. Raises ValueError for less than one token."""
    if tokens < 1:
        raise ValueError(f"tokens: {tokens} holds nothing")
    parts = []
    while text_tokens(text) > tokens:
        end = _fitting(text, tokens)
        end = _nice_end(text, end)
        parts.append(text[:end])
        text = text[end:]
    parts.append(text)
    return [part.strip() for part in parts if not part.isspace() and part]


def pack(passages: Sequence[str], tokens: int) -> list[list[Piece]]:
    """The passages in their order, in as few calls of at most `tokens` as going through them once gives."""
    calls: list[list[Piece]] = []
    left = 0
    for number, passage in enumerate(passages, start=1):
        whole = section_tokens(passage)
        texts = [passage] if whole <= tokens else cut(passage, tokens - MARKER_TOKENS)
        for part, text in enumerate(texts, start=1):
            size = whole if len(texts) == 1 else section_tokens(text)
            if size > left:
                calls.append([])
                left = tokens
            calls[-1].append(Piece(number, part if len(texts) > 1 else 0, text))
            left -= size
    return calls


def _fitting(text: str, tokens: int) -> int:
    """How many of the first characters fit, at least one."""
    most = int(tokens * CHARS_PER_TOKEN)
    if text.isascii():
        return max(1, most)
    # Bytes can only be more than characters: begin with as many, and take off until it fits.
    end = min(len(text), most)
    while end > 1 and (size := len(text[:end].encode("utf-8", "surrogatepass"))) > most:
        end = max(1, min(end - 1, end * most // size))
    return max(1, end)


def _nice_end(text: str, end: int) -> int:
    begin = end - max(1, end // _SEARCHED)
    for pattern in _ENDS:
        found = [match.end() for match in pattern.finditer(text, begin, end)]
        if found:
            return found[-1]
    return end
