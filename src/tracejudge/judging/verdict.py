"""Replies of a judge's model, read strictly: a documented shape, or no verdict at all.

Shapes of a yes-or-no verdict, after reasoning blocks and one surrounding code fence are taken off:

1. a JSON object and nothing else, with `verdict` (or the key asked for): "YES", "NO", true, false, "true", "false" in
   any case; optionally `unsupported`, a list of texts;
2. text whose first line begins with the word YES or NO, in any case, possibly bold, possibly after "Verdict:", and then
   ends or goes on after one of `. , : ; ! - – —`.

Shapes of a number: the first line begins with it, possibly bold, possibly after "Score:", possibly followed by
"/<top of the scale>"; a decimal comma is read as a point.

A word is never looked for inside other words or further down. Two verdicts that differ, a YES that lists unsupported
statements, an empty or refused reply give no verdict, whatever else they say. Nothing here raises on any text.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any, Final

from tracejudge.scores import InvalidReason

PARSER: Final = 1
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
class Unreadable:
    """No verdict, and why."""

    reason: InvalidReason
    detail: str


_OPEN_THINKING: Final = re.compile(r"<(think|thinking|reasoning|reflection)>", re.IGNORECASE)
_CLOSE_THINKING: Final = re.compile(r"</(?:think|thinking|reasoning|reflection)>", re.IGNORECASE)
_CODE_FENCE: Final = re.compile(r"\A```[a-zA-Z]*[ \t]*\n(.*?)\n?```\Z", re.DOTALL)
_FIRST_LINE: Final = re.compile(
    r"(?:\*\*)?(?:(?:verdict|answer)(?:\*\*)?\s*:\s*(?:\*\*)?\s*)?(?P<word>yes|no)(?:\*\*)?"
    r"(?:\Z|\s*[.,:;!–—-](?P<rest>.*)\Z)",
    re.IGNORECASE,
)
_LATER_LINE: Final = re.compile(
    r"^[ \t]*(?:\*\*)?(?:(?:final[ \t]+)?(?:verdict|answer)(?:\*\*)?[ \t]*:[ \t]*(?:\*\*)?[ \t]*)?(yes|no)"
    r"(?:\*\*)?[.!]?(?:\*\*)?[ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)
_LOUD_WORD: Final = re.compile(r"\b(YES|NO)\b")
_NUMBER: Final = re.compile(
    r"(?:\*\*)?(?:(?:score|rating)(?:\*\*)?\s*:\s*(?:\*\*)?\s*)?"
    r"(?P<number>[+-]?\d+(?:[.,]\d+)?|[+-]?nan|[+-]?inf(?:inity)?)"
    r"(?:\s*/\s*(?P<top>\d+(?:\.\d+)?))?(?:\*\*)?(?:\Z|[.:;!]?(?:\s+(?P<rest>.*))?\Z)",
    re.IGNORECASE,
)
_REFUSAL: Final = re.compile(
    r"\A\W*(?:i['’]?m (?:really |very |so )?sorry|sorry,|i am sorry|i apologi[sz]e|i['’]m (?:unable|not able) to"
    r"|i (?:can ?not|can['’]t|won['’]t|will not|am unable to)"
    r"|as an ai\b|i must decline|unable to comply|my apologies)",
    re.IGNORECASE,
)


def parse_verdict(text: str, *, key: str = "verdict") -> Verdict | Unreadable:
    """The yes-or-no verdict of a reply, by the shapes above."""
    reply = _visible(text)
    if isinstance(reply, Unreadable):
        return reply
    if reply.startswith("{"):
        return _from_json(reply, key=key)
    first, _, rest = reply.partition("\n")
    found = _FIRST_LINE.match(first.strip())
    if found is None:
        return _no_shape(reply)
    yes = found["word"].lower() == "yes"
    explanation = f"{found['rest'] or ''}\n{rest}".strip()
    others = {word.lower() == "yes" for word in _LATER_LINE.findall(rest)}
    others |= {word == "YES" for word in _LOUD_WORD.findall(explanation)}
    if (not yes) in others:
        return Unreadable(InvalidReason.UNPARSABLE, "two verdicts that differ")
    return Verdict(yes, explanation=explanation)


def parse_number(text: str, *, low: float, high: float) -> Number | Unreadable:
    """The number on the scale from `low` to `high` of a reply, by the shapes above."""
    reply = _visible(text)
    if isinstance(reply, Unreadable):
        return reply
    first, _, rest = reply.partition("\n")
    found = _NUMBER.match(first.strip())
    if found is None:
        return _no_shape(reply)
    if found["top"] is not None and float(found["top"]) != high:
        return Unreadable(
            InvalidReason.OUT_OF_RANGE, f"a number out of {found['top']} on a scale that ends at {high:g}"
        )
    value = float(found["number"].replace(",", "."))
    if not math.isfinite(value) or not low <= value <= high:
        return Unreadable(InvalidReason.OUT_OF_RANGE, f"{value} is not in [{low:g}, {high:g}]")
    return Number(value, f"{found['rest'] or ''}\n{rest}".strip())


def refused(text: str) -> bool:
    """True when a reply begins as a refusal does."""
    return _REFUSAL.match(text) is not None


def _visible(text: str) -> str | Unreadable:
    """The reply without reasoning and code fence."""
    visible, at = [], 0
    while opened := _OPEN_THINKING.search(text, at):
        closed = re.compile(f"</{opened[1]}>", re.IGNORECASE).search(text, opened.end())
        if closed is None:
            return Unreadable(InvalidReason.UNPARSABLE, "the reply ends inside its reasoning")
        visible.append(text[at : opened.start()])
        at = closed.end()
    reply = "".join([*visible, text[at:]])
    # Some servers strip the opening tag.
    if unopened := list(_CLOSE_THINKING.finditer(reply)):
        reply = reply[unopened[-1].end() :]
    reply = reply.strip()
    if fenced := _CODE_FENCE.match(reply):
        reply = fenced[1].strip()
    if not reply:
        return Unreadable(InvalidReason.EMPTY_REPLY, "the reply holds no text")
    return reply


def _no_shape(reply: str) -> Unreadable:
    if refused(reply):
        return Unreadable(InvalidReason.REFUSED, "the judge's model declined")
    return Unreadable(InvalidReason.UNPARSABLE, "the reply has none of the documented shapes")


class _TwiceError(ValueError):
    """A key stands twice in a JSON object."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = [key for key, _ in pairs]
    if len(set(keys)) != len(keys):
        raise _TwiceError
    return dict(pairs)


