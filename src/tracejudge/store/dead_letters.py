"""`dead_letters`: records nobody could read, and rows the store would not take, each kept whole with its reason."""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import asdict, is_dataclass, replace
from datetime import datetime, timedelta, timezone
from hashlib import sha256
from typing import Final, Literal

from tracejudge.scores import DeadLetter
from tracejudge.store.connection import Connection, Row
from tracejudge.store.queries import DeadLetterFilter
from tracejudge.store.rows import DeadCount, Inserted, Rejected, StoredDeadLetter, StoredTrace
from tracejudge.store.table import Columns, Table, Where
from tracejudge.store.values import EPOCH, bound_instant, from_microseconds, microseconds, text, to_json, whole

_ID: Final = re.compile(r"(-?\d+)\.(-?\d+)\.([0-9a-f]{8})")
REJECTED_ROW: Final = "rejected_row"
"""Reason of the rows that the store refused; their source is `store:TABLE`."""


class DeadLetters(Table[StoredDeadLetter]):
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
        state="LowCardinality(String)",
        marked_at="Nullable(DateTime64(6, 'UTC'))",
        row_version="UInt64",
    )

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection, self.reject)

    def insert(self, rows: Sequence[DeadLetter]) -> Inserted:
        """Stores dead letters; safe to repeat, and what was done about one already stands."""
        return self._insert([StoredDeadLetter(letter=row, value_hash=_hash(row.value)) for row in rows])

    def mark(self, rows: Sequence[StoredDeadLetter], state: Literal["replayed", "dropped"], *, at: datetime) -> None:
        """Records what was done about dead letters; the latest mark counts. Dropped ones lose their bytes: on disk at
        the store's next merge, at the latest when their retention ends."""
        marked = [replace(row, state=state, marked_at=at) for row in rows]
        if state == "dropped":
            marked = [replace(row, letter=replace(row.letter, key=None, value=b"", headers=())) for row in marked]
        self._insert(marked)

    def reject(self, table: str, rows: Sequence[tuple[object, Rejected]]) -> None:
        """Keeps what `table` refused. The time is the store's, for the row's own may be what is wrong with it."""
        if table == self.name:
            return  # logged by the caller: a dead letter about a dead letter would never end
        at = datetime.now(timezone.utc)
        self.insert(
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
        """The dead letters of [since, until), the latest first, whatever was done about them."""
        where = DeadLetterFilter(since=since, until=until, reason=reason, state=None)
        return [row.letter for row in self.find(where, limit=limit)]

    def find(self, where: DeadLetterFilter, *, limit: int = 1000) -> list[StoredDeadLetter]:
        """The dead letters of the filter, the latest first. Raises ValueError for an id that is none."""
        conditions = _window(where.since, where.until).equal("source", where.source).equal("reason", where.reason)
        if where.state is not None:
            conditions.equal("state", "" if where.state == "open" else where.state)
        if where.letter_ids:
            _any_of(conditions, where.letter_ids)
        order = f"ORDER BY at DESC, source, partition, offset LIMIT {int(limit)}"
        return self._select(f"{conditions} {order}", conditions.parameters, binary=("key", "value"))

    def counts(self, since: datetime | None = None, until: datetime | None = None) -> dict[str, int]:
        """The number of dead letters in [since, until), by reason."""
        where = _window(since, until)
        rows = self._connection.query(
            f"SELECT reason, count() FROM dead_letters FINAL {where} GROUP BY reason ORDER BY reason", where.parameters
        )
        return {row[0]: int(row[1]) for row in rows}

    def by_partition(self, since: datetime, until: datetime) -> list[DeadCount]:
        """How many of each hour, partition and reason were read in [since, until); rows the store refused apart, under
        their source `store:TABLE`."""
        where = _window(since, until)
        rows = self._connection.query(
            "SELECT toUnixTimestamp(toStartOfHour(at)) AS hour, source, partition, reason, count() FROM dead_letters "
            f"FINAL {where} GROUP BY hour, source, partition, reason ORDER BY hour, source, partition, reason",
            where.parameters,
        )
        return [
            DeadCount(
                hour=EPOCH + timedelta(seconds=int(hour)),
                source=source,
                partition=partition,
                reason=reason,
                count=int(count),
            )
            for hour, source, partition, reason, count in rows
        ]

    def shares(self, source: str, since: datetime) -> list[tuple[int, int]]:
        """For each minute since then in which records of a queue were read: how many, and how many of them are open
        dead letters that hold anything. In the order of time. A trace that came again counts once, where it was
        first read."""
        read = "source = {source:String} AND ingested_at >= {since:DateTime64(6, 'UTC')}"
        # Which traces, without FINAL; it then reads only these, and not the whole table.
        place = "environment, app, event_time, trace_id"
        once = f"traces FINAL WHERE {read} AND ({place}) IN (SELECT {place} FROM traces WHERE {read})"
        rows = self._connection.query(
            "SELECT minute, sum(read), sum(dead) FROM ("
            "SELECT toStartOfMinute(at) AS minute, count() AS read, countIf(value != '') AS dead "
            "FROM dead_letters FINAL WHERE source = {source:String} AND at >= {since:DateTime64(6, 'UTC')} "
            "AND state = '' GROUP BY minute "
            f"UNION ALL SELECT toStartOfMinute(ingested_at) AS minute, count() AS read, 0 AS dead FROM {once} "
            "GROUP BY minute) GROUP BY minute ORDER BY minute",
            {"source": source, "since": bound_instant("since", since)},
        )
        return [(int(read), int(dead)) for _, read, dead in rows]

    def _encode(self, value: StoredDeadLetter) -> Row:
        letter = value.letter
        at_us = microseconds("at", letter.at)
        headers = [[name, b64encode(content).decode()] for name, content in letter.headers]
        marked_us = None if value.marked_at is None else microseconds("marked_at", value.marked_at)
        return (
            text("source", letter.source),
            whole("partition", letter.partition, low=-1, high=2**31 - 1),
            whole("offset", letter.offset, low=-1),
            value.value_hash,
            letter.key,
            letter.value,
            to_json("headers", headers),
            text("reason", letter.reason),
            text("detail", letter.detail),
            at_us,
            "" if value.state == "open" else value.state,
            marked_us,
            # Of two deliveries the first stands; what was done about it beats both.
            2**63 - at_us if marked_us is None else 2**63 + marked_us,
        )

    def _decode(self, row: Row) -> StoredDeadLetter:
        return StoredDeadLetter(
            letter=DeadLetter(
                source=row[0],
                partition=row[1],
                offset=row[2],
                key=row[4],
                value=row[5],
                headers=tuple((name, b64decode(content)) for name, content in json.loads(row[6])),
                reason=row[7],
                detail=row[8],
                at=from_microseconds(row[9]),
            ),
            value_hash=row[3],
            state=row[10] or "open",
            marked_at=None if row[11] is None else from_microseconds(row[11]),
        )


def _hash(value: bytes) -> str:
    return sha256(value).hexdigest()[:32]


def _any_of(conditions: Where, letter_ids: Sequence[str]) -> None:
    places: list[tuple[int, int, str]] = []
    for letter_id in letter_ids:
        match = _ID.fullmatch(letter_id)
        if match is None:
            raise ValueError(f"{letter_id!r} is not the id of a dead letter, such as 0.1234.9f86d081")
        places.append((int(match[1]), int(match[2]), match[3]))
    conditions.add(
        "(partition, offset, substring(value_hash, 1, 8)) IN (SELECT k.1, k.2, k.3 FROM (SELECT arrayJoin(arrayZip("
        "{partitions:Array(Int32)}, {offsets:Array(Int64)}, {hashes:Array(String)})) AS k))",
        partitions=[place[0] for place in places],
        offsets=[place[1] for place in places],
        hashes=[place[2] for place in places],
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
