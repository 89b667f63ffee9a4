"""Replies of a judge's model, read strictly: a documented shape, or no verdict at all.

Reasoning blocks and one surrounding code fence are taken off first, never inside JSON. Then a reply is one JSON object
and nothing else:

- yes or no: `verdict` (or the key asked for): YES, NO, true, false or their texts, in any case; optionally a list of
  texts that speak against it (`unsupported`; null for none)
- a number: `score`, a number or a text of a shape below
- a choice: `better`: A, B or TIE

or text whose first line begins with the word or number, possibly bold:

- yes or no, possibly after "Verdict:"; then the line ends, or goes on after one of `. , : ; ! - – —`
- a number, possibly after "Score:", possibly followed by "/<top of the scale>"; a decimal comma is read as a point
- a choice, or [[A]], [[B]], [[C]] (a tie), as for yes or no

YES and NO may be said in the languages of `verdict_words`. A word is never looked for inside other words or further
down. Two verdicts that differ, a YES that lists what speaks against it, a number outside its scale or NaN, an empty or
refused reply give no verdict, whatever else they say. Nothing here raises on any text.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any, Final, Literal

from tracejudge.judging.replies.reply_text import Unreadable, explanation_of, json_object, no_shape, refused, visible
from tracejudge.judging.replies.verdict_words import ANY_WORD, LABELS, LOUD, polarity
from tracejudge.scores import InvalidReason

__all__ = [
    "PARSER",
    "Choice",
    "Number",
    "Unreadable",
    "Verdict",
    "parse_choice",
    "parse_number",
    "parse_verdict",
    "refused",
]

PARSER: Final = 4
"""Raised whenever a reply would be read otherwise than before; part of every JudgeId whose judge replies in words."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Yes or no, with what the judge had to say about it."""

    yes: bool
    statements: tuple[str, ...] = ()
    explanation: str = ""


@dataclass(frozen=True, slots=True)
class Number:
    """A number on the scale asked for, with the rest of the reply."""

    value: float
    explanation: str = ""


@dataclass(frozen=True, slots=True)
class Choice:
    """Which of two answers is better, or neither, with the rest of the reply."""

    better: Literal["A", "B", "TIE"]
    explanation: str = ""


_BOLD: Final = r"(?:\*\*)?"
_LABEL: Final = rf"(?:{LABELS}{_BOLD}\s*[:：]\s*{_BOLD}\s*)?"
_STOP: Final = r"(?:\Z|\s*[.,:;!–—。，、；：！-](?P<rest>.*)\Z)"
_FIRST_LINE: Final = re.compile(rf"{_BOLD}{_LABEL}(?P<word>{ANY_WORD}){_BOLD}{_STOP}", re.IGNORECASE)
_LATER_LINE: Final = re.compile(
    rf"^[ \t]*{_BOLD}{_LABEL}({ANY_WORD}){_BOLD}[.!。]?{_BOLD}[ \t]*$", re.IGNORECASE | re.MULTILINE
)
_NUMBER: Final = re.compile(
    rf"{_BOLD}(?:(?:score|rating){_BOLD}\s*:\s*{_BOLD}\s*)?"
    r"(?P<number>[+-]?\d+(?:[.,]\d+)?|[+-]?nan|[+-]?inf(?:inity)?)"
    rf"(?:\s*/\s*(?P<top>\d+(?:\.\d+)?))?{_BOLD}(?:\Z|[.:;!]?(?:\s+(?P<rest>.*))?\Z)",
    re.IGNORECASE,
)
_CHOICE: Final = re.compile(
    rf"{_BOLD}(?:(?:final[ \t]+)?(?:verdict|answer|better){_BOLD}\s*:\s*{_BOLD}\s*)?"
    rf"(?:\[\[(?P<boxed>[ABC])\]\]|(?P<word>A|B|TIE)\b){_BOLD}{_STOP}"
)
_LATER_CHOICE: Final = re.compile(rf"^[ \t]*{_BOLD}(?:\[\[([ABC])\]\]|(A|B|TIE)){_BOLD}[.!]?[ \t]*$", re.MULTILINE)


def parse_verdict(text: str, *, key: str = "verdict", against: str = "unsupported") -> Verdict | Unreadable:
    """The yes-or-no verdict of a reply, by the shapes above. `against` is the list that a YES leaves empty."""
    reply = visible(text)
    if isinstance(reply, Unreadable):
        return reply
    if reply.startswith("{"):
        return _verdict_of_json(reply, key=key, against=against)
    first, _, rest = reply.partition("\n")
    found = _FIRST_LINE.match(first.strip())
    if found is None:
        return no_shape(reply)
    yes = polarity(found["word"])
    if yes is None:
        return no_shape(reply)
    explanation = f"{found['rest'] or ''}\n{rest}".strip()
    if not explanation:
        return Verdict(yes)
    others = {polarity(word) for word in (*_LATER_LINE.findall(rest), *LOUD.findall(explanation))}
    if (not yes) in others:
        return Unreadable(InvalidReason.UNPARSABLE, "two verdicts that differ")
    return Verdict(yes, explanation=explanation)


