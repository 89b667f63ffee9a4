"""Queues that the intake's contract suite runs on: the same few verbs for a SQLite log and for a Kafka topic."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from kafka import KafkaProducer

from tracejudge_consumer.intake import Intake, PartitionKey, RawRecord
from tracejudge_consumer.intake.kafka import KafkaIntake
from tracejudge_consumer.intake.sqlite import SqliteIntake
from tracejudge_sdk.transports.sqlite_log import SqliteLog

Row = tuple[bytes | None, bytes, tuple[tuple[str, bytes], ...]]

QUICK_GROUP: dict[str, Any] = {"session_timeout_ms": 6_000, "heartbeat_interval_ms": 300}
"""Options under which members of a group learn of each other soon."""


class Queue(Protocol):
    """A queue under test."""

    partitions: int

    def append(self, rows: Sequence[Row]) -> None:
        """Appends (key, value, headers); returns when they can be read."""
        ...

    def reader(self, group: str) -> Intake: ...


class SqliteTestQueue:
    """A log in a file."""

    partitions = 1

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, rows: Sequence[Row]) -> None:
        log = SqliteLog(self.path)
        log.append([(key, value, headers, 1_767_225_600_000) for key, value, headers in rows])
        log.close()

    def reader(self, group: str) -> SqliteIntake:
        return SqliteIntake(SqliteLog(self.path), group=group)


class KafkaTestQueue:
    """A topic of a real broker. Rows go round the partitions."""

    def __init__(self, bootstrap: str, topic: str, *, partitions: int = 2) -> None:
        self.bootstrap = bootstrap
        self.topic = topic
        self.partitions = partitions

    def append(self, rows: Sequence[Row]) -> None:
        producer: Any = KafkaProducer(bootstrap_servers=self.bootstrap, acks="all")
        try:
            sent = [
                producer.send(self.topic, value, key=key, headers=list(headers), partition=number % self.partitions)
                for number, (key, value, headers) in enumerate(rows)
            ]
            for future in sent:
                future.get(timeout=30)
        finally:
            producer.close(timeout=5)

    def reader(self, group: str, **options: Any) -> KafkaIntake:
        return KafkaIntake([self.bootstrap], self.topic, group=group, options={**QUICK_GROUP, **options})


class Notes:
    """A listener that remembers what it was told, and lets a test say what may still be committed."""

    def __init__(self, offsets: Callable[[], Mapping[PartitionKey, int]] = dict) -> None:
        self.taken: list[tuple[str, frozenset[PartitionKey]]] = []
        self._offsets = offsets

    def revoked(self, partitions: Collection[PartitionKey]) -> Mapping[PartitionKey, int]:
        self.taken.append(("revoked", frozenset(partitions)))
        return {key: offset for key, offset in self._offsets().items() if key in partitions}

    def lost(self, partitions: Collection[PartitionKey]) -> None:
        self.taken.append(("lost", frozenset(partitions)))


def new_group() -> str:
    return f"group-{uuid.uuid4().hex[:12]}"


def values(prefix: str, count: int) -> list[Row]:
    """`count` rows whose values are told apart."""
    return [(f"k{n}".encode(), f"{prefix}{n}".encode(), ()) for n in range(count)]


def read(intake: Intake, count: int, *, polls: int = 100, max_records: int = 100) -> list[RawRecord]:
    """At least `count` records, or what came in so many polls of a fifth of a second."""
    found: list[RawRecord] = []
    for _ in range(polls):
        found += intake.poll(timeout_s=0.2, max_records=max_records)
        if len(found) >= count:
            break
    return found


def next_offsets(records: Sequence[RawRecord]) -> dict[PartitionKey, int]:
    """What to commit when all of them are done."""
    found: dict[PartitionKey, int] = {}
    for record in records:
        found[record.partition_key] = max(found.get(record.partition_key, 0), record.offset + 1)
    return found
