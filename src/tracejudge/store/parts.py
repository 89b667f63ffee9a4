"""`parts`: fields of traces whose rest is still to come."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from hashlib import sha256
from typing import Final

from pydantic_core import PydanticSerializationError

from tracejudge.scores import TraceKey
from tracejudge.store.connection import Row
from tracejudge.store.rows import Inserted, StoredPart
from tracejudge.store.table import Columns, Table
from tracejudge.store.trace_index import KEYS_IN, key_parameters
from tracejudge.store.values import RowRefused, bound_instant, from_milliseconds, milliseconds, text, whole
from tracejudge_sdk.trace import TracePart

_KEY: Final = "environment, app, trace_id"
_PLACE: Final = "environment, app, event_time, trace_id"


class Parts(Table[StoredPart]):
    """Keyed by (environment, app, trace id, hash of the part); the first stored stands."""

    name = "parts"
    columns = Columns(
        environment="LowCardinality(String)",
        app="LowCardinality(String)",
        trace_id="String",
        part_hash="String",
        event_time="DateTime64(3, 'UTC')",
        record="String",
        final="Bool",
        ingested_at="DateTime64(3, 'UTC')",
        source="LowCardinality(String)",
        partition="Int32",
        offset="Int64",
        row_version="UInt64",
    )

    def insert(self, rows: Sequence[StoredPart]) -> Inserted:
        """Stores parts; safe to repeat."""
        return self._insert(rows)

    def of(self, keys: Sequence[TraceKey]) -> dict[TraceKey, list[StoredPart]]:
        """The parts of each trace, in the order they came; traces without parts are absent."""
        found: dict[TraceKey, list[StoredPart]] = {}
        if keys:
            order = "ORDER BY environment, app, trace_id, ingested_at, partition, offset, part_hash"
            for stored in self._select(f"WHERE {KEYS_IN} {order}", key_parameters(keys)):
                part = stored.part
                found.setdefault(TraceKey(part.environment, part.app, part.trace_id), []).append(stored)
        return found

    def older_than(self, instant: datetime, *, limit: int = 1000) -> list[TraceKey]:
        """Traces whose first part came before `instant` and about which nothing is decided, the oldest first.

        Decided means a row of the ledger or a score. A complete trace that is stored is left out as well: the record
        that completed it waits for its judge.
        """
        rows = self._connection.query(
            f"WITH places AS (SELECT {_PLACE} FROM trace_index FINAL "
            f"WHERE ({_KEY}) IN (SELECT {_KEY} FROM parts)) "
            f"SELECT {_KEY} FROM parts FINAL WHERE ({_KEY}) NOT IN ("
            f"SELECT {_KEY} FROM traces WHERE ({_PLACE}) IN places AND status != 'incomplete' UNION ALL "
            f"SELECT {_KEY} FROM ledger WHERE ({_PLACE}) IN places UNION ALL "
            f"SELECT {_KEY} FROM scores WHERE ({_PLACE}) IN places) "
            f"GROUP BY {_KEY} HAVING min(ingested_at) < {{instant:DateTime64(6, 'UTC')}} "
            f"ORDER BY min(ingested_at), trace_id LIMIT {int(limit)}",
            {"instant": bound_instant("instant", instant)},
        )
        return [TraceKey(*row) for row in rows]

    def _encode(self, value: StoredPart) -> Row:
        part = value.part
        try:
            record = part.model_dump_json(exclude_none=True)
        except PydanticSerializationError as error:
            raise RowRefused("ill_typed", f"part: {error}") from error
        ingested_ms = milliseconds("ingested_at", value.ingested_at)
        return (
            text("environment", part.environment),
            text("app", part.app),
            text("trace_id", part.trace_id),
            sha256(record.encode()).hexdigest()[:32],
            milliseconds("event_time", part.event_time),
            record,
            part.final,
            ingested_ms,
            text("source", value.source),
            whole("partition", value.partition, low=-1, high=2**31 - 1),
            whole("offset", value.offset, low=-1),
            2**63 - ingested_ms,
        )

    def _decode(self, row: Row) -> StoredPart:
        return StoredPart(
            part=TracePart.model_validate_json(row[5]),
            ingested_at=from_milliseconds(row[7]),
            source=row[8],
            partition=row[9],
            offset=row[10],
        )
