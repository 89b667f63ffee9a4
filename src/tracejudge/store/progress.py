"""`rollup_state`: up to which instant of the store's clock a task that follows the inserts has come."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from tracejudge.store.connection import Connection
from tracejudge.store.values import EPOCH, from_microseconds, microseconds

_MAX_INSERT: Final = timedelta(seconds=120)
"""An insert stamped by the server at its start is visible after it: so long a row may turn up behind a look."""


class Progress:
    """One task's place. A row stored meanwhile, or slowly, is seen by the next round: rounds overlap."""

    def __init__(self, connection: Connection, name: str) -> None:
        self._connection = connection
        self._name = name

    def now(self) -> datetime:
        """The store's clock; taken before a round reads."""
        return from_microseconds(self._connection.query("SELECT now64(6)")[0][0])

    def until(self) -> datetime:
        """Everything stored before this has been seen; 1970 before the first round."""
        rows = self._connection.query(
            "SELECT until FROM rollup_state FINAL WHERE name = {name:String}", {"name": self._name}
        )
        return from_microseconds(rows[0][0]) if rows else EPOCH

    def came_to(self, now: datetime) -> None:
        """A round that began at `now` has seen everything."""
        self._connection.insert(
            "rollup_state",
            ("name", "until"),
            ("LowCardinality(String)", "DateTime64(6, 'UTC')"),
            [(self._name, microseconds("until", now - _MAX_INSERT))],
        )
