"""A Kafka topic as a transport: every record confirmed by the broker, every wait bounded.

kafka-python's producer has habits a service cannot live with: it is built in 30 s when the broker is down, sends wait
60 s for metadata, its buffer has no bound, and after some errors it never recovers. Here it is built by the first
`send` (in the SDK's own thread), every call has a short limit, no record is left in its buffer when `send` returns, and
it is built anew after repeated failures.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tracejudge_sdk.codec import DEFAULT_MAX_RECORD_BYTES
from tracejudge_sdk.errors import ConfigError, TransportRejected, TransportUnavailable

FRAMING_BYTES: Final = 4096
"""Room for key, headers and batch framing above the record itself; Kafka's limits count them."""

_FAILURES_BEFORE_REBUILD: Final = 2
_CLOSE_TIMEOUT_S: Final = 1.0

_DEFAULTS: Final[dict[str, Any]] = {
    "acks": "all",
    # Exactly-once between this producer and the broker is of no use where the SDK itself sends again after a time-out
    # (the consumer knows a trace by its id); without it there is no producer id to lose when a broker loses its state.
    "enable_idempotence": False,
    "linger_ms": 20,
    # What a topic takes by default, with room: fewer requests for the same records cost the service a sixth less.
    "batch_size": 900_000,
    "max_block_ms": 1_000,
    "request_timeout_ms": 5_000,
    "delivery_timeout_ms": 10_000,
    "bootstrap_timeout_ms": 5_000,
    "reconnect_backoff_max_ms": 1_000,
    "metrics_enabled": False,
}


