"""Ways out of the process: where encoded records go, chosen by one queue URL.

    sqlite:///queue.db             a file beside the working directory; sqlite:////var/lib/queue.db is absolute
    kafka://HOST:PORT[,HOST:PORT]/TOPIC
    https://HOST[:PORT]            a gateway (`tracejudge gateway`) in front of one of them; http:// on loopback
    memory://NAME                  inside this process, for tests

Nothing here imports a client library before the first transport of its kind is built.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from tracejudge_sdk.transports.urls import HttpQueue, KafkaQueue, MemoryQueue, Queue, SqliteQueue, parse_queue_url

__all__ = [
    "HttpQueue",
    "KafkaQueue",
    "MemoryQueue",
    "Queue",
    "SqliteQueue",
    "Transport",
    "parse_queue_url",
    "transport_for",
]


class Transport(Protocol):
    """Hands encoded records over. Used by one thread at a time, but for `close`."""

    @property
    def max_record_bytes(self) -> int:
        """The largest encoded record the other side takes; larger ones are cut before they get here."""
        ...

    def send(self, records: Sequence[tuple[str, bytes]]) -> None:
        """Hands over (record key, encoded record) pairs and returns when all are durable over there.

        Durable means what the other side calls so (see DESIGN.md). Waits a bounded time. Raises TransportUnavailable
        when the same records may be sent again later and TransportRejected when they never will be taken; `failed` of
        either names the positions that were not handed over (None: any of them). Records arrive in order, but where
        something had to be sent again they may arrive later or twice.
        """
        ...

    def close(self, timeout_s: float) -> None:
        """Lets go of connections and files within about `timeout_s` seconds, also under a `send` of another thread.

        Never raises; may be called twice.
        """
        ...


def transport_for(url: str, *, options: Mapping[str, Any] | None = None) -> Transport:
    """The transport of a queue URL. `options` go to the library behind it (Kafka: SASL and TLS settings, say).

    Raises ConfigError for a URL or option that cannot work, TransportUnavailable when the other side is not there.
    """
    queue = parse_queue_url(url)
    if isinstance(queue, SqliteQueue):
        from tracejudge_sdk.transports.sqlite import SqliteTransport

        return SqliteTransport(queue.path, **(options or {}))
    if isinstance(queue, KafkaQueue):
        from tracejudge_sdk.transports.kafka import KafkaTransport

        return KafkaTransport(queue.bootstrap_servers, queue.topic, options=options)
    if isinstance(queue, HttpQueue):
        from tracejudge_sdk.transports.http import HttpTransport

        return HttpTransport(queue, **(options or {}))
    from tracejudge_sdk.transports.memory import memory_transport

    return memory_transport(queue.name, **(options or {}))
