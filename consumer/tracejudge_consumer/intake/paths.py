"""Dotted paths into a JSON value: where a field of ours stands in somebody else's record.

`usage.latency` goes into objects, `messages.-1.text` takes an item of a list (counted from its end when negative),
`hits.*.id` gives that of every item, and `"a.b".c` quotes a key that holds a dot.
"""

from __future__ import annotations

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
            if isinstance(value, dict):
                if step.key not in value:
                    raise LeadsNowhere(f"{self._upto(number)} has no {step.key!r:.80}")
                value = value[step.key]
            elif isinstance(value, list) and not step.quoted and step.key == "*":
                return [self._from(item, number + 1) for item in value]
            elif isinstance(value, list) and not step.quoted and _INDEX.fullmatch(step.key):
                try:
                    value = value[int(step.key)]
                except IndexError:
                    raise LeadsNowhere(f"{self._upto(number)} has {len(value)} items only") from None
            else:
                raise LeadsNowhere(f"{self._upto(number)} is {_kind(value)}")
        return value

    def _upto(self, number: int) -> str:
        return repr(".".join(step.key for step in self.steps[:number])) if number else "the record"


def _kind(value: Any) -> str:
    names = {str: "a text", bool: "true or false", list: "a list", dict: "an object", type(None): "null"}
    return names.get(type(value), "a number")
