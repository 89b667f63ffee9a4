"""Rows of the tables of alerts: snapshots of the engine, the outbox of notifications, and people's actions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from tracejudge.store.rows import Cursor


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertSnapshot:
    """Persisted state of the alert engine: a shortcut, never the truth. `state` holds JSON values."""

    name: str  # the rule, or whatever one snapshot covers
    cursor: Cursor | None
    state: Mapping[str, Any]
    saved_at: datetime
    fencing: int = 0  # of the lease under which it was written: the highest wins


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxItem:
    """A notification to be delivered at least once by one notifier."""

    event_id: str
    notifier: str
    state: Literal["pending", "sent", "given_up"] = "pending"
    attempts: int = 0
    last_error: str = ""
    updated_at: datetime
    message: str = ""  # the id of the message it was put into, together with others; "": none yet, or one of its own


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxStanding:
    """The state of one notifier's outbox: how many notifications wait, were accepted, and were given up; and the last
    error of those that wait."""

    notifier: str
    pending: int
    sent: int
    given_up: int
    last_sent_at: datetime | None
    last_error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UserAction:
    """What a person did about alerts: silence, accept, mark an incident."""

    action_id: str
    kind: str
    target: Mapping[str, Any]  # JSON values: rule, series, ...
    start: datetime
    end: datetime | None = None
    by: str = ""
    note: str = ""
    at: datetime
