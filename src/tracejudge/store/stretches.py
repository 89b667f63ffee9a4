"""Time cut into stretches of bounded work, for whoever reads everything page by page.

A page without an end looks at all that lies behind it: pages of a million rows would look at half a million rows each.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final, Literal

from tracejudge.store.connection import Connection
from tracejudge.store.table import Where
from tracejudge.store.values import EPOCH, bound_instant

_ROWS: Final = 20_000
"""About as many rows a stretch; a single hour may hold more."""


def stretches(
    connection: Connection,
    table: Literal["traces", "scores"],
    start: datetime | None,
    end: datetime | None,
    *,
    environment: str | None = None,
    app: str | None = None,
    rows: int = _ROWS,
) -> Iterator[tuple[datetime | None, datetime | None]]:
    """[start, end) of event time in order, cut at full hours (UTC), of about `rows` each. They tile it whatever is
    stored meanwhile."""
    where = Where().equal("environment", environment).equal("app", app)
    if start is not None:
        where.add("event_time >= {start:DateTime64(6, 'UTC')}", start=bound_instant("start", start))
    if end is not None:
        where.add("event_time < {end:DateTime64(6, 'UTC')}", end=bound_instant("end", end))
    hours = connection.query(
        f"SELECT toUnixTimestamp(toStartOfHour(event_time)) AS hour, count() FROM {table} {where} "
        "GROUP BY hour ORDER BY hour",
        where.parameters,
    )
    held = 0
    for hour, count in hours:
        if held and held + int(count) > rows:
            cut = EPOCH + timedelta(seconds=int(hour))
            yield start, cut
            start, held = cut, 0
        held += int(count)
    yield start, end
