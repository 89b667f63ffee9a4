"""How long each kind of data is kept, brought into the tables' TTLs.

What the tables say is read first and changed only where it differs, so that every start may ask for it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import Final

from tracejudge.store.connection import Connection

_TTL: Final = re.compile(r"toDateTime\((\w+)\) \+ toIntervalDay\((\d+)\)")
_COLUMN: Final = re.compile(r"`(\w+)` [^`]*? TTL (toDateTime\(\w+\) \+ toIntervalDay\(\d+\))")
_TABLE: Final = re.compile(r" TTL (toDateTime\(\w+\) \+ toIntervalDay\(\d+\))(?: SETTINGS|$)")

_KIND_OF: Final = {
    "traces": "scores_d", "trace_index": "scores_d", "feedback": "scores_d", "scores": "scores_d",
    "scores_by_judged": "scores_d", "ledger": "scores_d", "minutes": "scores_d",
    "calls": "costs_d", "alert_events": "events_d", "outbox": "events_d",
    "parts": "texts_d", "dead_letters": "dead_letters_d", "cached_verdicts": "cache_d",
    "verdict_cache": "cache_d",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """Days that each kind is kept, counted from when it was stored. Labels, runs and tombstones are kept for good."""

    texts_d: int = 30  # questions, answers, passages, the judges' words, comments, parts of answers
    dead_letters_d: int = 30
    cache_d: int = 30
    scores_d: int = 400  # verdicts, decisions, rollups, and what is left of a trace without its texts
    costs_d: int = 400
    events_d: int = 400

    def __post_init__(self) -> None:
        for field in fields(self):
            days = getattr(self, field.name)
            if not 1 <= days <= 36_500:
                raise ValueError(f"retention.{field.name}: {days!r} is not in [1, 36500] days")
        if self.texts_d > self.scores_d:
            raise ValueError(
                f"retention.texts_d: {self.texts_d} is above scores_d {self.scores_d}: a text goes with its trace"
            )


def apply_retention(connection: Connection, retention: Retention) -> list[str]:
    """Changes the TTLs that say something else, and returns what was changed, as "table: 30 -> 90 days".

    ClickHouse rewrites the parts concerned in the background; what is past a shorter time goes with that.
    """
    created = connection.query(
        "SELECT name, create_table_query FROM system.tables "
        "WHERE database = currentDatabase() AND name IN {names:Array(String)} ORDER BY name",
        {"names": sorted(_KIND_OF)},
    )
    done = []
    for table, sql in created:
        changes, said = [], []
        columns, _, engine = sql.partition(") ENGINE = ")
        for column, expression in _COLUMN.findall(columns):
            if (moved := _moved(expression, retention.texts_d)) is not None:
                changes.append(f"MODIFY COLUMN `{column}` TTL {moved[1]}")
                said.append(f"{table}.{column}: {moved[0]} -> {retention.texts_d} days")
        days = getattr(retention, _KIND_OF[table])
        match = _TABLE.search(engine)
        if match is not None and (moved := _moved(match[1], days)) is not None:
            changes.append(f"MODIFY TTL {moved[1]}")
            said.append(f"{table}: {moved[0]} -> {days} days")
        for change in changes:
            connection.command(f"ALTER TABLE {table} {change}")
        done += said
    return done


def _moved(expression: str, days: int) -> tuple[int, str] | None:
    """The days it says and the expression with `days`; None where they are the same."""
    match = _TTL.fullmatch(expression)
    if match is None or int(match[2]) == days:
        return None
    return int(match[2]), f"toDateTime({match[1]}) + toIntervalDay({days})"
