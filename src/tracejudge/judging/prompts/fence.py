"""Judged text between markers that it cannot forge, and the traces of an attempt to steer the judge.

Each request draws a code at random, after the judged texts are known and so that none of them holds it. What looks like
one of our markers or like a chat template's control token is broken up in the judged text, since some servers read
control tokens wherever they stand.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from tracejudge.judging.entropy import hex_digits

# Also in the letters and with the invisible characters between them that a model, or a server, reads as the same.
_LESS: Final = "[<\uff1c\ufe64]"
_UNSEEN: Final = "[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]*"
_CONTROL: Final = re.compile(rf"{_LESS}(?={_UNSEEN}[|\uff5c])|{_LESS}(?=(?:{_UNSEEN}{_LESS}){{2}})")
_QUOTE: Final = r"[\"'`*]"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Hint:
    """A pattern of text that speaks to a judge, and plain searches that come before it, since every judged text is
    looked at: a word must be there (`words`; `capitals` as they stand), or something that begins with a mark
    (`marked`), and the pattern begins with one of `starts`."""

    words: tuple[str, ...]
    capitals: tuple[str, ...]
    marked: tuple[tuple[str, tuple[str, ...]], ...]
    pattern: re.Pattern[str]
    starts: tuple[str, ...]

    def found(self, text: str, lowered: str) -> bool:
        if not (
            any(map(lowered.__contains__, self.words))
            or any(map(text.__contains__, self.capitals))
            or (self.marked and self._has_marked(text, lowered))
        ):
            return False
        if not self.starts:
            return self.pattern.search(text) is not None
        for start in self.starts:
            at = lowered.find(start)
            while at >= 0:
                if self.pattern.match(text, at) is not None:
                    return True
                at = lowered.find(start, at + 1)
        return False

    def _has_marked(self, text: str, lowered: str) -> bool:
        for mark, needles in self.marked:
            at = text.find(mark)
            while at >= 0:
                if lowered.startswith(needles, at) or text.startswith(needles, at):
                    return True
                at = text.find(mark, at + 1)
        return False


def _hint(needles: tuple[str, ...], pattern: str, *, starts: tuple[str, ...] = ()) -> _Hint:
    begins = rf"\b(?:{'|'.join(starts)})" if starts else ""
    marked: dict[str, list[str]] = {}
    for needle in needles:
        if not needle[0].isalpha():
            marked.setdefault(needle[0], []).append(needle)
    words = [needle for needle in needles if needle[0].isalpha()]
    return _Hint(
        words=tuple(word for word in words if not word.isupper()),
        capitals=tuple(word for word in words if word.isupper()),
        marked=tuple((mark, tuple(of_mark)) for mark, of_mark in marked.items()),
        pattern=re.compile(begins + pattern, re.IGNORECASE),
        starts=starts,
    )


_HINTS: Final = (
    _hint(
        ("<<<", "<|", "[inst]", "[/inst]", "<s>", "</s>", "\uff1c\uff1c\uff1c", "_of_turn>"),
        r"<<<|\uff1c{3}|<\|[a-z_]{2,20}\|>|\[/?INST\]|</?s>|<(?:start|end)_of_turn>",
    ),
    _hint(
        ("ignore", "disregard", "forget", "override"),
        r"\W+(?:\w+\W+){0,3}(?:instructions?|rules?|prompts?|guidelines?|directions?|above)\b",
        starts=("ignore", "disregard", "forget", "override"),
    ),
    _hint(
        ("YES", "NO", "PASS", '"yes', '"no', '"pass', "'yes", "'no", "'pass", "*yes", "*no", "`yes", "`no"),
        r"[^\w.!?]+(?:\w+[^\w.!?]+){0,5}?"
        rf"(?:(?-i:YES|NO|PASS)\b|{_QUOTE}+(?:yes|no|pass(?:ed)?){_QUOTE}+)",
        starts=("answer", "reply", "respond", "output", "say", "return", "print", "write", "choose", "give"),
    ),
    _hint(("verdict",), rf"{_QUOTE}?\bverdict\b{_QUOTE}?\s*[:=]"),
    _hint(
        ("judge", "evaluator", "grader", "assessor"),
        r"\W+(?:the\W+)?(?:judge|evaluator|grader|assessor)\b",
        starts=(
            "dear",
            "attention",
            "note to",
            "message to",
            "instruction to",
            "instructions to",
            "instruction for",
            "instructions for",
            "to the",
        ),
    ),
    _hint(
        ("instruction", "prompt", "message", "override"),
        r"\W+(?:system\W+)?(?:instructions?|prompt|message|override)\b",
        starts=("new", "updated", "system"),
    ),
)


def new_code(texts: Iterable[str], *, draw: Callable[[], str] = lambda: hex_digits(12)) -> str:
    """A random code that none of `texts` holds."""
    held = list(texts)
    while True:
        code = draw()
        if not any(code in text for text in held):
            return code


def fence(name: str, text: str, code: str) -> str:
    """`text` between the markers of section `name`."""
    return f"<<<{name} {code}>>>\n{clean(text)}\n<<<END {name} {code}>>>"


def clean(text: str) -> str:
    """`text` without control tokens, forged markers and lone surrogates (which no endpoint takes)."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        if "\uff1c" in text or "\ufe64" in text:
            return _CONTROL.sub("‹", text)
    # Most texts hold no such letter, and looking for one costs a fiftieth of the pattern.
    return _CONTROL.sub("‹", text) if "<" in text else text


def suspicious(texts: Iterable[str]) -> bool:
    """True when a text speaks to the judge rather than to a reader. A hint for people; it changes no verdict."""
    text = "\n".join(texts)
    # What is searched for is ASCII, and lower case of anything else costs more than all the searches.
    lowered = (text if text.isascii() else text.encode("ascii", "replace").decode("ascii")).lower()
    return any(hint.found(text, lowered) for hint in _HINTS)
