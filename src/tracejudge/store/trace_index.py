"""`trace_index`: the event time of each trace id, fixed by the first record that was stored.

Every other key holds the event time, so it must not move when a trace comes again with another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from datetime import datetime
from typing import Final

from tracejudge.scores import TraceKey
from tracejudge.store.connection import Connection
from tracejudge.store.values import BoundTexts, from_milliseconds

_COLUMNS: Final = {
    "environment": "String",
    "app": "String",
    "trace_id": "String",
    "event_time": "DateTime64(3, 'UTC')",
}
_KEYS: Final = "arrayZip({environments:Array(String)}, {apps:Array(String)}, {trace_ids:Array(String)})"


def key_parameters(keys: Iterable[TraceKey]) -> dict[str, BoundTexts]:
    """Keys as three arrays, to be bound in `KEYS_IN`."""
    listed = list(keys)
    return {
        "environments": BoundTexts(key.environment for key in listed),
        "apps": BoundTexts(key.app for key in listed),
        "trace_ids": BoundTexts(key.trace_id for key in listed),
    }


KEYS_IN: Final = f"(environment, app, trace_id) IN (SELECT k.1, k.2, k.3 FROM (SELECT arrayJoin({_KEYS}) AS k))"
"""Condition for the keys of `key_parameters`, which finds them through the primary key."""

_FIND: Final = (
    "SELECT environment, app, trace_id, event_time FROM trace_index WHERE trace_id IN {trace_ids:Array(String)} "
    "AND environment IN {environments:Array(String)} AND app IN {apps:Array(String)} "
    "ORDER BY row_version DESC, event_time LIMIT 1 BY environment, app, trace_id"
)
"""Every trace with one of these ids, one of these environments and one of these apps: more than the keys at times, and
found faster: measured on ids made by chance, which lie in a granule each, it takes a quarter of the CPU of FINAL with a
condition on whole keys, and on ids in the order of time the same. Of one stamp everybody takes the earliest."""


class TraceIndex:
    """Where traces are."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def find(self, keys: Sequence[TraceKey]) -> dict[TraceKey, datetime]:
        """The fixed event times of those keys that are known."""
        if not keys:
            return {}
        return {key: from_milliseconds(at) for key, at in self._found(frozenset(keys)).items()}

    def fix(self, wanted: Mapping[TraceKey, int]) -> dict[TraceKey, int]:
        """The event times of these keys, in ms since 1970: the stored one where there is one, else `wanted`, which is
        stored now.

        Of several writers that bring a new key at once the first to be stamped by the store wins, and each reads that
        back: a record that is only delivered twice carries the same time anyway.
        """
        if not wanted:
            return {}
        # Without a look beforehand: what is known already keeps its time, since its row was stamped before. The stamp
        # is the default of `row_version`, by the store's clock.
        self._connection.insert_columns("trace_index", _COLUMNS, [*zip(*wanted, strict=True), list(wanted.values())])
        return {**wanted, **self._found(wanted.keys())}

    def _found(self, keys: Set[TraceKey]) -> dict[TraceKey, int]:
        """The event times of those that are known, in ms since 1970."""
        environments, apps, trace_ids = map(set, zip(*keys, strict=True))
        parameters = {
            "environments": BoundTexts(environments), "apps": BoundTexts(apps), "trace_ids": BoundTexts(trace_ids)
        }  # fmt: skip
        columns = self._connection.query_columns(_FIND, parameters)
        if not columns:
            return {}
        found = dict(zip(map(TraceKey, *columns[:3]), columns[3], strict=True))
        return {key: found[key] for key in found.keys() & keys}

    def places(
        self, trace_id: str, *, environment: str | None = None, app: str | None = None
    ) -> list[tuple[TraceKey, datetime]]:
        """Every (environment, app) that has this id."""
        sql = "SELECT environment, app, trace_id, event_time FROM trace_index FINAL WHERE trace_id = {trace_id:String}"
        parameters = {"trace_id": trace_id}
        for column, value in (("environment", environment), ("app", app)):
            if value is not None:
                sql += f" AND {column} = {{{column}:String}}"
                parameters[column] = value
        rows = self._connection.query(sql + " ORDER BY environment, app", parameters)
        return [(TraceKey(*row[:3]), from_milliseconds(row[3])) for row in rows]
