"""The SDK on a real broker that is down, late, frozen, killed, or refuses."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.kafka_broker import KafkaBroker
from tests.support.queue_reader import read_kafka
from tracejudge.testing import make_trace
from tracejudge_sdk import SendPolicy, Trace, TraceClient, codec
from tracejudge_sdk.errors import ConfigError, TransportRejected, TransportUnavailable
from tracejudge_sdk.transports.kafka import KafkaTransport

pytestmark = pytest.mark.kafka

QUICK = SendPolicy(linger_s=0.01, first_pause_s=0.05, longest_pause_s=0.2)
SHORT = {"delivery_timeout_ms": 1500, "request_timeout_ms": 1000, "bootstrap_timeout_ms": 1000, "max_block_ms": 500}


@pytest.fixture(autouse=True)
def _quiet_kafka(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """kafka-python says every failed connection, several times a second."""
    with caplog.at_level(logging.CRITICAL, logger="kafka"):
        yield


def _traces(broker: KafkaBroker, topic: str, count: int) -> list[Trace]:
    found = [codec.decode(value) for _, value in read_kafka(broker.bootstrap, topic, count)]
    return [record for record in found if isinstance(record, Trace)]


def _closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_service_logs_to_a_topic_and_its_traces_arrive(kafka_broker: KafkaBroker, kafka_topic: str) -> None:
    client = TraceClient(f"kafka://{kafka_broker.bootstrap}/{kafka_topic}", app="shop")
    ids = [client.log(query=f"q{number}", response="r", source_nodes=["t" * 800] * 5) for number in range(300)]
    assert client.close(30)
    assert client.stats().sent == 300
    found = _traces(kafka_broker, kafka_topic, 300)
    assert sorted(trace.trace_id for trace in found) == sorted(ids)


def test_b36_a_large_trace_between_two_small_ones_arrives_cut(kafka_broker: KafkaBroker, kafka_topic: str) -> None:
    nodes = [{"node_id": f"n-{i}", "text": "漢é🙂x" * 7_500, "score": i / 74} for i in range(74)]
    client = TraceClient(f"kafka://{kafka_broker.bootstrap}/{kafka_topic}", app="shop")
    client.log(query="before", trace_id="a")
    client.log(query="large", trace_id="b", source_nodes=nodes)
    client.log(query="after", trace_id="c")
    assert client.close(30)
    found = {trace.trace_id: trace for trace in _traces(kafka_broker, kafka_topic, 3)}
    assert sorted(found) == ["a", "b", "c"]
    assert found["b"].truncated
    assert [(node.node_id, node.score) for node in found["b"].source_nodes] == [(f"n-{i}", i / 74) for i in range(74)]


def test_b36_a_topic_with_a_smaller_limit_refuses_one_record_and_takes_its_neighbours(
    kafka_broker: KafkaBroker, kafka_topic: str
) -> None:
    topic = kafka_broker.create_topic(f"{kafka_topic}-small", config={"max.message.bytes": "20000"})
    transport = KafkaTransport([kafka_broker.bootstrap], topic, options={"compression_type": None})
    records = [("a", b"a" * 100), ("b", b"b" * 50_000), ("c", b"c" * 100)]
    with pytest.raises(TransportRejected, match=r"max\.message\.bytes") as caught:
        transport.send(records)
    assert caught.value.failed == (1,)
    transport.close(5)
    assert sorted(key for key, _ in read_kafka(kafka_broker.bootstrap, topic, 2)) == ["a", "c"]


def test_b33_a_broker_that_is_down_neither_blocks_nor_raises(caplog: pytest.LogCaptureFixture) -> None:
    client = TraceClient(f"kafka://127.0.0.1:{_closed_port()}/traces", app="shop", queue_options=SHORT, policy=QUICK)
    slowest = 0.0
    for _ in range(100):
        began = time.perf_counter()
        client.log(query="q", response="r" * 1000)
        slowest = max(slowest, time.perf_counter() - began)
    assert slowest < 1.0, "not a measurement: any wait for the broker would take longer"
    assert not client.close(0.2)
    assert dict(client.stats().dropped) == {"unsent_at_close": 100}


@pytest.mark.slow
def test_b33_a_broker_that_comes_up_later_gets_what_waited(
    restartable_kafka_broker: KafkaBroker, kafka_topic: str
) -> None:
    broker = restartable_kafka_broker
    broker.stop()
    client = TraceClient(f"kafka://{broker.bootstrap}/{kafka_topic}", app="shop", queue_options=SHORT, policy=QUICK)
    ids = [client.log(query="q") for _ in range(20)]
    assert _eventually(lambda: "Kafka" in (client.stats().last_error or ""))
    assert client.stats().queued == 20
    broker.start()
    ids.append(client.log(query="late"))
    assert client.close(60)
    assert client.stats().dropped_total == 0
    assert {trace.trace_id for trace in _traces(broker, kafka_topic, 21)} == set(ids)


@pytest.mark.slow
def test_a_broker_killed_and_started_again_under_load_loses_nothing(
    restartable_kafka_broker: KafkaBroker, kafka_topic: str
) -> None:
    broker = restartable_kafka_broker
    client = TraceClient(f"kafka://{broker.bootstrap}/{kafka_topic}", app="shop", queue_options=SHORT, policy=QUICK)
    ids = []
    stop = threading.Event()

    def log() -> None:
        number = 0
        while not stop.wait(0.005):
            ids.append(client.log(query=f"q{number}", response="r" * 500))
            number += 1

    logging_thread = threading.Thread(target=log)
    logging_thread.start()
    assert client.flush(30)
    broker.restart(kill=True)
    stop.set()
    logging_thread.join()
    assert client.close(60)
    stats = client.stats()
    assert (stats.sent, stats.dropped_total) == (len(ids), 0)
    # At least once: some may be there twice.
    found = _traces(broker, kafka_topic, len(ids))
    assert {trace.trace_id for trace in found} == set(ids)


def test_a_frozen_broker_is_given_up_in_time_and_used_again(
    restartable_kafka_broker: KafkaBroker, kafka_topic: str
) -> None:
    broker = restartable_kafka_broker
    transport = KafkaTransport([broker.bootstrap], kafka_topic, options=SHORT)
    transport.send([("a", codec.encode(make_trace(1)))])
    broker.pause()
    threads_before = threading.active_count()
    for _ in range(3):  # the producer is given up and built anew on the way
        with pytest.raises(TransportUnavailable, match="check"):
            transport.send([("b", codec.encode(make_trace(2)))])
    assert threading.active_count() <= threads_before + 1, "no sender thread is left behind"
    broker.resume()
    _until_sent(transport, [("c", codec.encode(make_trace(3)))])
    transport.close(5)
    assert {"a", "c"} <= {key for key, _ in read_kafka(broker.bootstrap, kafka_topic, 3)}


def _until_sent(transport: KafkaTransport, records: list[tuple[str, bytes]]) -> None:
    for _ in range(20):
        try:
            transport.send(records)
        except TransportUnavailable:
            continue
        return
    pytest.fail("the broker came back and was not used")


def test_closing_from_another_thread_ends_a_send_under_way(
    restartable_kafka_broker: KafkaBroker, kafka_topic: str
) -> None:
    broker = restartable_kafka_broker
    transport = KafkaTransport([broker.bootstrap], kafka_topic, options={"delivery_timeout_ms": 60_000})
    transport.send([("a", b"{}")])
    broker.pause()
    failures: list[Exception] = []

    def send() -> None:
        try:
            transport.send([("b", b"{}")])
        except TransportUnavailable as error:
            failures.append(error)

    sending = threading.Thread(target=send)
    sending.start()
    assert _eventually(lambda: transport._producer is not None and transport._producer._accumulator.has_incomplete)
    transport.close(0.0)
    sending.join(30)
    assert not sending.is_alive()
    assert failures
    broker.resume()


def _eventually(condition: Any) -> bool:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if condition():
            return True
        threading.Event().wait(0.01)
    return False


def test_a_topic_that_is_not_there_is_unavailable_and_named(kafka_broker: KafkaBroker) -> None:
    transport = KafkaTransport([kafka_broker.bootstrap], "no-such-topic", options=SHORT)
    with pytest.raises(TransportUnavailable, match="no-such-topic"):
        transport.send([("a", b"{}"), ("b", b"{}")])
    transport.close(1)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"no_such_setting": 1}, "no_such_setting"),
        ({"compression_type": "brotli"}, "brotli"),
        ({"enable_idempotence": True, "acks": 1}, "idempotence"),
    ],
    ids=str,
)
def test_settings_that_cannot_work_are_a_fault_of_the_settings(
    kafka_broker: KafkaBroker, kafka_topic: str, options: dict[str, Any], words: str
) -> None:
    transport = KafkaTransport([kafka_broker.bootstrap], kafka_topic, options=options)
    with pytest.raises(ConfigError, match=words):
        transport.send([("a", b"{}")])
    transport.close(0)


def test_security_settings_pass_through(kafka_broker: KafkaBroker, kafka_topic: str) -> None:
    """The broker speaks plain text, so a client that really tries SASL or TLS does not get in."""
    for options in (
        {"security_protocol": "SSL"},
        {
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "PLAIN",
            "sasl_plain_username": "u",
            "sasl_plain_password": "s3cret",
        },
    ):
        transport = KafkaTransport([kafka_broker.bootstrap], kafka_topic, options={**SHORT, **options})
        with pytest.raises(TransportUnavailable) as caught:
            transport.send([("a", b"{}")])
        assert "s3cret" not in str(caught.value)
        transport.close(0)


def test_a_forked_worker_builds_a_producer_of_its_own(kafka_broker: KafkaBroker, kafka_topic: str) -> None:
    code = """
import os, sys
from tracejudge_sdk import TraceClient
client = TraceClient(sys.argv[1], app="shop")
client.log(query="parent"); assert client.flush(30)
pid = os.fork()
if pid == 0:
    client.log(query="child")
    sys.exit(0)
client.log(query="parent again")
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
"""
    if not hasattr(os, "fork"):
        pytest.skip("needs os.fork")
    url = f"kafka://{kafka_broker.bootstrap}/{kafka_topic}"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, url], capture_output=True, text=True, timeout=90, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(t.query for t in _traces(kafka_broker, kafka_topic, 3)) == ["child", "parent", "parent again"]
