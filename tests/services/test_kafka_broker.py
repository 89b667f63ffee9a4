"""The test broker is a real Kafka: records outlive kill -9, groups share partitions, idempotence recovers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.errors import TopicAlreadyExistsError

from tests.support.kafka_broker import BrokerNotOwnedError, ExistingBroker, KafkaBroker

pytestmark = pytest.mark.kafka

Record = tuple[int, int, bytes]


@contextmanager
def producing(broker: KafkaBroker, **settings: Any) -> Iterator[Any]:
    producer = KafkaProducer(
        bootstrap_servers=broker.bootstrap,
        acks="all",
        compression_type="lz4",
        reconnect_backoff_max_ms=500,
        **settings,
    )
    try:
        yield producer
    finally:
        producer.close(timeout=5)


@contextmanager
def consuming(broker: KafkaBroker, topic: str, group: str, **settings: Any) -> Iterator[Any]:
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=broker.bootstrap,
        group_id=group,
        enable_auto_commit=False,
        heartbeat_interval_ms=500,  # members learn of a rebalance by it; the default of 3 s makes the tests wait
        auto_offset_reset="earliest",
        partition_assignment_strategy=[CooperativeStickyAssignor()],
        reconnect_backoff_max_ms=500,
        **settings,
    )
    try:
        # Known partitions before the first poll: otherwise the metadata can arrive in the middle of the first join,
        # and a kafka-python 3.0 consumer whose short poll ends there never takes up its assignment.
        consumer.partitions_for_topic(topic)
        yield consumer
    finally:
        consumer.close(autocommit=False, timeout_ms=5000)


def read(consumer: Any, count: int, *, timeout_s: float = 30.0) -> list[Record]:
    """At least `count` records as (partition, offset, value), or what came within the time."""
    records: list[Record] = []
    deadline = time.monotonic() + timeout_s
    while len(records) < count and time.monotonic() < deadline:
        for batch in consumer.poll(timeout_ms=200).values():
            records += [(record.partition, record.offset, record.value) for record in batch]
    return records


def send(producer: Any, topic: str, values: list[bytes]) -> None:
    """Send and wait for every acknowledgement, each key on its own partition."""
    futures = [producer.send(topic, key=value, value=value) for value in values]
    for future in futures:
        future.get(timeout=40)


def poll_until(consumers: list[Any], reached: Callable[[], bool], *, timeout_s: float = 30.0) -> None:
    """Polls each consumer in a thread of its own, as members of a group live: a rebalance needs all at once."""
    deadline = time.monotonic() + timeout_s
    settled = threading.Event()

    def keep_polling(consumer: Any) -> None:
        while not settled.is_set() and time.monotonic() < deadline:
            consumer.poll(timeout_ms=1000)
            if reached():
                settled.set()

    with ThreadPoolExecutor(len(consumers)) as threads:
        for polling in [threads.submit(keep_polling, consumer) for consumer in consumers]:
            polling.result()
    assert settled.is_set(), f"the group did not settle: {[c.assignment() for c in consumers]}"


def numbered(count: int, prefix: str = "r") -> list[bytes]:
    return [f"{prefix}{number}".encode() for number in range(count)]


def test_what_was_committed_is_not_read_again(kafka_broker: KafkaBroker, kafka_topic: str) -> None:
    with producing(kafka_broker) as producer:
        send(producer, kafka_topic, numbered(50))
    with consuming(kafka_broker, kafka_topic, "g", max_poll_records=10) as first:
        seen = read(first, 20)
        first.commit()
    with consuming(kafka_broker, kafka_topic, "g") as second:
        rest = read(second, 50 - len(seen))
    assert len(seen) < 50
    assert sorted(value for _, _, value in seen + rest) == sorted(numbered(50))


def test_a_topic_has_its_partitions_and_true_end_offsets(kafka_broker: KafkaBroker, kafka_topic: str) -> None:
    """Records of one batch count one by one, which lag rests on."""
    with producing(kafka_broker, linger_ms=50) as producer:
        for partition in (0, 1):
            for value in numbered(10):
                producer.send(kafka_topic, value=value, partition=partition)
        producer.flush(timeout=20)
    with consuming(kafka_broker, kafka_topic, "lag") as consumer:
        assert consumer.partitions_for_topic(kafka_topic) == {0, 1}
        partitions = [TopicPartition(kafka_topic, number) for number in (0, 1)]
        assert list(consumer.end_offsets(partitions).values()) == [10, 10]


def test_a_topic_cannot_be_created_twice(kafka_broker: KafkaBroker, kafka_topic: str) -> None:
    with pytest.raises(TopicAlreadyExistsError):
        kafka_broker.create_topic(kafka_topic, partitions=2)


def test_two_members_share_the_partitions(kafka_broker: KafkaBroker, kafka_topic: str) -> None:
    with (
        consuming(kafka_broker, kafka_topic, "pair") as one,
        consuming(kafka_broker, kafka_topic, "pair") as two,
    ):
        poll_until([one, two], lambda: len(one.assignment()) == len(two.assignment()) == 1)
        assert one.assignment() | two.assignment() == {TopicPartition(kafka_topic, p) for p in (0, 1)}


def test_records_and_commits_survive_kill_9(restartable_kafka_broker: KafkaBroker, kafka_topic: str) -> None:
    broker = restartable_kafka_broker
    before = broker.bootstrap
    with producing(broker) as producer:
        send(producer, kafka_topic, numbered(30))
    with consuming(broker, kafka_topic, "g", max_poll_records=5) as consumer:
        seen = read(consumer, 10)
        consumer.commit()
    broker.restart(kill=True)
    assert broker.bootstrap == before
    with consuming(broker, kafka_topic, "g") as consumer:
        rest = read(consumer, 30 - len(seen))
    assert sorted(value for _, _, value in seen + rest) == sorted(numbered(30))


@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
def test_an_idempotent_producer_recovers_after_a_restart(
    restartable_kafka_broker: KafkaBroker, kafka_topic: str, kill: bool
) -> None:
    """Sends made while the broker is down arrive once each, by the same producer."""
    broker = restartable_kafka_broker
    with producing(broker, enable_idempotence=True, delivery_timeout_ms=60_000) as producer:
        send(producer, kafka_topic, numbered(20, "before"))
        broker.kill() if kill else broker.stop()
        pending = [producer.send(kafka_topic, key=value, value=value) for value in numbered(20, "down")]
        broker.start()
        for future in pending:
            future.get(timeout=40)
        send(producer, kafka_topic, numbered(20, "after"))
    expected = numbered(20, "before") + numbered(20, "down") + numbered(20, "after")
    with consuming(broker, kafka_topic, "all") as consumer:
        values = [value for _, _, value in read(consumer, len(expected))]
    assert sorted(values) == sorted(expected)


def test_a_consumer_goes_on_after_a_restart(restartable_kafka_broker: KafkaBroker, kafka_topic: str) -> None:
    broker = restartable_kafka_broker
    with producing(broker) as producer, consuming(broker, kafka_topic, "g") as consumer:
        send(producer, kafka_topic, numbered(5, "a"))
        seen = read(consumer, 5)
        broker.restart(kill=True)
        send(producer, kafka_topic, numbered(5, "b"))
        seen += read(consumer, 5)
    assert {value for _, _, value in seen} == {*numbered(5, "a"), *numbered(5, "b")}


def test_a_paused_broker_answers_again_when_resumed(restartable_kafka_broker: KafkaBroker, kafka_topic: str) -> None:
    broker = restartable_kafka_broker
    with producing(broker) as producer:
        send(producer, kafka_topic, numbered(1))
        broker.pause()
        waiting = producer.send(kafka_topic, value=b"held")
        assert not waiting.is_done
        broker.resume()
        waiting.get(timeout=40)


def test_an_existing_broker_is_not_ours_to_stop(kafka_broker: KafkaBroker) -> None:
    existing = ExistingBroker(kafka_broker.bootstrap)
    for forbidden in (existing.stop, existing.kill, existing.restart, existing.start):
        with pytest.raises(BrokerNotOwnedError, match="existing broker"):
            forbidden()
    assert kafka_broker.running
