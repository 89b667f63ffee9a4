"""The partition of a key is the one that Kafka's own clients choose."""

from __future__ import annotations

import random

import pytest

from tracejudge_sdk.transports.kafka_partitioner import KeyPartitioner, murmur2


@pytest.mark.parametrize(
    ("data", "expected"),
    [  # org.apache.kafka.common.utils.UtilsTest
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_it_is_the_hash_of_the_java_client(data: bytes, expected: int) -> None:
    assert murmur2(data) == expected % 2**32


def test_it_is_the_partition_of_kafka_python() -> None:
    from kafka.partitioner import DefaultPartitioner

    class Cluster:
        def topics(self) -> set[str]:
            return {"t"}

        def partitions_for_topic(self, topic: str) -> set[int]:
            return set(range(7))

        def available_partitions_for_topic(self, topic: str) -> set[int]:
            return set(range(7))

    rng = random.Random(5)
    for length in range(80):
        key = rng.randbytes(length)
        theirs = DefaultPartitioner().partition("t", None, key, None, b"v", Cluster())
        assert KeyPartitioner().partition("t", None, key, None, b"v", Cluster()) == theirs
