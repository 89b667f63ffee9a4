"""Dotted paths into a JSON value: where a field of ours stands in somebody else's record.

`usage.latency` goes into objects, `messages.-1.text` takes an item of a list (counted from its end when negative),
`hits.*.id` gives that of every item (null where one has none), and `"a.b".c` quotes a key that holds a dot. A path that
goes on where a text stands reads that text as JSON: logs and spans often hold objects and lists in this way.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final

_STEP: Final = re.compile(r'"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<bare>[^."]+)')
_INDEX: Final = re.compile(r"-?\d{1,9}")
MAX_STEPS: Final = 32


class LeadsNowhere(Exception):
    """The path ends before its last step. Says where, and what stands there instead."""


@dataclass(frozen=True, slots=True)
class _Step:
    key: str
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class JsonPath:
    """A parsed path. `text` is as the settings have it."""

    text: str
    steps: tuple[_Step, ...]

    @classmethod
    def parse(cls, text: str) -> JsonPath:
        """Raises ValueError for what is no path.

        >>> JsonPath.parse("hits.*.id").of({"hits": [{"id": 1}, {"id": 2}]})
        [1, 2]
        """
        steps: list[_Step] = []
        place = 0
        while True:
            match = _STEP.match(text, place)
            if match is None or len(steps) == MAX_STEPS:
                raise ValueError(
                    f'{text!r:.80} is not a dotted path such as a.b, items.0.id, hits.*.id or "a.b".c, '
                    f"of at most {MAX_STEPS} steps"
                )
            quoted = match["quoted"]
            steps.append(_Step(match["bare"]) if quoted is None else _Step(re.sub(r"\\(.)", r"\1", quoted), True))
            place = match.end()
            if place == len(text):
                return cls(text, tuple(steps))
            if text[place] != ".":
                raise ValueError(f"{text!r:.80} has {text[place]!r} where a dot should stand")
            place += 1

    def of(self, value: Any) -> Any:
        """The value at the path. Raises LeadsNowhere."""
        return self._from(value, 0)

    def _from(self, value: Any, begin: int) -> Any:
        for number in range(begin, len(self.steps)):
            step = self.steps[number]
            value = unpacked(value)
            if isinstance(value, dict):
                if step.key not in value:
                    raise LeadsNowhere(f"{self._upto(number)} has no {step.key!r:.80}")
                value = value[step.key]
            elif isinstance(value, list) and not step.quoted and step.key == "*":
                return self._of_each(value, number + 1)
            elif isinstance(value, list) and not step.quoted and _INDEX.fullmatch(step.key):
                try:
                    value = value[int(step.key)]
                except IndexError:
                    raise LeadsNowhere(f"{self._upto(number)} has {len(value)} items only") from None
            else:
                raise LeadsNowhere(f"{self._upto(number)} is {_kind(value)}")
        return value

    def _of_each(self, items: list[Any], begin: int) -> list[Any]:
        """One item that lacks something does not take the others away; when all of them do, the path leads nowhere."""
        found, missing = [], []
        for item in items:
            try:
                found.append(self._from(item, begin))
            except LeadsNowhere as error:
                found.append(None)
                missing.append(error)
        if missing and len(missing) == len(items):
            raise missing[0]
        return found

    def _upto(self, number: int) -> str:
        return repr(".".join(step.key for step in self.steps[:number])) if number else "the record"


def unpacked(value: Any) -> Any:
    """The object or list that a text holds as JSON; any other value as it is."""
    if not isinstance(value, str) or not value.lstrip().startswith(("{", "[")):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _kind(value: Any) -> str:
    names = {str: "a text", bool: "true or false", list: "a list", dict: "an object", type(None): "null"}
    return names.get(type(value), "a number")
