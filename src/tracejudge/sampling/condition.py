"""Conditions on a trace, as plain TOML: a field with operators, or all or any of several conditions.

    { field = "status", is = "error" }
    { field = "tags.tier", in = ["gold", "silver"] }
    { field = "latency_ms", above = 800, below = 2000 }
    { all = [ { field = "app", is = "shop" }, { any = [ ... ] } ] }

| operator      | on                       | holds when                                                          |
|---------------|--------------------------|---------------------------------------------------------------------|
| is, is_not    | text, tag, number, flag  | equal, not equal (text: every character)                            |
| in            | text, tag, number, flag  | equal to one of the list                                            |
| below, above  | number, time, tag        | less, greater; a tag where its text reads as a number               |
| contains      | text, tag, expected_ids  | the text is part of it (a list: one of its texts)                   |
| matches       | text, tag                | the whole text fits the pattern, where `*` is any run of characters |
| present       | any                      | true: there and not empty; false: missing or empty                  |

Several operators beside one field must all hold. A missing text reads as ""; of a missing number only `is_not` and
`present = false` hold. There are no regular expressions: texts come from strangers and may be megabytes long.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from tracejudge.sampling.epoch import Epoch
from tracejudge.sampling.fields import CLOSED_SETS, Kind, fact, kind_of
from tracejudge.signals import Signals
from tracejudge_sdk.trace import Trace

_TEXTUAL: Final = frozenset[Kind]({"text", "tag"})
_ORDERED: Final = frozenset[Kind]({"number", "time", "tag"})
_COMPARABLE: Final = frozenset[Kind]({"text", "tag", "number", "flag"})
_SEARCHABLE: Final = frozenset[Kind]({"text", "tag", "texts"})
_OPERATORS: Final = ("is", "is_not", "in", "below", "above", "contains", "matches", "present")


def _exact(value: Any) -> Any:
    """Refuses what pydantic would turn into another type: "5" is not 5, and true is not 1."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("is not a finite number")
    if not isinstance(value, str | bool | int | float):
        raise ValueError("is neither text, a number nor true/false")
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


_ExactScalar = Annotated[Any, BeforeValidator(_exact)]