def parse_number(text: str, *, low: float, high: float) -> Number | Unreadable:
    """The number on the scale from `low` to `high` of a reply, by the shapes above."""
    reply = visible(text)
    if isinstance(reply, Unreadable):
        return reply
    if reply.startswith("{"):
        value = json_object(reply)
        if isinstance(value, Unreadable):
            return value
        said = value.get("score")
        if isinstance(said, bool) or not isinstance(said, int | float | str):
            return Unreadable(InvalidReason.UNPARSABLE, "'score' is missing, or no number")
        # Python turns 10**400 into inf, which is then off its scale, but only where the text says 1e400.
        number = _number(said if isinstance(said, str) else repr(said), low=low, high=high)
        return Number(number.value, explanation_of(value)) if isinstance(number, Number) else number
    first, _, rest = reply.partition("\n")
    number = _number(first, low=low, high=high)
    if isinstance(number, Number):
        return Number(number.value, f"{number.explanation}\n{rest}".strip())
    return no_shape(reply) if number.reason is InvalidReason.UNPARSABLE else number


def parse_choice(text: str, *, key: str = "better") -> Choice | Unreadable:
    """Which of A and B is better according to a reply, by the shapes above."""
    reply = visible(text)
    if isinstance(reply, Unreadable):
        return reply
    if reply.startswith("{"):
        value = json_object(reply)
        if isinstance(value, Unreadable):
            return value
        said = value.get(key)
        word = said.strip().upper() if isinstance(said, str) else ""
        if word not in ("A", "B", "TIE"):
            return Unreadable(InvalidReason.UNPARSABLE, f"{key!r} is missing, or none of A, B and TIE")
        return Choice(word, explanation_of(value))  # type: ignore[arg-type]
    first, _, rest = reply.partition("\n")
    found = _CHOICE.match(first.strip())
    if found is None:
        return no_shape(reply)
    better = _choice(found["boxed"] or found["word"])
    explanation = f"{found['rest'] or ''}\n{rest}".strip()
    if {_choice(boxed or word) for boxed, word in _LATER_CHOICE.findall(rest)} - {better}:
        return Unreadable(InvalidReason.UNPARSABLE, "two verdicts that differ")
    return Choice(better, explanation)


def _choice(word: str) -> Literal["A", "B", "TIE"]:
    # [[C]] is how LlamaIndex's pairwise prompt asks for a tie.
    return "A" if word == "A" else "B" if word == "B" else "TIE"


def _number(line: str, *, low: float, high: float) -> Number | Unreadable:
    found = _NUMBER.match(line.strip())
    if found is None:
        return Unreadable(InvalidReason.UNPARSABLE, "no number of a documented shape")
    if found["top"] is not None and float(found["top"]) != high:
        return Unreadable(
            InvalidReason.OUT_OF_RANGE, f"a number out of {found['top']} on a scale that ends at {high:g}"
        )
    value = float(found["number"].replace(",", "."))
    if not math.isfinite(value) or not low <= value <= high:
        return Unreadable(InvalidReason.OUT_OF_RANGE, f"{value} is not in [{low:g}, {high:g}]")
    return Number(value, found["rest"] or "")


def _verdict_of_json(reply: str, *, key: str, against: str) -> Verdict | Unreadable:
    value = json_object(reply)
    if isinstance(value, Unreadable):
        return value
    yes = _truth(value.get(key))
    if yes is None:
        return Unreadable(InvalidReason.UNPARSABLE, f"{key!r} is missing, or neither YES nor NO")
    statements = value.get(against)
    if statements is None:  # how some models write an empty list
        statements = []
    if not isinstance(statements, list) or not all(isinstance(item, str) for item in statements):
        return Unreadable(InvalidReason.UNPARSABLE, f"{against!r} is not a list of texts")
    statements = tuple(item.strip() for item in statements if item.strip())
    if yes and statements:
        return Unreadable(InvalidReason.UNPARSABLE, f"the verdict is YES beside a list of what is {against}")
    return Verdict(yes, statements=statements, explanation=explanation_of(value))


def _truth(value: Any) -> bool | None:
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        word = value.strip()
        return {"true": True, "false": False}.get(word.lower(), polarity(word))
    return None
