"""`leases`: one holder of a name at a time, by claims in a database that cannot compare and swap.

A claim is a row (name, fencing = last + 1, id). After a pause in which claims begun earlier become visible it is read
back: of one fencing number's claims the one stamped first by the store wins. Renewals are more rows of the claim. What
this cannot promise is in DESIGN.md; the fencing number is there to be stored with what a leader writes.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Final, NamedTuple

from tracejudge.store.connection import Connection
from tracejudge.store.rows import Lease
from tracejudge.store.values import from_microseconds, text, whole

SETTLE_S: Final = 0.2
"""An insert of one row takes some milliseconds; one that takes longer than this may be seen too late."""

_AHEAD_S: Final = 10
"""Replicas' clocks differ by less. A claim stamped further ahead is from before the store's clock was set back: its
holder claims again, and if that process is gone, the name must not stay taken until that hour comes again."""

_COLUMNS: Final = ("name", "fencing", "claim_id", "holder", "released", "ttl_ms")
_TYPES: Final = ("LowCardinality(String)", "UInt64", "String", "String", "Bool", "UInt64")


class _State(NamedTuple):
    fencing: int
    claim_id: str
    holder: str
    expires_us: int
    now_us: int

    @property
    def held(self) -> bool:
        return self.expires_us > self.now_us


class Leases:
    """Names held for a time, by the store's clock."""

    def __init__(self, connection: Connection, *, settle: Callable[[], None] = lambda: time.sleep(SETTLE_S)) -> None:
        self._connection = connection
        self._settle = settle

    def acquire(self, name: str, holder: str, ttl_s: float) -> Lease | None:
        """The lease, or None while somebody else holds it. Who holds it already gets it renewed.

        `holder` must be unique to its process (host, pid and something random): it is what tells claims apart.
        """
        state = self._state(name)
        if state.held:
            if state.holder != holder:
                return None
            self._claim(name, state.fencing, state.claim_id, holder, ttl_s)
            return self.current(name)
        claim_id = uuid.uuid4().hex
        self._claim(name, state.fencing + 1, claim_id, holder, ttl_s)
        self._settle()
        state = self._state(name)
        return _lease(name, state) if state.claim_id == claim_id and state.held else None

    def renew(self, lease: Lease, ttl_s: float) -> Lease | None:
        """The lease with a later end; None when it has run out or gone to another: stop leading at once.

        Renew at a third of the time to live, so that one slow answer costs nothing.
        """
        state = self._state(lease.name)
        if not state.held or (state.fencing, state.holder) != (lease.fencing, lease.holder):
            return None
        self._claim(lease.name, state.fencing, state.claim_id, lease.holder, ttl_s)
        state = self._state(lease.name)
        return _lease(lease.name, state) if state.held and state.fencing == lease.fencing else None

    def release(self, lease: Lease) -> None:
        """Gives the name up; nothing happens when it has gone to another already."""
        state = self._state(lease.name)
        if (state.fencing, state.holder) == (lease.fencing, lease.holder):
            self._claim(lease.name, state.fencing, state.claim_id, lease.holder, 0.0, released=True)

    def current(self, name: str) -> Lease | None:
        """The lease that is held on the name now; None when it is free."""
        state = self._state(name)
        return _lease(name, state) if state.held else None

    def _claim(
        self, name: str, fencing: int, claim_id: str, holder: str, ttl_s: float, *, released: bool = False
    ) -> None:
        ttl_ms = whole("ttl_s", int(ttl_s * 1000))
        row = (text("name", name), fencing, claim_id, text("holder", holder), released, ttl_ms)
        self._connection.insert("leases", _COLUMNS, _TYPES, [row])

    def _state(self, name: str) -> _State:
        rows = self._connection.query(
            "SELECT fencing, claim_id, any(holder), min(claimed_at) AS first, "
            "maxIf(toUnixTimestamp64Micro(claimed_at) + ttl_ms * 1000, "
            f"claimed_at <= now64(6) + INTERVAL {_AHEAD_S} SECOND), max(released), now64(6) FROM leases "
            "WHERE name = {name:String} "
            "AND fencing = (SELECT max(fencing) FROM leases WHERE name = {name:String}) "
            "GROUP BY fencing, claim_id ORDER BY first, claim_id LIMIT 1",
            {"name": name},
        )
        if not rows:
            return _State(0, "", "", 0, 0)
        fencing, claim_id, holder, _, expires_us, released, now_us = rows[0]
        return _State(int(fencing), claim_id, holder, 0 if released else int(expires_us), int(now_us))


def _lease(name: str, state: _State) -> Lease:
    return Lease(name, state.holder, state.fencing, from_microseconds(0) + timedelta(microseconds=state.expires_us))