class Condition(BaseModel):
    """One condition: `field` with at least one operator, or `all`, or `any`. The module's text has the grammar."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    field: str | None = None
    is_: _ExactScalar | None = Field(default=None, alias="is")
    is_not: _ExactScalar | None = None
    in_: tuple[_ExactScalar, ...] | None = Field(default=None, alias="in")
    below: float | datetime | None = None
    above: float | datetime | None = None
    contains: str | None = None
    matches: str | None = None
    present: bool | None = None
    all_: tuple[Condition, ...] | None = Field(default=None, alias="all")
    any_: tuple[Condition, ...] | None = Field(default=None, alias="any")

    def holds(self, trace: Trace, signals: Signals, epoch: Epoch | None = None) -> bool:
        """True when the trace fits; `epoch` is the one in force when it was served. Pure; raises nothing."""
        if self.all_ is not None:
            return all(condition.holds(trace, signals, epoch) for condition in self.all_)
        if self.any_ is not None:
            return any(condition.holds(trace, signals, epoch) for condition in self.any_)
        if self.field is None:
            return False
        value = fact(self.field, trace, signals, epoch)
        kind = kind_of(self.field)
        if value is None and kind in _TEXTUAL:
            value = ""
        return all(self._operators_hold(value))

    def _operators_hold(self, value: Any) -> Iterator[bool]:
        if self.is_ is not None:
            yield bool(value == self.is_)
        if self.is_not is not None:
            yield bool(value != self.is_not)
        if self.in_ is not None:
            yield value in self.in_
        if self.below is not None:
            yield _ordered(value, self.below, sign=-1)
        if self.above is not None:
            yield _ordered(value, self.above, sign=1)
        if self.contains is not None:
            yield self.contains in value
        if self.matches is not None:
            yield _fits(value, self.matches)
        if self.present is not None:
            yield (value is not None and value != "" and value != ()) is self.present

    def names(self) -> frozenset[str]:
        """The fields that it looks at."""
        inner = [*(self.all_ or ()), *(self.any_ or ())]
        own = frozenset() if self.field is None else frozenset([self.field])
        return own.union(*(condition.names() for condition in inner))

    @field_validator("field")
    @classmethod
    def _field_is_known(cls, field: str | None) -> str | None:
        if field is not None:
            kind_of(field)
        return field

    @field_validator("is_", "is_not")
    @classmethod
    def _value_fits(cls, value: Any, info: ValidationInfo) -> Any:
        if value is not None and (kind := _kind(info, _COMPARABLE)) is not None:
            _check_value(info.data["field"], kind, value)
        return value

    @field_validator("in_")
    @classmethod
    def _values_fit(cls, values: tuple[Any, ...] | None, info: ValidationInfo) -> tuple[Any, ...] | None:
        if values is None:
            return None
        if not values:
            raise ValueError("holds for nothing when it is empty: list at least one value, or drop the condition")
        if (kind := _kind(info, _COMPARABLE)) is not None:
            for value in values:
                _check_value(info.data["field"], kind, value)
        return values

    @field_validator("below", "above", mode="before")
    @classmethod
    def _bound_fits(cls, value: Any, info: ValidationInfo) -> Any:
        if value is None or (kind := _kind(info, _ORDERED)) is None:
            return value
        if kind == "time":
            if isinstance(value, str):
                value = _instant(value)
            if not isinstance(value, datetime) or value.utcoffset() is None:
                raise ValueError("is not an instant with a time zone: write 2026-01-31T12:00:00Z")
            return value
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise ValueError("is not a finite number, which is what below and above compare with")
        return float(value)

    @field_validator("contains", "matches")
    @classmethod
    def _part_fits(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is None:
            return None
        _kind(info, _SEARCHABLE if info.field_name == "contains" else _TEXTUAL)
        if value == "":
            raise ValueError("is empty: write the text to look for, or use present")
        return value

    @model_validator(mode="after")
    def _one_form(self) -> Condition:
        operators = [name for name in _OPERATORS if getattr(self, _attribute(name)) is not None]
        groups = [name for name in ("all", "any") if getattr(self, f"{name}_") is not None]
        if len(groups) + (self.field is not None or bool(operators)) != 1:
            seen = [*(["field"] if self.field is not None else []), *operators, *groups]
            raise ValueError(
                "a condition is one of three: `field` with an operator, `all = [...]` or `any = [...]`; "
                f"this one has {', '.join(seen) or 'none'}"
            )
        if groups:
            if not getattr(self, f"{groups[0]}_"):
                raise ValueError(f"{groups[0]} is empty: list at least one condition, or drop it")
        elif self.field is None:
            raise ValueError(f"{operators[0]} needs a field: add field = ...")
        elif not operators:
            raise ValueError(f"field {self.field!r} has no operator: add one of {', '.join(_OPERATORS)}")
        return self


def _attribute(operator: str) -> str:
    return f"{operator}_" if operator in ("is", "in") else operator


def _kind(info: ValidationInfo, allowed: frozenset[Kind]) -> Kind | None:
    """The kind of the condition's field; None when that is missing or at fault itself, which is said elsewhere."""
    field = info.data.get("field")
    if field is None:
        return None
    kind = kind_of(field)
    if kind not in allowed:
        fitting = [name for name, kinds in _KINDS_OF_OPERATOR.items() if kind in kinds]
        raise ValueError(f"does not go with {field}, a {_KIND_WORDS[kind]}: use {', '.join([*fitting, 'present'])}")
    return kind


_KINDS_OF_OPERATOR: Final = {
    "is": _COMPARABLE,
    "is_not": _COMPARABLE,
    "in": _COMPARABLE,
    "below": _ORDERED,
    "above": _ORDERED,
    "contains": _SEARCHABLE,
    "matches": _TEXTUAL,
}
_KIND_WORDS: Final[dict[Kind, str]] = {
    "text": "text",
    "tag": "tag (text)",
    "number": "number",
    "flag": "true/false value",
    "time": "time",
    "texts": "list of texts",
}


def _check_value(field: str, kind: Kind, value: Any) -> None:
    if kind in _TEXTUAL and not isinstance(value, str):
        raise ValueError(f"is not text, which {field} holds: put it between quotes")
    if kind == "number" and (isinstance(value, str | bool)):
        raise ValueError(f"is not a number, which {field} holds: write it without quotes")
    if kind == "flag" and not isinstance(value, bool):
        raise ValueError(f"is not true or false, which {field} holds")
    allowed = CLOSED_SETS.get(field)
    if allowed is not None and value not in allowed:
        raise ValueError(f"{value!r} is never a {field}: use one of {', '.join(allowed)}")


def _instant(text: str) -> datetime | None:
    try:
        # Python 3.10 does not read the Z.
        return datetime.fromisoformat(text.replace("Z", "+00:00").replace("z", "+00:00"))
    except ValueError:
        return None


def _ordered(value: Any, bound: float | datetime, *, sign: int) -> bool:
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return False
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return False
    return bool(value > bound if sign > 0 else value < bound)


def _fits(text: str, pattern: str) -> bool:
    """True when the whole text fits: the leftmost place of every piece is enough when only `*` is wild."""
    pieces = pattern.split("*")
    if len(pieces) == 1:
        return text == pattern
    first, *middle, last = pieces
    if len(text) < len(first) + len(last) or not text.startswith(first) or not text.endswith(last):
        return False
    at, end = len(first), len(text) - len(last)
    for piece in middle:
        found = text.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True
