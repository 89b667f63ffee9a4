"""What `tracejudge doctor` can say about a Kafka topic before a consumer is started on it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from tracejudge.counted import counted
from tracejudge_sdk.transports import KafkaQueue

_TIMEOUT_MS: Final = 5_000


class KafkaCheck(NamedTuple):
    """One thing that was tried; `fix` says what to do where it did not pass."""

    subject: str
    passed: bool
    detail: str
    fix: str


def check_kafka(
    queue: KafkaQueue, options: Mapping[str, Any], *, group: str, record_bytes: int
) -> Iterator[KafkaCheck]:
    """Tries brokers, topic, record limit and the group's right to read, in that order; stops where nothing follows."""
    from kafka import KafkaAdminClient
    from kafka.errors import KafkaError

    servers = ",".join(queue.bootstrap_servers)
    try:
        admin = KafkaAdminClient(
            bootstrap_servers=list(queue.bootstrap_servers),
            client_id="tracejudge-doctor",
            request_timeout_ms=_TIMEOUT_MS,
            bootstrap_timeout_ms=_TIMEOUT_MS,
            **_admin_options(options),
        )
    except KafkaError as error:
        fix = "start the broker, correct `queue`, or see [queue_options] for TLS and SASL"
        yield KafkaCheck("queue", False, f"{servers}: no broker answered: {error}", fix)
        return
    try:
        yield KafkaCheck("queue", True, f"{servers}: a broker answered", "")
        yield from _check_topic(admin, queue.topic, record_bytes)
        yield from _check_group(admin, group)
    except KafkaError as error:
        fix = "grant this user DESCRIBE and READ on the topic, and READ on the group"
        yield KafkaCheck("queue rights", False, f"{type(error).__name__}: {error}", fix)
    finally:
        admin.close()


def _check_topic(admin: Any, topic: str, record_bytes: int) -> Iterator[KafkaCheck]:
    from kafka.admin import ConfigResource, ConfigResourceType

    if topic not in admin.list_topics():
        fix = f"kafka-topics.sh --create --topic {topic} --partitions 6, or grant this user DESCRIBE on it"
        yield KafkaCheck("queue topic", False, f"{topic}: does not exist, or may not be seen", fix)
        return
    partitions = len(admin.describe_topics([topic])[0]["partitions"])
    yield KafkaCheck(
        "queue topic", True, f"{topic}: {counted(partitions, 'partition')}, so as many consumers can share it", ""
    )
    found = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)], config_filter="all")
    limit = int(_config_value(found, topic, "max.message.bytes"))
    fix = f"kafka-configs.sh --alter --topic {topic} --add-config max.message.bytes=1048588"
    enough = limit > record_bytes
    detail = f"max.message.bytes {limit}, records are cut at {record_bytes}"
    yield KafkaCheck("queue record size", enough, detail, "" if enough else fix)


def _check_group(admin: Any, group: str) -> Iterator[KafkaCheck]:
    from kafka.errors import CoordinatorNotAvailableError

    deadline = time.monotonic() + _TIMEOUT_MS / 1000
    while True:
        try:
            offsets = admin.list_group_offsets(group)
            break
        except CoordinatorNotAvailableError:
            # A broker makes its offsets topic when the first group asks for it.
            if time.monotonic() > deadline:
                raise
            time.sleep(0.25)
    committed = len(next(iter(offsets.values()), {})) if offsets else 0
    detail = f"{group}: " + (
        f"has committed in {counted(committed, 'partition')}" if committed else "has not read anything yet"
    )
    yield KafkaCheck("queue group", True, detail, "")


def _config_value(found: Any, topic: str, name: str) -> str:
    """The value of one setting, wherever in the answer this client's release puts it."""
    values = found
    for key in ("topic", topic, name):
        if isinstance(values, Mapping) and key in values:
            values = values[key]
    return str(values["value"] if isinstance(values, Mapping) else values)


def _admin_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of the queue that say how to connect, which are those that the admin client knows."""
    kept = ("security_protocol", "ssl_", "sasl_", "socks5_proxy", "api_version")
    return {name: value for name, value in options.items() if name.startswith(kept)}
