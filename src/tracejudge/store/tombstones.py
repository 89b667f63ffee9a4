"""`tombstones`: who and what has been forgotten, as hashes, so that a replay of the queue does not bring it back.

A tombstone must outlive the data, and would itself be the last thing that names a person; so it holds a hash. Whoever
has the id can ask whether it was forgotten, and nobody can read the ids off.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Final, Literal, NamedTuple

from tracejudge.scores import TraceKey
from tracejudge.store.connection import Row
from tracejudge.store.table import Columns, Table
from tracejudge.store.values import BoundTexts, from_microseconds, microseconds, text

Kind = Literal["trace", "user"]

PREFIX: Final = "tracejudge"
"""Begins what is hashed, so that our hashes match nobody else's list of hashed ids."""

ANY: Final = ""
"""Of an environment or an app: all of them."""


def hashed(kind: Kind, value: str) -> str:
    """The hash of an id that a tombstone keeps. In SQL: `lower(hex(SHA256(concat('tracejudge:trace:', trace_id))))`."""
    return sha256(f"{PREFIX}:{kind}:{value}".encode("utf-8", "replace")).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tombstone:
    """A trace or a person that was forgotten, in one app or environment or in all (""). `value` is `hashed`."""

    kind: Kind
    value: str
    environment: str = ANY
    app: str = ANY
    reason: str = ""
    by: str = ""
    at: datetime


class Identity(NamedTuple):
    """The trace and the user that a record belongs to."""

    key: TraceKey
    user_id: str | None = None


class Tombstones(Table[Tombstone]):
    """Keyed by (kind, hash, environment, app); kept for good."""

    name = "tombstones"
    columns = Columns(
        environment="LowCardinality(String)",
        app="LowCardinality(String)",
        kind="LowCardinality(String)",
        value="String",
        reason="String",
        by="String",
        at="DateTime64(6, 'UTC')",
    )

    def insert(self, tombstones: Sequence[Tombstone]) -> None:
        """Writes tombstones; safe to repeat."""
        self._insert(tombstones)

    def bury(self, keys: Sequence[TraceKey], *, at: datetime) -> None:
        """Tombstones for traces that turned out to be a forgotten person's; safe to repeat."""
        self._insert(
            [
                Tombstone(
                    kind="trace",
                    value=hashed("trace", key.trace_id),
                    environment=key.environment,
                    app=key.app,
                    reason="of a person who was forgotten",
                    at=at,
                )
                for key in keys
            ]
        )

    def all(self) -> list[Tombstone]:
        """All tombstones, the oldest first."""
        return self._select("ORDER BY at, kind, value")

    def forgotten(self, identities: Collection[Identity]) -> frozenset[TraceKey]:
        """Which of these identities were forgotten, by their trace or by their user. One statement, whatever their
        number."""
        hashes: dict[str, list[Identity]] = {}
        for one in identities:
            hashes.setdefault(hashed("trace", one.key.trace_id), []).append(one)
            if one.user_id is not None:
                hashes.setdefault(hashed("user", one.user_id), []).append(one)
        if not hashes:
            return frozenset()
        rows = self._connection.query(
            "SELECT value, environment, app FROM tombstones FINAL "
            "WHERE kind IN ('trace', 'user') AND value IN {hashes:Array(String)}",
            {"hashes": BoundTexts(hashes)},
        )
        return frozenset(
            one.key
            for value, environment, app in rows
            for one in hashes[value]
            if (environment == one.key.environment or ANY in (environment, one.key.environment))
            and (app == one.key.app or ANY in (app, one.key.app))  # of a damaged record they may not be known
        )

    def _encode(self, value: Tombstone) -> Row:
        return (
            text("environment", value.environment),
            text("app", value.app),
            text("kind", value.kind),
            text("value", value.value),
            text("reason", value.reason),
            text("by", value.by),
            microseconds("at", value.at),
        )

    def _decode(self, row: Row) -> Tombstone:
        return Tombstone(
            environment=row[0],
            app=row[1],
            kind=row[2],
            value=row[3],
            reason=row[4],
            by=row[5],
            at=from_microseconds(row[6]),
        )
