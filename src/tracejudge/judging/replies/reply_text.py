"""A reply as far as it is meant to be read: without reasoning and code fence, and JSON without a key said twice."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final

from tracejudge.judging.replies.verdict_words import ANY_WORD, LABELS, REFUSAL
from tracejudge.scores import InvalidReason


@dataclass(frozen=True, slots=True)
class Unreadable:
    """No verdict, and why."""

    reason: InvalidReason
    detail: str


_OPEN_THINKING: Final = re.compile(r"<(think|thinking|reasoning|reflection)>", re.IGNORECASE)
_CLOSE_THINKING: Final = re.compile(r"</(?:think|thinking|reasoning|reflection)>", re.IGNORECASE)
_CODE_FENCE: Final = re.compile(
    r"\A```[a-zA-Z]*(?:[ \t]*\r?\n(?P<lines>.*?)\r?\n?|\s*(?P<json>\{.*\})\s*)```\Z", re.DOTALL
)
_SAYS: Final = re.compile(
    rf"\W*(?:{LABELS}\W*)?(?:(?:{ANY_WORD}|A|B|TIE|\[\[[ABC]\]\])\W*?(?:[\n.,:;!]|\Z)|[1-5][^\n\w]*(?:\n|\Z))",
    re.IGNORECASE,
)
"""A verdict of any shape at the beginning of a text."""


_MOST_ENDS: Final = 64
"""Of reasonings in one reply. Each is looked at as what a reply may begin after, to the reply's end."""

_NOTHING: Final = Unreadable(InvalidReason.EMPTY_REPLY, "the reply holds no text")


def visible(text: str) -> str | Unreadable:
    """The reply without reasoning and without one surrounding code fence; never empty.

    A judge quotes what it judges, so a tag inside a reply may be a judged text's: no tag is looked for inside JSON, and
    a verdict before a closing tag that nothing opened is not replaced by what follows the tag.
    """
    if "<" not in text and "`" not in text:  # neither of them begins here
        return text.strip() or _NOTHING
    if len(_CLOSE_THINKING.findall(text)) > _MOST_ENDS:
        return Unreadable(InvalidReason.UNPARSABLE, f"more than {_MOST_ENDS} ends of a reasoning")
    if found := _json_reply(text):
        return found
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
        if _SAYS.match(reply):
            return Unreadable(InvalidReason.UNPARSABLE, "a verdict stands before the end of its reasoning")
        reply = reply[unopened[-1].end() :]
    return _unfenced(reply) or _NOTHING


def _json_reply(text: str) -> str:
    """The longest end of `text`, from its beginning or from the end of a reasoning, that is JSON; "" for none.

    What begins as JSON is JSON, even where it breaks off: it holds no reasoning.
    """
    opened = _OPEN_THINKING.search(text)
    ends = [tag.end() for tag in _CLOSE_THINKING.finditer(text) if opened is None or _closes(tag, opened)]
    begun = ""
    for start in (0, *ends):
        reply = _unfenced(text[start:])
        if reply.startswith("{"):
            begun = begun or reply
            if isinstance(_loaded(reply), dict):
                return reply
    return begun


def _closes(tag: re.Match[str], opened: re.Match[str]) -> bool:
    return tag.start() < opened.start() or tag[0][2:-1].lower() == opened[1].lower()


def _unfenced(reply: str) -> str:
    reply = reply.strip()
    fenced = _CODE_FENCE.match(reply)
    return reply if fenced is None else (fenced["lines"] or fenced["json"] or "").strip()


def _loaded(reply: str) -> Any:
    try:
        return json.loads(reply)
    except (ValueError, RecursionError):
        return None


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
