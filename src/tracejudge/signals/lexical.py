"""Sentences, numbers and names of a response, and how far its words occur in its passages.

Everything here looks at words alone: it sees an answer that is not from the passages, and it is blind to wrong
relations and negations made of the passages' own words. Made for languages that put spaces between words; the stop list
and the stemming are for English, other languages merely lose some matches. Linear in the text: about 0.3 ms a trace.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Final

from tracejudge.signals.beyond_ascii import beyond_ascii
from tracejudge.signals.stems import NUMBER_STEMS, content_stem, content_stems, tokens

# Neither alternative begins with a repetition, else a long run of blanks would cost its square.
_SENTENCE_END: Final = re.compile(r"(?:(?<=[.!?…])|(?<=[.!?…][\"'”’)\]]))\s+|\n[\s\-*•·]*")
_ABBREVIATION: Final = re.compile(
    r"(?:\b(?i:e\.g|i\.e|cf|vs|etc|mr|mrs|ms|dr|prof|st|fig|eq|inc|ltd|co|corp|approx|jr|sr|u\.s|u\.k|a\.m|p\.m)|\b[A-Z])\.\Z"
)

_LONGEST_ABBREVIATION: Final = 12

# Scripts written without spaces between words: Thai, Lao, Tibetan, Burmese, Khmer, kana, Han and its extensions.
_UNSPACED: Final = re.compile(
    "[\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff\u3041-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003134f]"
)
_LETTER: Final = re.compile(r"[^\W\d_]")
_UNSPACED_SHARE: Final = 0.2  # a few names in another script do not make an English text unreadable

_SCRIPTS: Final = tuple(
    (name, re.compile(letters))
    for name, letters in (
        ("latin", "[A-Za-z\u00c0-\u024f\u1e00-\u1eff]"),
        ("greek", "[\u0370-\u03ff\u1f00-\u1fff]"),
        ("cyrillic", "[\u0400-\u052f]"),
        ("armenian", "[\u0530-\u058f]"),
        ("hebrew", "[\u0590-\u05ff]"),
        ("arabic", "[\u0600-\u06ff\u0750-\u077f\u08a0-\u08ff]"),
        ("indic", "[\u0900-\u0dff]"),
        ("georgian", "[\u10a0-\u10ff]"),
        ("hangul", "[\u1100-\u11ff\u3130-\u318f\uac00-\ud7af]"),
        ("unspaced", _UNSPACED.pattern),
    )
)
_SCRIPT_CHARS: Final = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SentenceMatch:
    """One sentence of a response against the passages. Shares are in [0, 1]."""

    text: str
    word_share: float  # of its content words
    pair_share: float  # of its pairs of neighbouring content words; the word share where it has no pair
    unmatched_words: tuple[str, ...]  # as written, in order


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A response against its passages, sentence by sentence. Sentences without content words are left out."""

    sentences: tuple[SentenceMatch, ...]
    unmatched_numbers: tuple[str, ...]  # as written, each once, in order
    unmatched_names: tuple[str, ...]

    @property
    def features(self) -> tuple[float, float, float, float, float, float]:
        """Mean and minimum word share, mean and minimum pair share, numbers and names that no passage holds."""
        words = [sentence.word_share for sentence in self.sentences]
        pairs = [sentence.pair_share for sentence in self.sentences]
        n = len(self.sentences)
        return (
            sum(words) / n,
            min(words),
            sum(pairs) / n,
            min(pairs),
            float(len(self.unmatched_numbers)),
            float(len(self.unmatched_names)),
        )


def can_split(text: str) -> bool:
    """False for text mostly in a script without spaces between words (Chinese, Japanese, Thai, ...)."""
    if text.isascii():
        return True
    unspaced = len(_UNSPACED.findall(beyond_ascii(text)))  # none of them is ASCII
    return unspaced == 0 or unspaced <= _UNSPACED_SHARE * len(_LETTER.findall(text))


def main_script(text: str) -> str:
    """The script most letters at the start of `text` belong to, "" where none of the known ones occurs."""
    start = text[:_SCRIPT_CHARS]
    letters = len(_LETTER.findall(start))
    if letters and start.isascii():
        return "latin"
    most, found = 0, ""
    for name, pattern in _SCRIPTS:
        count = len(pattern.findall(start)) if letters else 0
        if 2 * count > letters:
            return name
        if count > most:
            most, found = count, name
    return found


def sentences(text: str) -> list[str]:
    """`text` cut after full stops, question and exclamation marks and at line breaks; abbreviations do not end one."""
    found: list[str] = []
    pending: list[str] = []
    for piece in _SENTENCE_END.split(text):
        if not piece or piece.isspace():
            continue
        pending.append(piece.strip())
        if not _ABBREVIATION.search(piece[-_LONGEST_ABBREVIATION:]):
            found.append(" ".join(pending))
            pending = []
    if pending:
        found.append(" ".join(pending))
    return found


def match(response: str, passages: Sequence[str]) -> Match | None:
    """The response's sentences against all passages together; None where the response has no content word."""
    per_passage = [content_stems(passage) for passage in passages]
    words = set(chain.from_iterable(per_passage))
    pairs = set(chain.from_iterable(map(pairwise, per_passage)))
    numbers = words | {NUMBER_STEMS[word] for word in words & NUMBER_STEMS.keys()}
    matched: list[SentenceMatch] = []
    unmatched_numbers: dict[str, str] = {}
    unmatched_names: dict[str, str] = {}
    for sentence in sentences(response):
        written = tokens(sentence)
        kept = [(word, token) for token in written if (word := content_stem(token))]
        if not kept:
            continue
        own = [word for word, _ in kept]
        own_pairs = list(pairwise(own))
        word_share = sum(word in words for word in own) / len(own)
        pair_share = sum(pair in pairs for pair in own_pairs) / len(own_pairs) if own_pairs else word_share
        missing = tuple(token for word, token in kept if word not in words)
        matched.append(
            SentenceMatch(text=sentence, word_share=word_share, pair_share=pair_share, unmatched_words=missing)
        )
        for token in missing:
            word = content_stem(token)
            if token[0].isdigit():
                if word not in numbers:
                    unmatched_numbers.setdefault(word, token)
            # The first word of a sentence is capitalised whatever it is.
            elif token[0].isupper() and token is not written[0]:
                unmatched_names.setdefault(word, token)
    if not matched:
        return None
    return Match(
        sentences=tuple(matched),
        unmatched_numbers=tuple(unmatched_numbers.values()),
        unmatched_names=tuple(unmatched_names.values()),
    )