def _from_json(reply: str, *, key: str) -> Verdict | Unreadable:
    try:
        value = json.loads(reply, object_pairs_hook=_once)
    except _TwiceError:
        return Unreadable(InvalidReason.UNPARSABLE, "a key stands twice in the JSON object")
    except (ValueError, RecursionError):
        return Unreadable(InvalidReason.UNPARSABLE, "not one whole JSON object and nothing else")
    yes = _truth(value.get(key))
    if yes is None:
        return Unreadable(InvalidReason.UNPARSABLE, f"{key!r} is missing, or neither YES nor NO")
    statements = value.get("unsupported", [])
    if not isinstance(statements, list) or not all(isinstance(item, str) for item in statements):
        return Unreadable(InvalidReason.UNPARSABLE, "'unsupported' is not a list of texts")
    statements = tuple(item.strip() for item in statements if item.strip())
    if yes and statements:
        return Unreadable(InvalidReason.UNPARSABLE, "the verdict is YES beside a list of unsupported statements")
    explanation = next((v for k in ("feedback", "reason") if isinstance(v := value.get(k), str)), "")
    return Verdict(yes, statements=statements, explanation=explanation)


def _truth(value: Any) -> bool | None:
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return {"yes": True, "true": True, "no": False, "false": False}.get(value.strip().lower())
    return None
