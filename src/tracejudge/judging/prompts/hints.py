"""Whether a judged text speaks to the judge rather than to a reader. A hint for people; it changes no verdict.

Every judged text is looked at, and nearly all of them are innocent, so quick searches come before the patterns. A
pattern that begins with one letter is searched for that letter, at less than a thousandth of a microsecond a character;
so words that share a rare letter are looked for together, from that letter on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_QUOTES: Final = "\"'`*"
_QUOTE: Final = rf"[{_QUOTES}]"


class _Said:
    """A pattern that begins with one of `starts`."""

    def __init__(self, *starts: str, then: str) -> None:
        self._starts = starts
        self._pattern = re.compile(rf"\b(?:{'|'.join(starts)}){then}", re.IGNORECASE)

    def stands_in(self, text: str, lowered: str) -> bool:
        for start in self._starts:
            at = lowered.find(start)
            while at >= 0:
                if self._pattern.match(text, at) is not None:
                    return True
                at = lowered.find(start, at + 1)
        return False


_DISMISSAL: Final = _Said(
    *("ignore", "disregard", "forget", "override"),
    then=r"\W+(?:\w+\W+){0,3}(?:instructions?|rules?|prompts?|guidelines?|directions?|above)\b",
)
_ADDRESS: Final = _Said(
    *("dear", "attention", "note to", "message to", "instruction to", "instructions to", "instruction for"),
    *("instructions for", "to the"),
    then=r"\W+(?:the\W+)?(?:judge|evaluator|grader|assessor)\b",
)
_NEW_RULE: Final = _Said(
    *("new", "updated", "system"), then=r"\W+(?:system\W+)?(?:instructions?|prompt|message|override)\b"
)
_DICTATED: Final = _Said(
    *("answer", "reply", "respond", "output", "say", "return", "print", "write", "choose", "give"),
    then=r"[^\w.!?]+(?:\w+[^\w.!?]+){0,5}?" rf"(?:(?-i:YES|NO|PASS)\b|{_QUOTE}(?:yes|no|pass(?:ed)?){_QUOTE})",
)
# One quotation mark, and no more: what stands before it takes the others already, and two repeats of them side by side
# would be tried in every division.
_VERDICT: Final = re.compile(rf"{_QUOTE}?\bverdict\b{_QUOTE}?\s*[:=]")
_ANGLED: Final = re.compile(r"<(?:<<|\|[a-z_]{2,20}\|>|/?s>|(?:start|end)_of_turn>)")
_SQUARE: Final = re.compile(r"\[(?:inst\]|/inst\])")

_WITH_G: Final = re.compile(r"g(?:nore|rader|ard(?<=disregard)|et(?<=forget)|e(?:(?<=judge)|(?<=message)))")
_DISMISSING: Final = re.compile(r"g(?:nore|ard(?<=disregard)|et(?<=forget))")
_JUDGING: Final = re.compile(r"g(?:rader|e(?<=judge))")
_WITH_V: Final = re.compile(r"v(?:erdict|erride|aluator)")
_PROMPT: Final = re.compile(r"pt(?<=prompt)")
_CAPITALS: Final = tuple((word[0], re.compile(rf"{word}\b")) for word in ("NO", "YES", "PASS"))
_QUOTED: Final = tuple((mark, re.compile(rf"\{mark}(?:yes|no|pass(?:ed)?){_QUOTE}")) for mark in _QUOTES)


def suspicious(texts: Iterable[str]) -> bool:
    """True when one of the texts speaks to the judge."""
    text = "\n".join(texts)
    # What is searched for is ASCII, and lower case of anything else costs more than all the searches.
    lowered = (text if text.isascii() else text.encode("ascii", "replace").decode("ascii")).lower()
    return _holds_tokens(text, lowered) or _speaks(text, lowered) or _dictates(text, lowered)


def _holds_tokens(text: str, lowered: str) -> bool:
    """Control tokens of chat templates, or what looks like one of our markers."""
    return (
        ("<" in text and _ANGLED.search(lowered) is not None)
        or ("[" in text and _SQUARE.search(lowered) is not None)
        or ("\uff1c" in text and "\uff1c\uff1c\uff1c" in text)
    )


def _speaks(text: str, lowered: str) -> bool:
    """A judge that is addressed, rules that are put aside or made, a verdict announced."""
    if not _names_something(lowered):
        return False
    rare = _WITH_V.search(lowered) is not None  # each of its words belongs to one hint or another
    return (
        ((rare or _DISMISSING.search(lowered) is not None) and _DISMISSAL.stands_in(text, lowered))
        or (
            (rare or _JUDGING.search(lowered) is not None or "assessor" in lowered)
            and _ADDRESS.stands_in(text, lowered)
        )
        or (
            (rare or "message" in lowered or "instruction" in lowered or _PROMPT.search(lowered) is not None)
            and _NEW_RULE.stands_in(text, lowered)
        )
        or (rare and _VERDICT.search(lowered) is not None)
    )


def _names_something(lowered: str) -> bool:
    return (
        _WITH_G.search(lowered) is not None
        or _WITH_V.search(lowered) is not None
        or _PROMPT.search(lowered) is not None
        or "instruction" in lowered
        or "assessor" in lowered
    )


def _dictates(text: str, lowered: str) -> bool:
    """An order to answer with a verdict, which stands there in capitals or in quotation marks."""
    # Whether a letter is there at all costs next to nothing.
    for letter, capitals in _CAPITALS:
        if letter in text and capitals.search(text) is not None:
            return _DICTATED.stands_in(text, lowered)
    for mark, quoted in _QUOTED:
        if mark in lowered and quoted.search(lowered) is not None:
            return _DICTATED.stands_in(text, lowered)
    return False
