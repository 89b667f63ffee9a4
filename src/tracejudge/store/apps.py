"""The apps that traces have come from: what a name somebody typed is held against."""

from __future__ import annotations

from typing import Final, NamedTuple

from tracejudge.store.connection import Connection

_SEEN: Final = " UNION DISTINCT ".join(
    # Scores of a file may be there without their traces, decisions without scores, and parts before they are a trace.
    f"SELECT DISTINCT toString(environment) AS environment, toString(app) AS app FROM {table}"
    for table in ("trace_index", "scores", "ledger", "parts")
)


class App(NamedTuple):
    """One app in one environment."""

    environment: str
    app: str


def seen_apps(connection: Connection) -> list[App]:
    """Every app of which anything is stored, in order. Reads two short columns of four whole tables."""
    return [App(*row) for row in connection.query(f"SELECT environment, app FROM ({_SEEN}) ORDER BY environment, app")]
