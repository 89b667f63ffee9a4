"""What rules may group by, and in which slice a row is.

Values come from producers and may be without number. A rule watches `max_series` of them in an application; rows with
further values are one series together, `OTHER`, so that nothing is left out and no attribute, however hostile, opens
more series than that.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import AfterValidator

from tracejudge.alerts.event import SeriesKey
from tracejudge.scores import Score, TraceFacts

if TYPE_CHECKING:
    from tracejudge.alerts.rules.rule import Rule

OF_SCORE: Final = ("version", "category", "stratum")
OF_TRACE: Final = ("model", "prompt_version", "index_version", "language", "status")
"""Beside `tags.NAME`. What only the trace says is looked up for the rows of rules that group by it."""

OTHER: Final = "(other)"
"""The value, of each field, in the series of all that is beyond the limit."""

LONGEST_VALUE: Final = 120
"""Characters of a value that tell slices apart: the key of a series is in messages and in memory."""

Group = tuple[tuple[str, str], ...]


def _can_be_grouped_by(name: str) -> str:
    if name in OF_SCORE or is_of_trace(name):
        return name
    if name in ("user_id", "session_id", "trace_id", "case_id"):
        raise ValueError(f"{name!r} is of one person or one trace: no rate can be known of it; group by a tag of many")
    known = ", ".join((*OF_SCORE, *OF_TRACE))
    raise ValueError(f"{name!r} is nothing to group by; write one of {known}, or tags.NAME for a tag of the traces")


GroupField = Annotated[str, AfterValidator(_can_be_grouped_by)]
"""One thing to group by, in a rule."""


def is_of_trace(name: str) -> bool:
    """Whether the trace has to be asked for it.

    >>> is_of_trace("tags.tenant"), is_of_trace("category")
    (True, False)
    """
    return name in OF_TRACE or (name.startswith("tags.") and len(name) > len("tags."))


def trace_fields(rules: Iterable[Rule]) -> tuple[str, ...]:
    """The group_by fields of the rules that only traces hold, each once."""
    return tuple(dict.fromkeys(name for rule in rules for name in rule.group_by if is_of_trace(name)))


def group_of(fields: Iterable[str], score: Score, facts: TraceFacts | None) -> Group:
    """The slice of a row; "" for what its trace does not say."""
    said = {} if facts is None else facts.fields
    return tuple(
        (name, (str(getattr(score, name)) if name in OF_SCORE else said.get(name, ""))[:LONGEST_VALUE])
        for name in fields
    )


def is_other(key: SeriesKey) -> bool:
    """Whether the series is that of all values beyond the limit: no filter of the store finds its rows."""
    return bool(key.group) and all(value == OTHER for _, value in key.group)
