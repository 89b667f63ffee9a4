"""The gateway in front of a real broker that goes away and comes back."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.support.kafka_broker import KafkaBroker
from tests.support.queue_reader import read_kafka
from tests.support.running_gateway import RunningGateway
from tracejudge.testing import make_trace
from tracejudge_consumer.retry_policy import RetryPolicy
from tracejudge_sdk import SendPolicy, TraceClient, codec
from tracejudge_sdk.transports import transport_for

pytestmark = pytest.mark.kafka

SHORT = {"delivery_timeout_ms": 1500, "request_timeout_ms": 1000, "bootstrap_timeout_ms": 1000, "max_block_ms": 500}
QUICK = SendPolicy(linger_s=0.01, first_pause_s=0.05, longest_pause_s=0.2)


@pytest.fixture(autouse=True)
def _quiet_kafka(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """kafka-python says every failed connection, several times a second."""
    with caplog.at_level(logging.CRITICAL, logger="kafka"):
        yield


@pytest.mark.slow
def test_what_was_accepted_is_in_the_topic_and_what_was_not_arrives_when_the_broker_is_back(
    restartable_kafka_broker: KafkaBroker, kafka_topic: str
) -> None:
    broker = restartable_kafka_broker
    url = f"kafka://{broker.bootstrap}/{kafka_topic}"
    retry = RetryPolicy(first_s=0.1, longest_s=0.5)
    with RunningGateway(lambda: transport_for(url, options=SHORT), retry=retry) as gateway:
        gateway.wait_ready()
        lines = b"\n".join(codec.encode(make_trace(number)) for number in range(50))
        assert gateway.post(lines, zipped=True).json["accepted"] == 50
        assert len(read_kafka(broker.bootstrap, kafka_topic, 50)) == 50

        broker.stop()
        client = TraceClient(gateway.url, app="shop", policy=QUICK)
        ids = [client.log(query=str(number)) for number in range(20)]
        answer = gateway.post(codec.encode(make_trace(50)))
        assert (answer.status, answer.json["unavailable"]) == (503, 1)
        assert gateway.request("GET", "/ready").status == 503
        assert gateway.request("GET", "/live").status == 200

        broker.start()
        assert client.close(60)
        assert client.stats().sent == 20
        gateway.wait_ready()
        assert gateway.post(codec.encode(make_trace(50))).status == 200
    found = {key for key, _ in read_kafka(broker.bootstrap, kafka_topic, 71)}
    assert found == {f"t-{number:06d}" for number in range(51)} | set(ids)
