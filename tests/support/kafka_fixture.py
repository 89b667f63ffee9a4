"""Pytest plugin: one Kafka broker a session, one fresh topic a test."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.kafka_broker import KafkaBroker


@pytest.fixture(scope="session")
def kafka_broker() -> Iterator[KafkaBroker]:
    """A running broker; without one the test is skipped with the reason, or fails where CI=true."""
    # Here, not at the top: every test session loads this plugin, few need the Kafka client.
    from tests.support.kafka_broker import broker_or_reason

    broker = broker_or_reason()
    if isinstance(broker, str):
        if os.environ.get("CI", "").lower() in {"true", "1"}:
            # Silence in CI would read as "tested".
            pytest.fail(f"no Kafka broker in CI: {broker}", pytrace=False)
        pytest.skip(f"no Kafka broker: {broker}")
    with broker:
        yield broker


@pytest.fixture
def restartable_kafka_broker(kafka_broker: KafkaBroker) -> Iterator[KafkaBroker]:
    """The session's broker where it may be stopped and killed; it runs again after the test."""
    if not kafka_broker.owned:
        pytest.skip("the broker of TRACEJUDGE_TEST_KAFKA may not be stopped")
    kafka_broker.start()
    yield kafka_broker
    kafka_broker.resume()
    kafka_broker.start()


@pytest.fixture
def kafka_topic(kafka_broker: KafkaBroker, request: pytest.FixtureRequest) -> str:
    """The name of a fresh topic with 2 partitions."""
    test = re.sub(r"[^a-zA-Z0-9._-]", "-", request.node.name)[:100]
    return kafka_broker.create_topic(f"{test}-{uuid.uuid4().hex[:8]}", partitions=2)
