"""The SDK on a real broker that asks for a password, in plain text and inside TLS."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.kafka.distribution import KafkaUnavailableError
from tests.support.queue_reader import read_kafka
from tests.support.secure_kafka_broker import PASSWORD, USER, SecureKafkaBroker
from tracejudge_sdk import TraceClient
from tracejudge_sdk.errors import TransportUnavailable
from tracejudge_sdk.transports.kafka import KafkaTransport

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

SHORT = {"delivery_timeout_ms": 1500, "request_timeout_ms": 1000, "bootstrap_timeout_ms": 2000, "max_block_ms": 500}
LOGIN = {"sasl_mechanism": "PLAIN", "sasl_plain_username": USER, "sasl_plain_password": PASSWORD}


@pytest.fixture(scope="module")
def broker() -> Iterator[SecureKafkaBroker]:
    try:
        made = SecureKafkaBroker()
    except KafkaUnavailableError as missing:
        if os.environ.get("CI", "").lower() in {"true", "1"}:
            pytest.fail(f"no secure Kafka broker in CI: {missing}", pytrace=False)
        pytest.skip(f"no secure Kafka broker: {missing}")
    with made:
        made.create_topic("traces")
        yield made


@pytest.fixture(autouse=True)
def _quiet_kafka(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """kafka-python says every refused connection, several times a second."""
    with caplog.at_level(logging.CRITICAL, logger="kafka"):
        yield


def _options(broker: SecureKafkaBroker, kind: str) -> tuple[str, dict[str, Any]]:
    if kind == "SASL":
        return broker.sasl, {"security_protocol": "SASL_PLAINTEXT", **LOGIN}
    return broker.tls, {"security_protocol": "SASL_SSL", "ssl_cafile": str(broker.certificate), **LOGIN}


@pytest.mark.parametrize("kind", ["SASL", "SASL and TLS"])
def test_who_knows_the_password_gets_in_and_delivers(broker: SecureKafkaBroker, kind: str) -> None:
    topic = broker.create_topic(f"in-{len(kind)}")
    address, options = _options(broker, kind)
    client = TraceClient(f"kafka://{address}/{topic}", app="shop", queue_options=options)
    ids = [client.log(query=f"q{number}") for number in range(50)]
    assert client.close(60), client.stats()
    assert client.stats().sent == 50
    assert sorted(key for key, _ in read_kafka(broker.bootstrap, topic, 50)) == sorted(ids)


def test_settings_come_from_the_environment(broker: SecureKafkaBroker) -> None:
    import json

    topic = broker.create_topic("from-env")
    address, options = _options(broker, "TLS")
    client = TraceClient.from_env(
        {
            "TRACEJUDGE_QUEUE": f"kafka://{address}/{topic}",
            "TRACEJUDGE_APP": "shop",
            "TRACEJUDGE_QUEUE_OPTIONS": json.dumps(options),
        }
    )
    trace_id = client.log(query="q")
    assert client.close(60), client.stats()
    assert [key for key, _ in read_kafka(broker.bootstrap, topic, 1)] == [trace_id]
    assert PASSWORD not in repr(client.settings)


@pytest.mark.parametrize(
    ("kind", "changed"),
    [
        ("SASL", {"sasl_plain_password": "wrong-but-also-secret"}),
        ("SASL and TLS", {"sasl_plain_password": "wrong-but-also-secret"}),
        ("SASL and TLS", {"ssl_cafile": None}),
    ],
    ids=["wrong password", "wrong password inside TLS", "a certificate that nobody vouches for"],
)
def test_who_does_not_get_in_is_told_without_the_password_and_may_try_again(
    broker: SecureKafkaBroker, kind: str, changed: dict[str, Any]
) -> None:
    address, options = _options(broker, kind)
    transport = KafkaTransport([address], "traces", options={**SHORT, **options, **changed})
    with pytest.raises(TransportUnavailable) as caught:
        transport.send([("a", b"{}")])
    transport.close(1)
    said = str(caught.value)
    assert address in said
    for secret in (PASSWORD, "wrong-but-also-secret"):
        assert secret not in said
