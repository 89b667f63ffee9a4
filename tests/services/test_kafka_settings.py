"""What no waiting mends: settings and libraries with which a topic that is there cannot be read."""

from __future__ import annotations

from typing import Any

import pytest
from kafka import KafkaProducer
from kafka.record.default_records import DefaultRecordBatch

from tests.support.intakes import KafkaTestQueue
from tests.support.kafka_broker import KafkaBroker
from tracejudge.errors import CheckFailed, SettingsError
from tracejudge_consumer.intake import Intake, RawRecord

pytestmark = pytest.mark.kafka


def first_record(intake: Intake) -> RawRecord:
    for _ in range(60):
        if found := intake.poll(timeout_s=0.5, max_records=10):
            return found[0]
    raise AssertionError("no record within 60 polls")


def refusal(intake: Intake) -> str:
    with pytest.raises(SettingsError) as caught:
        first_record(intake)
    return str(caught.value)


@pytest.fixture
def queue(kafka_broker: KafkaBroker, kafka_topic: str) -> KafkaTestQueue:
    return KafkaTestQueue(kafka_broker.bootstrap, kafka_topic)


def send(queue: KafkaTestQueue, **options: Any) -> None:
    producer = KafkaProducer(bootstrap_servers=queue.bootstrap, **options)
    producer.send(queue.topic, b"x" * 1_000).get(10)
    producer.close()


def test_records_that_a_missing_library_compressed_stop_the_consumer_with_its_name(
    queue: KafkaTestQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(queue, compression_type="lz4")
    monkeypatch.setattr("kafka.codec.has_lz4", lambda: False)
    intake = queue.reader("codec")
    words = refusal(intake)
    intake.close()
    assert "lz4" in words
    assert "pip install" in words
    monkeypatch.undo()
    intake = queue.reader("codec")
    found = first_record(intake)
    intake.close()
    assert found.value == b"x" * 1_000


def test_a_damaged_batch_stops_the_consumer_and_is_fetched_anew_by_the_next(
    queue: KafkaTestQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(queue)
    monkeypatch.setattr(DefaultRecordBatch, "validate_crc", lambda _: False)
    intake = queue.reader("damaged")
    with pytest.raises(CheckFailed, match=r"failed crc check.*--reset-offsets"):
        first_record(intake)
    intake.close()
    monkeypatch.undo()
    intake = queue.reader("damaged")
    assert first_record(intake).value == b"x" * 1_000
    intake.close()


def test_a_group_without_offsets_and_no_word_on_where_to_begin_is_a_fault_of_the_settings(
    queue: KafkaTestQueue,
) -> None:
    send(queue)
    intake = queue.reader("nowhere", auto_offset_reset="none")
    words = refusal(intake)
    intake.close()
    assert "auto_offset_reset" in words
    assert '"earliest"' in words


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"security_protocol": "SASL_PLAINTEX"}, "security_protocol: 'SASL_PLAINTEX' is not one of PLAINTEXT, SSL"),
        ({"session_timeout_ms": "10000"}, "without quotation marks"),
    ],
)
def test_options_that_cannot_be_meant_are_a_fault_of_the_settings(
    queue: KafkaTestQueue, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(SettingsError, match=words):
        queue.reader("odd", **options).close()
