"""Records sent to the queue they came from once more: the very bytes, with their key and headers."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from tracejudge.errors import QueueUnavailable, SettingsError
from tracejudge.scores import DeadLetter
from tracejudge_sdk.transports import KafkaQueue, SqliteQueue, parse_queue_url

_TIMEOUT_S: Final = 30.0

Send = Callable[[Sequence[DeadLetter]], None]
"""Returns when the queue has all of them. Raises QueueUnavailable or TransportUnavailable: any may be in it then."""


@contextmanager
def requeue(url: str, *, options: Mapping[str, Any]) -> Iterator[tuple[str, Send]]:
    """The name under which records of this queue are known as a source, and a way into it. `options` are the queue's.

    Raises SettingsError for a queue that no other process can read.
    """
    queue = parse_queue_url(url)
    if isinstance(queue, SqliteQueue):
        from tracejudge_sdk.transports.sqlite_log import SqliteLog

        log = SqliteLog(queue.path)
        try:
            yield f"sqlite:{queue.path.name}", lambda letters: _append(log, letters)
        finally:
            log.close()
    elif isinstance(queue, KafkaQueue):
        with _producer(queue, options) as producer:
            yield f"kafka:{queue.topic}", lambda letters: _produce(producer, queue.topic, letters)
    else:
        raise SettingsError(["queue: a memory queue cannot be read by another process; use sqlite:///PATH"])


def _append(log: Any, letters: Sequence[DeadLetter]) -> None:
    at_ms = int(time.time() * 1000)
    log.append([(letter.key, letter.value, letter.headers, at_ms) for letter in letters])


@contextmanager
def _producer(queue: KafkaQueue, options: Mapping[str, Any]) -> Iterator[Any]:
    from kafka import KafkaConsumer, KafkaProducer
    from kafka.errors import KafkaError

    # One set of options serves who reads and who writes: what only a reader knows is passed over.
    known = frozenset(KafkaProducer.DEFAULT_CONFIG)
    readers = frozenset(KafkaConsumer.DEFAULT_CONFIG) - known
    settings = {name: value for name, value in options.items() if name not in readers and name in known}
    try:
        producer = KafkaProducer(bootstrap_servers=list(queue.bootstrap_servers), acks="all", **settings)
    except KafkaError as error:
        raise QueueUnavailable(f"kafka:{queue.topic}: no broker takes records: {error!r}") from error
    try:
        yield producer
    finally:
        with contextlib.suppress(KafkaError):  # what counts was confirmed one by one
            producer.close(timeout=1.0)


def _produce(producer: Any, topic: str, letters: Sequence[DeadLetter]) -> None:
    from kafka.errors import KafkaError

    try:
        sent = [
            producer.send(topic, value=letter.value, key=letter.key, headers=list(letter.headers)) for letter in letters
        ]
        for future in sent:
            future.get(timeout=_TIMEOUT_S)
    except KafkaError as error:
        raise QueueUnavailable(f"kafka:{topic}: not confirmed: {error!r}; the same command may be repeated") from error
