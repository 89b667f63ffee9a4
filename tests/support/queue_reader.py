"""A queue read from outside, without the code under test where that can be done."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

from kafka import KafkaConsumer, TopicPartition

_LIMIT_S = 30.0


def read_sqlite(path: Path) -> list[tuple[str, bytes]]:
    """(record key, value) of every record in the log, oldest first."""
    db = sqlite3.connect(path)
    try:
        rows = db.execute("SELECT record_key, value FROM records ORDER BY record_offset").fetchall()
    finally:
        db.close()
    return [(key.decode(), value) for key, value in rows]


def read_kafka(bootstrap: str, topic: str, count: int) -> list[tuple[str, bytes]]:
    """(record key, value) of the first `count` records of a topic, by partition and offset; fewer after 30 s."""
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, group_id=None, enable_auto_commit=False, fetch_max_bytes=50_000_000
    )
    found: list[tuple[int, int, str, bytes]] = []
    try:
        partitions = [TopicPartition(topic, number) for number in sorted(consumer.partitions_for_topic(topic) or ())]
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        deadline = time.monotonic() + _LIMIT_S
        while len(found) < count and time.monotonic() < deadline:
            for records in consumer.poll(timeout_ms=500).values():
                found += [(r.partition, r.offset, r.key.decode(), r.value) for r in records]
    finally:
        consumer.close(timeout_ms=2000)
    return [(key, value) for _, _, key, value in sorted(found)]
