"""Whether live traffic waits for its judges, as seen from the store: what a replay in a process of its own goes by."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from tracejudge.store.connection import Connection
from tracejudge.store.ledger import Ledger
from tracejudge.store.values import from_microseconds

BEHIND_S: Final = 60
_LOOKED_AT: Final = timedelta(hours=1)


def live_lags(connection: Connection, ledger: Ledger) -> bool:
    """True while live traffic is being judged, and traces served more than a minute ago wait for a judge that others of
    their hour have been before. A consumer that does not run lags behind nobody."""
    rows = connection.query(
        "SELECT toUnixTimestamp64Micro(now64(6)), count() FROM scores_by_judged "
        f"WHERE judged_at >= now64(6) - toIntervalSecond({BEHIND_S})"
    )
    now_us, judged = rows[0]
    if not int(judged):
        return False
    now = from_microseconds(int(now_us))
    lines = ledger.equation(now - _LOOKED_AT, now - timedelta(seconds=BEHIND_S))
    return any(0 < line.unaccounted < line.traces for line in lines)
