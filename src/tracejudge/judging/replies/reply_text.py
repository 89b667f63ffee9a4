"""A reply as far as it is meant to be read: without reasoning and code fence, and JSON without a key said twice."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final

from tracejudge.judging.replies.verdict_words import REFUSAL
from tracejudge.scores import InvalidReason


@dataclass(frozen=True, slots=True)
class Unreadable:
    """No verdict, and why."""

    reason: InvalidReason
    detail: str


_OPEN_THINKING: Final = re.compile(r"<(think|thinking|reasoning|reflection)>", re.IGNORECASE)
_CLOSE_THINKING: Final = re.compile(r"</(?:think|thinking|reasoning|reflection)>", re.IGNORECASE)
_CODE_FENCE: Final = re.compile(r"\A```[a-zA-Z]*[ \t]*\n(.*?)\n?```\Z", re.DOTALL)


_NOTHING: Final = Unreadable(InvalidReason.EMPTY_REPLY, "the reply holds no text")


def visible(text: str) -> str | Unreadable:
    """The reply without reasoning and without one surrounding code fence; never empty."""
    if "<" not in text and "`" not in text:  # neither of them begins here
        return text.strip() or _NOTHING
    kept, at = [], 0
    while opened := _OPEN_THINKING.search(text, at):
        closed = re.compile(f"</{opened[1]}>", re.IGNORECASE).search(text, opened.end())
        if closed is None:
            return Unreadable(InvalidReason.UNPARSABLE, "the reply ends inside its reasoning")
        kept.append(text[at : opened.start()])
        at = closed.end()
    reply = "".join([*kept, text[at:]])
    # Some servers strip the opening tag.
    if unopened := list(_CLOSE_THINKING.finditer(reply)):
        reply = reply[unopened[-1].end() :]
    reply = reply.strip()
    if fenced := _CODE_FENCE.match(reply):
        reply = fenced[1].strip()
    if not reply:
        return _NOTHING
    return reply


def refused(text: str) -> bool:
    """True when a reply begins as a refusal does."""
    return REFUSAL.match(text) is not None


def no_shape(reply: str) -> Unreadable:
    """The refusal of a reply that has none of the known shapes."""
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


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_once)  # `json.loads` would build one for each reply


def json_object(reply: str) -> dict[str, Any] | Unreadable:
    """The JSON object that the whole reply consists of, or why there is none."""
    try:
        value = _DECODER.decode(reply)
    except _TwiceError:
        return Unreadable(InvalidReason.UNPARSABLE, "a key stands twice in the JSON object")
    except (ValueError, RecursionError):
        return Unreadable(InvalidReason.UNPARSABLE, "not one whole JSON object and nothing else")
    if not isinstance(value, dict):
        return Unreadable(InvalidReason.UNPARSABLE, "the reply is JSON, but no object")
    return value


def explanation_of(value: dict[str, Any]) -> str:
    """The reason given in a JSON reply; "" where it gives none."""
    return next((found for key in ("reason", "feedback") if isinstance(found := value.get(key), str)), "")
