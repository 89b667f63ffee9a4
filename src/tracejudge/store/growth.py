"""How large the store is and how fast it grows: what a disk must hold, before it is full."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final

from tracejudge.store.connection import Connection
from tracejudge.store.values import EPOCH

_TABLES: Final = ("traces", "scores", "ledger", "calls")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    """The size of one table: rows (versions not yet merged away included), bytes on disk, uncompressed bytes, and
    parts."""

    name: str
    rows: int
    bytes: int
    unpacked_bytes: int
    parts: int

    @property
    def bytes_per_row(self) -> float:
        return self.bytes / self.rows if self.rows else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """Tables, and how many rows were stored on each of the last days (UTC), the first day first.

    `bytes_per_day` is the mean of the whole days times the bytes of a row, over all tables that grow with traffic; None
    before the first whole day has gone.
    """

    tables: tuple[TableFacts, ...]
    rows_by_day: Mapping[date, Mapping[str, int]]
    bytes_per_day: float | None

    @property
    def bytes(self) -> int:
        return sum(table.bytes for table in self.tables)


def read_growth(connection: Connection, *, days: int = 7) -> Growth:
    """Sizes now, and what was stored in the last `days` whole days and today."""
    rows = connection.query(
        "SELECT table, sum(rows), sum(bytes_on_disk), sum(data_uncompressed_bytes), count() FROM system.parts "
        "WHERE active AND database = currentDatabase() GROUP BY table ORDER BY table"
    )
    tables = tuple(
        TableFacts(name=row[0], rows=int(row[1]), bytes=int(row[2]), unpacked_bytes=int(row[3]), parts=int(row[4]))
        for row in rows
    )
    today = int(connection.query("SELECT toUInt32(toDate(now('UTC')))")[0][0])
    by_day: dict[date, dict[str, int]] = {_day(today - back): {} for back in range(days, -1, -1)}
    for table in _TABLES:
        counted = connection.query(
            f"SELECT toUInt32(toDate(stored_at)) AS day, count() FROM {table} "
            "WHERE stored_at >= toDateTime64(toDate({first:UInt16}), 3, 'UTC') GROUP BY day",
            {"first": today - days},
        )
        for day, count in counted:
            by_day.setdefault(_day(int(day)), {})[table] = int(count)
    whole = [counts for day, counts in by_day.items() if day != _day(today)]
    # Days before the store was there say nothing about how it grows.
    first = next((index for index, counts in enumerate(whole) if counts), len(whole))
    per_row = {table.name: table.bytes_per_row for table in tables}
    sizes = [sum(per_row.get(name, 0.0) * count for name, count in counts.items()) for counts in whole[first:]]
    return Growth(tables=tables, rows_by_day=by_day, bytes_per_day=sum(sizes) / len(sizes) if sizes else None)


def _day(number: int) -> date:
    return (EPOCH + timedelta(days=number)).date()
