"""Judged text between markers that it cannot forge, and the traces of an attempt to steer the judge.

Each request draws a code at random, after the judged texts are known and so that none of them holds it. What looks like
one of our markers or like a chat template's control token is broken up in the judged text, since some servers read
control tokens wherever they stand.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterable
from typing import Final

_CONTROL: Final = re.compile(r"<(?=\|)|<(?=<<)")
_QUOTE: Final = r"[\"'`*]"

_HINTS: Final = tuple(
    (needles, re.compile(pattern, re.IGNORECASE))
    for needles, pattern in (
        # The needles are looked for first, those in capitals as they stand: plain searches keep this cheap.
        (("<<<", "<|", "[inst]", "[/inst]", "<s>", "</s>"), r"<<<|<\|[a-z_]{2,20}\|>|\[/?INST\]|</?s>"),
        (
            ("ignore", "disregard", "forget", "override"),
            r"\b(?:ignore|disregard|forget|override)\W+(?:\w+\W+){0,3}"
            r"(?:instructions?|rules?|prompts?|guidelines?|directions?|above)\b",
        ),
        (
            ("YES", "NO", "PASS", '"yes', '"no', '"pass', "'yes", "'no", "'pass", "*yes", "*no", "`yes", "`no"),
            r"\b(?:answer|reply|respond|output|say|return|print|write|choose|give)[^\w.!?]+(?:\w+[^\w.!?]+){0,5}?"
            rf"(?:(?-i:YES|NO|PASS)\b|{_QUOTE}+(?:yes|no|pass(?:ed)?){_QUOTE}+)",
        ),
        (("verdict",), rf"{_QUOTE}?\bverdict\b{_QUOTE}?\s*[:=]"),
        (
            ("judge", "evaluator", "grader", "assessor"),
            r"\b(?:dear|attention|note to|message to|instructions? (?:to|for)|to the)\W+(?:the\W+)?"
            r"(?:judge|evaluator|grader|assessor)\b",
        ),
        (
            ("instruction", "prompt", "message", "override"),
            r"\b(?:new|updated|system)\W+(?:system\W+)?(?:instructions?|prompt|message|override)\b",
        ),
    )
)


def new_code(texts: Iterable[str], *, draw: Callable[[], str] = lambda: secrets.token_hex(6)) -> str:
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
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return _CONTROL.sub("‹", text)


def suspicious(texts: Iterable[str]) -> bool:
    """True when a text speaks to the judge rather than to a reader. A hint for people; it changes no verdict."""
    text = "\n".join(texts)
    lowered = text.lower()
    return any(
        any(needle in (text if needle.isupper() else lowered) for needle in needles)
        and pattern.search(text) is not None
        for needles, pattern in _HINTS
    )
