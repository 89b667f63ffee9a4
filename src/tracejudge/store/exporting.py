"""Tables out of the store as Parquet: in files of a bounded number of rows, each made by the engine.

In pieces, because a Parquet file ends with an index of all its rows: whoever writes one file of everything holds it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal

from tracejudge.store.connection import Connection
from tracejudge.store.finding import Wanted
from tracejudge.store.queries import ScoreFilter
from tracejudge.store.score_rows import score_conditions
from tracejudge.store.table import Where
from tracejudge.store.trace_filters import judged_conditions

PIECE_ROWS: Final = 100_000

_KEYS: Final = {
    "traces": ("event_time", "trace_id", "environment", "app"),
    "scores": ("event_time", "trace_id", "environment", "app", "judge_name", "judge_id", "run_id"),
}


class Exporter:
    """Rows of `traces` or `scores`, each once, in the order of their event time."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def parquet(self, table: Literal["traces", "scores"], where: Wanted | ScoreFilter) -> Iterator[bytes]:
        """Whole Parquet files of at most PIECE_ROWS rows, one after the other; none where there is no row."""
        conditions = (
            judged_conditions(where.where, outcome=where.outcome, judge=where.judge)
            if isinstance(where, Wanted)
            else score_conditions(where)
        )
        columns = ", ".join(_KEYS[table])
        after: tuple[object, ...] | None = None
        while True:
            page = _page(conditions, table, after)
            order = f"ORDER BY {columns}"
            ends = self._connection.query(
                f"SELECT toString(event_time), {columns.partition(', ')[2]} FROM {table} FINAL {page} {order} "
                f"LIMIT 1 OFFSET {PIECE_ROWS - 1}",
                page.parameters,
            )
            # Up to that row rather than by number: a row stored or deleted between the two statements would move
            # the end, and one row would be left out or come twice.
            piece = _page(conditions, table, after, tuple(ends[0]) if ends else None)
            content = self._connection.raw(
                f"SELECT * EXCEPT (row_version) FROM {table} FINAL {piece} {order}", piece.parameters, form="Parquet"
            )
            if ends or self._any(table, page):
                yield content
            if not ends:
                return
            after = tuple(ends[0])

    def _any(self, table: str, page: Where) -> bool:
        return bool(self._connection.query(f"SELECT 1 FROM {table} FINAL {page} LIMIT 1", page.parameters))


def _page(
    conditions: Where, table: str, after: tuple[object, ...] | None, last: tuple[object, ...] | None = None
) -> Where:
    page = Where().add("1")
    for condition in conditions.parts():
        page.add(condition)
    page.parameters.update(conditions.parameters)
    names = _KEYS[table]
    kinds = ("DateTime64(3, 'UTC')", *("String",) * (len(names) - 1))
    for place, beyond, sign in (("after", after, ">"), ("last", last, "<=")):
        if beyond is not None:
            bound = ", ".join(f"{{{place}_{name}:{kind}}}" for name, kind in zip(names, kinds, strict=True))
            cells = {f"{place}_{name}": value for name, value in zip(names, beyond, strict=True)}
            page.add(f"({', '.join(names)}) {sign} ({bound})", **cells)
            page.add(f"event_time {sign.rstrip('=')}= {{{place}_event_time:DateTime64(3, 'UTC')}}")
    return page
