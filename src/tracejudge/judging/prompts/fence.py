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
_INJECTION: Final = re.compile(
    r"<<<|<\|[a-z_]{2,20}\|>|\[/?INST\]|</?s>"
    r"|\b(?:ignore|disregard|forget|override)\W+(?:\w+\W+){0,3}"
    r"(?:instructions?|rules?|prompts?|guidelines?|directions?|above)\b"
    r"|\b(?:answer|reply|respond|output|say|return|print|write|choose|give)[^\w.!?]+(?:\w+[^\w.!?]+){0,5}?"
    r"(?:(?-i:YES|NO|PASS)\b|[\"'`*]+(?:yes|no|pass(?:ed)?)[\"'`*]+)"
    r"|[\"']?\bverdict\b[\"']?\s*[:=]"
    r"|\b(?:dear|attention|note to|message to|instructions? (?:to|for)|to the)\W+(?:the\W+)?"
    r"(?:judge|evaluator|grader|assessor)\b"
    r"|\b(?:new|updated|system)\W+(?:system\W+)?(?:instructions?|prompt|message|override)\b",
    re.IGNORECASE,
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
    return any(_INJECTION.search(text) for text in texts)
