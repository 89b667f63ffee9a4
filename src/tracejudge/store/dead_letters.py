"""`dead_letters`: records nobody could read, and rows the store would not take, each kept whole with its reason."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import asdict, is_dataclass
from datetime import datetime, timezone
from hashlib import sha256
from typing import Final

from tracejudge.scores import DeadLetter
from tracejudge.store.connection import Connection, Row
from tracejudge.store.rows import Inserted, Rejected, StoredTrace
from tracejudge.store.table import Columns, Table, Where
from tracejudge.store.values import bound_instant, from_microseconds, microseconds, text, to_json, whole

REJECTED_ROW: Final = "rejected_row"
"""Reason of the rows that the store refused; their source is `store:TABLE`."""


class DeadLetters(Table[DeadLetter]):
    """Keyed by (source, partition, offset, hash of the value): the same record is kept once, with its first instant."""

    name = "dead_letters"
    columns = Columns(
        source="LowCardinality(String)",
        partition="Int32",
        offset="Int64",
        value_hash="String",
        key="Nullable(String)",
        value="String",
        headers="String",
        reason="LowCardinality(String)",
        detail="String",
        at="DateTime64(6, 'UTC')",
        row_version="UInt64",
    )

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection, self.reject)

    def insert(self, rows: Sequence[DeadLetter]) -> Inserted:
        """Stores dead letters; safe to repeat."""
        return self._insert(rows)

    def reject(self, table: str, rows: Sequence[tuple[object, Rejected]]) -> None:
        """Keeps what `table` refused. The time is the store's, for the row's own may be what is wrong with it."""
        if table == self.name:
            return  # logged by the caller: a dead letter about a dead letter would never end
        at = datetime.now(timezone.utc)
        self._insert(
            [
                DeadLetter(
                    source=f"store:{table}",
                    partition=-1,
                    offset=-1,
                    key=None,
                    value=_as_bytes(value),
                    reason=REJECTED_ROW,
                    detail=f"{reject.reason}: {reject.detail}",
                    at=at,
                )
                for value, reject in rows
            ]
        )

    def all(
        self,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        reason: str | None = None,
        limit: int = 1000,
    ) -> list[DeadLetter]:
        """The dead letters of [since, until), the latest first."""
        where = _window(since, until).equal("reason", reason)
        order = f"ORDER BY at DESC, source, partition, offset LIMIT {int(limit)}"
        return self._select(f"{where} {order}", where.parameters, binary=("key", "value"))

    def counts(self, since: datetime | None = None, until: datetime | None = None) -> dict[str, int]:
        """How many of each reason in [since, until)."""
        where = _window(since, until)
        rows = self._connection.query(
            f"SELECT reason, count() FROM dead_letters FINAL {where} GROUP BY reason ORDER BY reason", where.parameters
        )
        return {row[0]: int(row[1]) for row in rows}

    def _encode(self, value: DeadLetter) -> Row:
        at_us = microseconds("at", value.at)
        headers = [[name, b64encode(content).decode()] for name, content in value.headers]
        return (
            text("source", value.source),
            whole("partition", value.partition, low=-1, high=2**31 - 1),
            whole("offset", value.offset, low=-1),
            sha256(value.value).hexdigest()[:32],
            value.key,
            value.value,
            to_json("headers", headers),
            text("reason", value.reason),
            text("detail", value.detail),
            at_us,
            2**63 - at_us,
        )

    def _decode(self, row: Row) -> DeadLetter:
        return DeadLetter(
            source=row[0],
            partition=row[1],
            offset=row[2],
            key=row[4],
            value=row[5],
            headers=tuple((name, b64decode(content)) for name, content in json.loads(row[6])),
            reason=row[7],
            detail=row[8],
            at=from_microseconds(row[9]),
        )


def _window(since: datetime | None, until: datetime | None) -> Where:
    where = Where()
    if since is not None:
        where.add("at >= {since:DateTime64(6, 'UTC')}", since=bound_instant("since", since))
    if until is not None:
        where.add("at < {until:DateTime64(6, 'UTC')}", until=bound_instant("until", until))
    return where


def _as_bytes(value: object) -> bytes:
    """A refused row as JSON, with whatever odd values made it refused."""
    if isinstance(value, StoredTrace):
        plain: object = {**value.trace.model_dump(warnings=False), "source": value.source, "offset": value.offset}
    elif is_dataclass(value) and not isinstance(value, type):
        plain = asdict(value)
    else:
        plain = repr(value)
    return to_json("row", plain).encode("utf-8", "backslashreplace")
