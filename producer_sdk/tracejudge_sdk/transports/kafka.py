"""A Kafka topic as a transport."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tracejudge_sdk.codec import DEFAULT_MAX_RECORD_BYTES


class KafkaTransport:
    """Sends to one topic with kafka-python."""

    def __init__(
        self, bootstrap_servers: Sequence[str], topic: str, *, options: Mapping[str, Any] | None = None
    ) -> None:
        self.max_record_bytes = DEFAULT_MAX_RECORD_BYTES
        self._bootstrap_servers = tuple(bootstrap_servers)
        self._topic = topic
        self._options = dict(options or {})

    def send(self, records: Sequence[tuple[str, bytes]]) -> None:
        raise NotImplementedError

    def close(self, timeout_s: float) -> None:
        raise NotImplementedError
