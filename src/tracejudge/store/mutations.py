"""Rows that are deleted or changed where they stand: the parts that hold them are rewritten."""

from __future__ import annotations

from typing import Final

from tracejudge.store.connection import Connection
from tracejudge.store.table import Where

_SYNC: Final = "SETTINGS mutations_sync = 2"


class Mutations:
    """Mutations of one store, each waited for. The number they give is of the rows that were concerned."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def remove(self, table: str, chosen: Where) -> int:
        """Deletes the chosen rows."""
        return self._mutate(table, "DELETE", chosen)

    def change(self, table: str, assignment: str, chosen: Where) -> int:
        """Sets a column of the chosen rows, by an expression of the engine."""
        return self._mutate(table, f"UPDATE {assignment}", chosen)

    def _mutate(self, table: str, what: str, chosen: Where) -> int:
        # Where there are none, no part is looked at a second time.
        count = int(self._connection.query(f"SELECT count() FROM {table} {chosen}", chosen.parameters)[0][0])
        if count:
            self._connection.command(f"ALTER TABLE {table} {what} {chosen} {_SYNC}", chosen.parameters)
        return count
