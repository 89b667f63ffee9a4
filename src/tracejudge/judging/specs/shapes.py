"""The shapes of a reply that a judge's model is asked for, as JSON schema; the words that ask for it are prompts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

MOST_STATEMENTS: Final = 5
"""How many unsupported statements a judge is asked to list at most (prompts/reply_unsupported.txt)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """One shape of reply."""

    name: str  # of the file that asks for it: prompts/reply_NAME.txt
    fields: Mapping[str, Mapping[str, Any]]  # JSON schema of each key, in the order in which they are to be written

    def schema(self) -> dict[str, Any]:
        """`response_format` of a request: strict JSON of this shape, the verdict last, after its reasons."""
        body = {
            "type": "object",
            "properties": {name: dict(field) for name, field in self.fields.items()},
            "required": list(self.fields),
            "additionalProperties": False,
        }
        return {"type": "json_schema", "json_schema": {"name": self.name, "strict": True, "schema": body}}


_TEXT: Final = {"type": "string"}
_TEXTS: Final = {"type": "array", "items": {"type": "string"}}
_YES_NO: Final = {"type": "string", "enum": ["YES", "NO"]}

UNSUPPORTED: Final = Shape(name="unsupported", fields={"unsupported": _TEXTS, "verdict": _YES_NO})
REASON: Final = Shape(name="reason", fields={"reason": _TEXT, "verdict": _YES_NO})
BROKEN: Final = Shape(name="broken", fields={"broken": _TEXTS, "verdict": _YES_NO})
SCORE: Final = Shape(name="score", fields={"reason": _TEXT, "score": {"type": "integer", "enum": [1, 2, 3, 4, 5]}})
BETTER: Final = Shape(name="better", fields={"reason": _TEXT, "better": {"type": "string", "enum": ["A", "B", "TIE"]}})
