"""Stores the alert loop's state between two ticks: its own and that of its series, in one insert.

Everything is written under the leader's fencing number: of two leaders the state of the later one is valid, and of two
saves of one leader the later save.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from tracejudge.alerts import SeriesSnapshot
from tracejudge.store import AlertSnapshot, Cursor, Store
from tracejudge_consumer.alerting.leadership import Leadership

LOOP_STATE: Final = "alert-loop"  # the snapshot that holds the cursor; all others are the engine's and the channels'


class LoopMemory:
    """Used by one leader at a time, which calls `load` when it begins to lead."""

    def __init__(self, store: Store, leadership: Leadership) -> None:
        self._store = store
        self._leadership = leadership
        self._saved_at: datetime | None = None

    def load(self) -> dict[str, AlertSnapshot]:
        """The valid snapshots, by name."""
        stored = self._store.alert_snapshots.load_all()
        loop = stored.get(LOOP_STATE)
        self._saved_at = None if loop is None else loop.saved_at
        return stored

    def save(self, taken: Sequence[SeriesSnapshot], *, cursor: Cursor | None, state: Mapping[str, Any]) -> None:
        """Stores snapshots, and the loop's own cursor and state as the last of them."""
        self._write(taken, loop=(cursor, state))

    def save_beside(self, taken: Sequence[SeriesSnapshot]) -> None:
        """Stores snapshots that do not depend on the cursor, such as those of channels."""
        self._write(taken)

    def _write(
        self, taken: Sequence[SeriesSnapshot], *, loop: tuple[Cursor | None, Mapping[str, Any]] | None = None
    ) -> None:
        fencing = self._leadership.fencing
        now = self._store.now()
        # Of two snapshots under one fencing number the later is valid, and the store's clock may have been set back.
        if self._saved_at is not None:
            now = max(now, self._saved_at + timedelta(milliseconds=1))
        self._saved_at = now
        rows = [AlertSnapshot(name=s.name, cursor=None, state=s.state, saved_at=now, fencing=fencing) for s in taken]
        if loop is not None:
            cursor, state = loop
            rows.append(AlertSnapshot(name=LOOP_STATE, cursor=cursor, state=state, saved_at=now, fencing=fencing))
        self._store.alert_snapshots.save_all(rows)
