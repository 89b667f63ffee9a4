"""The queue URL."""

from __future__ import annotations

from pathlib import Path

import pytest

from tracejudge_sdk.errors import ConfigError
from tracejudge_sdk.transports import (
    HttpQueue,
    KafkaQueue,
    MemoryQueue,
    Queue,
    SqliteQueue,
    parse_queue_url,
    transport_for,
)
from tracejudge_sdk.transports.memory import MemoryTransport
from tracejudge_sdk.transports.sqlite import SqliteTransport


@pytest.mark.parametrize(
    ("url", "queue"),
    [
        ("sqlite:///queue.db", SqliteQueue(Path("queue.db"))),
        ("sqlite:///a/b c.db", SqliteQueue(Path("a/b c.db"))),
        ("sqlite:////var/lib/queue.db", SqliteQueue(Path("/var/lib/queue.db"))),
        ("kafka://localhost:9092/traces", KafkaQueue(("localhost:9092",), "traces")),
        ("kafka://a:1,b:2/rag.traces_v1-x", KafkaQueue(("a:1", "b:2"), "rag.traces_v1-x")),
        ("kafka://broker/traces", KafkaQueue(("broker:9092",), "traces")),
        ("kafka://[::1]:9092/traces", KafkaQueue(("[::1]:9092",), "traces")),
        ("memory://test", MemoryQueue("test")),
        ("http://127.0.0.1:4380", HttpQueue(False, "127.0.0.1", 4380, "/v1/traces")),
        ("https://ingest.example.com", HttpQueue(True, "ingest.example.com", 443, "/v1/traces")),
        ("https://example.com/judge/", HttpQueue(True, "example.com", 443, "/judge/v1/traces")),
        ("http://[::1]/v1/traces", HttpQueue(False, "::1", 80, "/v1/traces")),
    ],
)
def test_a_url_names_a_queue(url: str, queue: Queue) -> None:
    assert parse_queue_url(url) == queue


@pytest.mark.parametrize(
    ("url", "remedy"),
    [
        ("", "sqlite:///PATH"),
        ("queue.db", "sqlite:///PATH"),
        ("redis://localhost", "kafka://HOST:PORT"),
        ("sqlite://queue.db", "three slashes"),
        ("sqlite:///", "sqlite:///queue.db"),
        ("sqlite:///folder/", "sqlite:///queue.db"),
        ("sqlite:///q.db?mode=ro", "options beside the URL"),
        ("kafka://localhost:9092", "kafka://HOST:PORT/TOPIC"),
        ("kafka://localhost:9092/", "kafka://HOST:PORT/TOPIC"),
        ("kafka:///traces", "HOST:PORT"),
        ("kafka://a:1,,b:2/traces", "HOST:PORT"),
        ("kafka://a:99999/traces", "1..65535"),
        ("kafka://a:0/traces", "1..65535"),
        ("kafka://a:1/bad topic", "letters, digits"),
        ("kafka://a:1/..", "letters, digits"),
        ("kafka://a:1/" + "t" * 250, "letters, digits"),
        ("memory://", "memory://NAME"),
        ("http://", "http://HOST"),
        ("http:///v1/traces", "http://HOST"),
        ("https://host:99999", "1..65535"),
        ("https://host/a path", "percent-encode"),
        ("https://host/\r\nX: y", "percent-encode"),
        ("https://host/?key=k", "options beside the URL"),
    ],
)
def test_a_wrong_url_says_what_to_give(url: str, remedy: str) -> None:
    with pytest.raises(ConfigError, match="queue: ") as caught:
        parse_queue_url(url)
    assert remedy in str(caught.value)


def test_a_password_in_the_url_is_refused_and_not_repeated() -> None:
    with pytest.raises(ConfigError, match="sasl_plain_username") as caught:
        parse_queue_url("kafka://user:s3cret@broker:9092/traces")
    assert "s3cret" not in str(caught.value)


def test_a_key_in_the_url_of_a_gateway_is_refused_and_not_repeated() -> None:
    with pytest.raises(ConfigError, match="TRACEJUDGE_INGEST_KEY") as caught:
        parse_queue_url("https://user:s3cret@gateway/")
    assert "s3cret" not in str(caught.value)


def test_something_that_is_no_text_is_no_url() -> None:
    with pytest.raises(ConfigError, match="not a queue URL"):
        parse_queue_url(None)  # type: ignore[arg-type]


def test_a_transport_is_built_from_the_url(tmp_path: Path) -> None:
    transport = transport_for(f"sqlite:///{tmp_path}/deep/er/queue.db", options={"synchronous": "FULL"})
    assert isinstance(transport, SqliteTransport)
    transport.close(0.0)
    memory = transport_for("memory://test_a_transport_is_built_from_the_url")
    assert isinstance(memory, MemoryTransport)
    memory.send([("t", b"{}")])
    other = transport_for("memory://test_a_transport_is_built_from_the_url")
    assert isinstance(other, MemoryTransport)
    assert other.records == [("t", b"{}")], "one name, one queue"


def test_building_a_kafka_transport_waits_for_nobody() -> None:
    transport = transport_for("kafka://127.0.0.1:1/traces", options={"max_record_bytes": 5})
    assert transport.max_record_bytes == 5
    transport.close(0.0)
