"""What pydantic found wrong, in the words of the file, and without repeating what may be a secret."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from tracejudge.alerts.rules.rule import RULE_TYPES

EXAMPLE: Final = "deploy/settings.example.toml"


def faults_of(error: ValidationError, *, example: str = EXAMPLE) -> list[str]:
    """One line for each fault that pydantic found: the key as it stands in TOML, what is wrong, the value seen.

    `example` is where the reader finds what such a file may hold.
    """
    lines = []
    found = error.errors(include_url=False, include_context=False)
    for fault in found:
        if fault["type"] == "too_short" and any(_lies_within(other, fault) for other in found):
            continue  # it is short of what was refused for a reason of its own
        key = ""
        for step in _steps(fault["loc"]):
            key += f"[{step}]" if isinstance(step, int) else f".{step}" if key else str(step)
        message = fault["msg"].removeprefix("Value error, ")
        if fault["type"] in ("tuple_type", "list_type", "frozen_set_type", "set_type"):
            message = "is not a list; write it in brackets, even for a single value"
        if fault["type"] == "string_type":
            several = isinstance(fault["input"], list | dict)
            message = (
                "is not a string: write a single value in quotes" if several else "is not a string: write it in quotes"
            )
        if fault["type"] == "missing":
            lines.append(f"{key}: is missing; {example} shows it")
        elif fault["type"] == "extra_forbidden":
            where = f"check for a typo, or in {example}"
            if _is_a_threshold(key):
                where = "the lowest passing score is called `threshold`"
            lines.append(f"{key}: is not a setting; {where}")
        elif _may_hold_a_secret(key) and not _is_a_mistyped_type(fault):
            # What was refused may be a password in the wrong place: it is not repeated on a screen or in a log.
            lines.append(f"{key}: {message}")
        else:
            seen = repr(fault["input"])
            got = "" if message.startswith(seen) else f", got {seen if len(seen) <= 60 else seen[:57] + '...'}"
            lines.append(f"{key}: {message}{got}{_share_hint(fault)}")
    return lines


def _is_a_threshold(key: str) -> bool:
    parent, _, name = key.rpartition(".")
    return "threshold" in name and parent.startswith("judges")


def _lies_within(inner: ErrorDetails, outer: ErrorDetails) -> bool:
    place = outer["loc"]
    return len(inner["loc"]) > len(place) and inner["loc"][: len(place)] == place


def _share_hint(fault: ErrorDetails) -> str:
    """A word to those who write shares as percentages."""
    number, message = fault["input"], fault["msg"]
    if fault["type"] not in ("less_than", "less_than_equal") or not message.endswith((" to 1", " than 1", " to 0.999")):
        return ""
    if isinstance(number, bool) or not isinstance(number, int | float) or not 1 < number <= 100:
        return ""
    return f": it is a fraction, so write {number / 100:g} for {number:g} %"


def _steps(path: tuple[int | str, ...]) -> Iterable[int | str]:
    """The path as it stands in the file: pydantic adds the type of a rule after its number."""
    for number, step in enumerate(path):
        if not (number == 2 and path[0] == "rules" and step in RULE_TYPES):
            yield step


def _may_hold_a_secret(key: str) -> bool:
    return any(
        word in key
        for word in ("queue", "store", "url", "options", "extra_body", "judges", "notifiers", "env", "heartbeat")
    )


def _is_a_mistyped_type(fault: ErrorDetails) -> bool:
    """Whether it is a short word in place of one of a few known ones: no address and hardly a password."""
    seen = fault["input"]
    return (
        fault["type"] == "literal_error"
        and fault["loc"][-1] == "type"
        and isinstance(seen, str)
        and len(seen) <= 16
        and seen.isascii()
        and seen.isalpha()
    )
