"""`budget_leases`: shares of a cap, taken by the processes of a fleet in a database that cannot compare and swap.

A claim is a row with what is wanted, stamped by the store. After a pause in which claims begun earlier become visible
it is read back: it gets what the cap has left after all claims stamped before it, and is written again with that.
Claims that come together therefore get less, never more, than the cap in all. What this cannot promise: by an insert
that takes longer than the pause to be seen, a cap can be passed by one share.

Where the stored calls of a window are more than what was claimed (a process without leases, an older release), they
count instead.
"""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Callable
from datetime import datetime
from typing import Final, Literal, NamedTuple, Protocol

from tracejudge.store.calls import Calls
from tracejudge.store.connection import Connection
from tracejudge.store.leases import SETTLE_S
from tracejudge.store.values import bound_instant, microseconds, real, text, whole

_INSTANT: Final = "DateTime64(6, 'UTC')"
_COLUMNS: Final = {
    "lease_id": "String",
    "judge_name": "LowCardinality(String)",
    "cap": "LowCardinality(String)",
    "holder": "String",
    "calls": "UInt64",
    "usd": "Float64",
    "window_start": _INSTANT,
    "expires_at": _INSTANT,
    "row_version": "UInt64",
}


class LeaseKey(Protocol):
    """What a share is of: a cap in one window. `scope` is a judge's name, "" for all judges together."""

    @property
    def scope(self) -> str: ...
    @property
    def cap(self) -> str: ...
    @property
    def unit(self) -> Literal["calls", "usd"]: ...
    @property
    def limit(self) -> float: ...
    @property
    def start(self) -> datetime: ...
    @property
    def end(self) -> datetime: ...


class _Share(NamedTuple):
    lease_id: str
    holder: str
    amount: float
    claimed_us: int
    row_version: int


class BudgetLeases:
    """Shares of caps, by the store's clock."""

    def __init__(
        self, connection: Connection, calls: Calls, *, settle: Callable[[], None] = lambda: time.sleep(SETTLE_S)
    ) -> None:
        self._connection = connection
        self._calls = calls
        self._settle = settle

    def claim(self, key: LeaseKey, *, want: float, holder: str) -> float:
        """Takes up to `want` of what the cap has left, for `holder`; gives what was taken, 0 for none."""
        spent = self._spent(key)
        left = key.limit - max(spent, sum(share.amount for share in self._shares(key)))
        want = _whole(key, min(want, left))
        if want <= 0.0:
            return 0.0
        lease_id = uuid.uuid4().hex
        self._write(key, lease_id, holder, want, row_version=0)
        self._settle()
        before = 0.0
        for share in self._shares(key):
            if share.lease_id == lease_id:
                break
            before += share.amount
        granted = max(0.0, _whole(key, min(want, key.limit - max(spent, before))))
        if granted < want:
            self._write(key, lease_id, holder, granted, row_version=1, claimed_us=share.claimed_us)
        return granted

    def give_back(self, key: LeaseKey, *, used: float, holder: str) -> None:
        """Returns what `holder` took in the window and did not use."""
        mine = [share for share in self._shares(key) if share.holder == holder]
        unused = sum(share.amount for share in mine) - used
        # The latest first: earlier shares keep their place before those of others.
        for share in reversed(mine):
            back = min(share.amount, _whole(key, unused))
            if back <= 0.0:
                return
            unused -= back
            self._write(
                key,
                share.lease_id,
                holder,
                share.amount - back,
                row_version=share.row_version + 1,
                claimed_us=share.claimed_us,
            )

    def _spent(self, key: LeaseKey) -> float:
        spent = self._calls.spent(key.scope, key.start, key.end)
        return float(spent.calls) if key.unit == "calls" else spent.usd

    def _shares(self, key: LeaseKey) -> list[_Share]:
        """The shares of the window, in the order in which they were claimed."""
        amount = "toFloat64(calls)" if key.unit == "calls" else "usd"
        rows = self._connection.query(
            f"SELECT lease_id, holder, {amount}, toUnixTimestamp64Micro(claimed_at) AS at, row_version "
            "FROM budget_leases FINAL WHERE judge_name = {scope:String} AND cap = {cap:String} "
            "AND window_start = {start:DateTime64(6, 'UTC')} ORDER BY at, lease_id",
            {"scope": key.scope, "cap": key.cap, "start": bound_instant("start", key.start)},
        )
        return [_Share(row[0], row[1], float(row[2]), int(row[3]), int(row[4])) for row in rows]

    def _write(
        self,
        key: LeaseKey,
        lease_id: str,
        holder: str,
        amount: float,
        *,
        row_version: int,
        claimed_us: int | None = None,
    ) -> None:
        in_calls = key.unit == "calls"
        row: list[object] = [
            lease_id,
            text("scope", key.scope),
            text("cap", key.cap),
            text("holder", holder),
            whole("calls", int(amount)) if in_calls else 0,
            0.0 if in_calls else real("usd", amount),
            microseconds("start", key.start),
            microseconds("end", key.end),
            row_version,
        ]
        columns = dict(_COLUMNS)
        if claimed_us is not None:  # the first row is stamped by the store, and keeps its stamp from then on
            columns["claimed_at"] = _INSTANT
            row.append(claimed_us)
        self._connection.insert("budget_leases", list(columns), list(columns.values()), [row])


def _whole(key: LeaseKey, amount: float) -> float:
    """Calls come in whole numbers; a cap of 2.5 is one of 2."""
    return float(math.floor(amount)) if key.unit == "calls" else amount