class KafkaTransport:
    """Sends to one topic. Keys are the record keys, so the records of one trace share a partition.

    They keep their order too, unless something had to be sent again.

    `options` are kafka-python's producer settings (security_protocol, sasl_mechanism, ssl_cafile, ...) and take
    precedence over ours; `max_record_bytes` among them is ours. Raises ConfigError when kafka-python is missing.
    """

    def __init__(
        self, bootstrap_servers: Sequence[str], topic: str, *, options: Mapping[str, Any] | None = None
    ) -> None:
        try:
            # Here and not at the first send: imports must not be under way in another thread while a process forks.
            import encodings.idna  # noqa: F401 - of the first name look-up

            from tracejudge_sdk.transports.kafka_partitioner import KeyPartitioner
        except ImportError as error:
            raise ConfigError("queue: kafka-python is not installed: pip install tracejudge") from error
        settings = dict(options or {})
        self.max_record_bytes: int = settings.pop("max_record_bytes", DEFAULT_MAX_RECORD_BYTES)
        self._topic = topic
        self._settings: dict[str, Any] = {
            "bootstrap_servers": list(bootstrap_servers),
            "client_id": "tracejudge-sdk",
            "max_request_size": max(1_048_576, self.max_record_bytes + FRAMING_BYTES),
            # lz4 costs a tenth of gzip and is there with tracejudge[fast]; gzip halves the throughput.
            "compression_type": "lz4" if importlib.util.find_spec("lz4") else None,
            "partitioner": KeyPartitioner(),
            **_DEFAULTS,
            **settings,
        }
        self._delivery_timeout_s: float = self._settings["delivery_timeout_ms"] / 1000
        self._producer: Any = None
        self._failures = 0
        self._closed = False

    def send(self, records: Sequence[tuple[str, bytes]]) -> None:
        """Hands the records to the brokers and waits for the confirmation of each, about 12 s at most."""
        from kafka import errors

        if self._closed:
            raise TransportUnavailable("Kafka transport is closed: build another one")
        producer = self._connected()
        failed: dict[int, BaseException] = {}
        futures: list[tuple[int, Any]] = []
        for position, (key, value) in enumerate(records):
            try:
                future = producer.send(self._topic, value=value, key=key.encode("utf-8", "replace"))
            except errors.MessageSizeTooLargeError as error:
                failed[position] = error
            except Exception as error:  # noqa: BLE001 - kafka-python lets assertion and socket errors through too
                # The topic's metadata is missing: the other records would each wait as long as this one did.
                failed.update((later, error) for later in range(position, len(records)))
                break
            else:
                futures.append((position, future))
        deadline = time.monotonic() + self._delivery_timeout_s + 1.0
        with contextlib.suppress(Exception):  # what was not confirmed is found below, one by one
            producer.flush(timeout=deadline - time.monotonic())
        for position, future in futures:
            try:
                # Not done after a flush: a batch that the broker found too large was split and is sent anew.
                future.get(timeout=max(0.0, deadline - time.monotonic()))
            except Exception as error:  # noqa: BLE001 - whatever it is, this record was not confirmed
                failed[position] = error
        self._judge(records, failed)

    def close(self, timeout_s: float) -> None:
        """Closes the producer; from another thread it also ends a `send` under way."""
        self._closed = True
        self._drop_producer(timeout_s)

    def _connected(self) -> Any:
        if self._producer is None:
            producer = self._build()
            self._producer = producer
            if self._closed:  # meanwhile, by another thread
                self._drop_producer(0.0)
            return producer
        return self._producer

    def _build(self) -> Any:
        from kafka import KafkaProducer, errors

        try:
            producer = KafkaProducer(**self._settings)
        except (errors.KafkaConfigurationError, errors.UnsupportedCodecError) as error:
            raise ConfigError(f"queue: Kafka settings cannot work: {error}: change the queue options") from error
        except (errors.KafkaError, OSError) as error:
            raise TransportUnavailable(
                f"Kafka at {self._servers()}: {_words(error)}: check that a broker listens there and lets us in"
            ) from error
        except (ValueError, TypeError, RuntimeError, AssertionError) as error:
            # Unknown names, missing codec libraries, unreadable certificates: all of them said in these types.
            raise ConfigError(f"queue: Kafka settings cannot work: {error}: change the queue options") from error
        # Its own exit handler would run before ours and close it under the records we still hold.
        if (cleanup := getattr(producer, "_cleanup", None)) is not None:
            atexit.unregister(cleanup)
        return producer

    def _judge(self, records: Sequence[tuple[str, bytes]], failed: Mapping[int, BaseException]) -> None:
        if not failed:
            self._failures = 0
            return
        refused = [position for position, error in failed.items() if _never_taken(error)]
        if len(refused) == len(failed):
            self._failures = 0
            first = failed[refused[0]]
            raise TransportRejected(
                f"Kafka topic {self._topic!r} refuses {len(refused)} of {len(records)} records, the first of "
                f"{len(records[refused[0]][1])} bytes: {_words(first)}: make max_record_bytes, now "
                f"{self.max_record_bytes}, smaller than the topic's max.message.bytes",
                failed=tuple(sorted(refused)),
            )
        self._failures += 1
        if self._failures >= _FAILURES_BEFORE_REBUILD:
            self._failures = 0
            self._drop_producer(0.0)
        first = next(error for error in failed.values() if not _never_taken(error))
        raise TransportUnavailable(
            f"Kafka topic {self._topic!r} at {self._servers()}: {len(failed)} of {len(records)} records were not "
            f"confirmed: {_words(first)}: check that the brokers run, that the topic exists, that we may write to it",
            failed=tuple(sorted(failed)),
        )

    def _drop_producer(self, timeout_s: float) -> None:
        producer, self._producer = self._producer, None
        if producer is None:
            return
        # close() flushes first and, when that takes too long, raises before it has stopped the sender thread, which
        # would then go on for ever and close again on collection.
        with contextlib.suppress(Exception):
            producer.close(timeout=min(timeout_s, _CLOSE_TIMEOUT_S))
        with contextlib.suppress(Exception):
            if producer._sender.is_alive():
                producer._sender.force_close()
        producer._closed = True

    def _servers(self) -> str:
        servers = self._settings["bootstrap_servers"]
        return servers if isinstance(servers, str) else ",".join(servers)


def _never_taken(error: BaseException) -> bool:
    from kafka import errors

    return isinstance(
        error,
        (
            errors.MessageSizeTooLargeError,
            errors.RecordListTooLargeError,
            errors.InvalidRecordError,
            errors.InvalidTimestampError,
        ),
    )


def _words(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:300]}" if text else type(error).__name__
