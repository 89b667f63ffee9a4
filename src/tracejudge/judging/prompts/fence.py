"""Judged text between markers that it cannot forge.

Each request draws a code at random, after the judged texts are known and so that none of them holds it. What looks like
one of our markers or like a chat template's control token is broken up in the judged text, since some servers read
control tokens wherever they stand. So are the tags of reasoning: a judge may quote them, and servers cut its reply
there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final

from tracejudge.judging.entropy import hex_digits

# Also in the letters and with the invisible characters between them that a model, or a server, reads as the same.
_LESS: Final = "[<\uff1c\ufe64]"
_UNSEEN: Final = "[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]*"
# Two runs of them side by side would be tried in every division: one "<" before 100 kB of them took minutes.
_TAG: Final = rf"(?:{_UNSEEN}/)?{_UNSEEN}"
_TURN: Final = r"s|bos|eos|pad|unk|(?:start|end)_of_turn|turn\||(?:bos|eos|eop)_token|tool_(?:calls?|response)"
_CONTROL: Final = re.compile(
    rf"{_LESS}(?={_UNSEEN}[|\uff5c])|{_LESS}(?=(?:{_UNSEEN}{_LESS}){{2}})"
    rf"|{_LESS}(?={_TAG}(?:think|thinking|reasoning|reflection|{_TURN})>)",
    re.IGNORECASE,
)
_SQUARE: Final = re.compile(
    r"\[(?=/?(?:INST|THINK|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT)\])", re.IGNORECASE
)
"""Mistral's. Gemma's, and Llama's first ones, are among the tags above."""


def new_code(texts: Iterable[str], *, draw: Callable[[], str] = lambda: hex_digits(12)) -> str:
    """A random code that none of `texts` holds."""
    held = list(texts)
    while True:
        code = draw()
        if not any(code in text for text in held):
            return code


def fenced(name: str, text: str, code: str, before: str = "") -> tuple[str, ...]:
    """`before`, then `text`, which is clean, between the markers of section `name`.

    In pieces, so that a passage is copied once: into the whole request.
    """
    mark = f"{name} {code}>>>"
    return f"{before}<<<{mark}\n", text, "\n<<<END ", mark


def is_clean(text: str) -> bool:
    """True where it takes no closer look to see that `clean` would change nothing in `text`, or in any part of it."""
    if "<" in text or ("[" in text and _SQUARE.search(text) is not None):
        return False
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\uff1c" not in text and "\ufe64" not in text


def clean(text: str) -> str:
    """`text` without control tokens, forged markers and lone surrogates (which no endpoint takes)."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    # Most texts hold no such letter, and looking for one costs a fiftieth of the pattern.
    if "[" in text:
        text = _SQUARE.sub("⁅", text)
    if "<" in text or (not text.isascii() and ("\uff1c" in text or "\ufe64" in text)):
        return _CONTROL.sub("‹", text)
    return text
