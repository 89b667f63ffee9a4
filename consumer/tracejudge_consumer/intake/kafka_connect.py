"""Connecting to a Kafka topic: options that reading asks for, patience while no broker answers, and what is refused."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any, Final

from kafka import KafkaConsumer, KafkaProducer
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.errors import AuthorizationError, KafkaConfigurationError, KafkaError, SaslAuthenticationFailedError

from tracejudge.clock import Clock
from tracejudge.errors import CheckFailed, QueueUnavailable, SettingsError

_LOG = logging.getLogger(__name__)

_OURS: Final = frozenset({"bootstrap_servers", "group_id", "enable_auto_commit", "partition_assignment_strategy"})
_REFUSED_AT_THE_DOOR: Final = (AuthorizationError, SaslAuthenticationFailedError, KafkaConfigurationError)
_PRODUCERS_ONLY: Final = frozenset(KafkaProducer.DEFAULT_CONFIG) - frozenset(KafkaConsumer.DEFAULT_CONFIG)
_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_RETRY_S: Final = (0.5, 1.0, 2.0, 5.0)


def sleep(seconds: float) -> None:
    """Passes that many seconds."""
    threading.Event().wait(seconds)


def connect(
    servers: list[str],
    topic: str,
    group: str,
    options: dict[str, Any],
    *,
    patience_s: float,
    clock: Clock,
    wait: Callable[[float], object],
) -> Any:
    """A client that is a member of `group` and knows the topic, once a broker does.

    Raises QueueUnavailable when `patience_s` is over, SettingsError for options that cannot work and access refused.
    """
    taken = sorted(_OURS & options.keys())
    if taken:
        raise SettingsError([f"queue_options.{name}: is set by tracejudge itself; remove it" for name in taken])
    protocol = options.get("security_protocol", "PLAINTEXT")
    if protocol not in _PROTOCOLS:  # the client takes any other text for PLAINTEXT
        words = f"queue_options.security_protocol: {protocol!r} is not one of {', '.join(_PROTOCOLS)}"
        raise SettingsError([f"{words}: the client would connect without encryption; correct it"])
    settings = {
        "auto_offset_reset": "earliest",
        "session_timeout_ms": 10_000,
        "heartbeat_interval_ms": 1_000,  # how soon a member learns that partitions move
        "max_poll_records": 500,
        "fetch_max_bytes": 16 * 1024 * 1024,  # what the client holds beyond our own bound
        # Who catches up is given one partition after another: the less of each at a time, the less the rows of one get
        # ahead of the others' in event time, and the sooner a fall among them is told. A record may be larger.
        "max_partition_fetch_bytes": 256 * 1024,
        "isolation_level": "read_committed",  # what a producer aborted was never logged
        "reconnect_backoff_max_ms": 1_000,
        "bootstrap_timeout_ms": 5_000,
        # One set of options serves who writes and who reads: what only a producer knows is passed over.
        **{name: value for name, value in options.items() if name not in _PRODUCERS_ONLY},
    }
    deadline = clock.monotonic() + patience_s
    where = f"{','.join(servers)} topic {topic!r}"
    attempt = 0
    while True:
        try:
            consumer: Any = KafkaConsumer(
                bootstrap_servers=servers,
                group_id=group,
                enable_auto_commit=False,
                partition_assignment_strategy=[CooperativeStickyAssignor()],
                **settings,
            )
            try:
                if consumer.partitions_for_topic(topic):
                    return consumer
                problem = f"{where}: the topic does not exist: create it, or correct its name in `queue`"
            except BaseException:  # whatever it is, Ctrl-C too: its I/O thread must not outlive it
                consumer.close(autocommit=False, timeout_ms=0)
                raise
            consumer.close(autocommit=False, timeout_ms=0)
        except _REFUSED_AT_THE_DOOR as error:
            raise no_access(topic, group, error) from error
        except (TypeError, ValueError, AssertionError) as error:  # it does not look at the types of its options first
            words = f"queue_options: the client cannot use them ({type(error).__name__}: {error})"
            remedy = "write numbers and true or false without quotation marks, and texts as kafka-python names them"
            raise SettingsError([f"{words}: {remedy}"]) from error
        except KafkaError as error:
            problem = f"{where}: no broker answers ({error!r}): start it, or correct `queue` and queue_options"
        if clock.monotonic() >= deadline:
            raise QueueUnavailable(problem)
        if attempt == 0:
            _LOG.warning("waiting up to %.0f s: %s", patience_s, problem)
        wait(_RETRY_S[min(attempt, len(_RETRY_S) - 1)])
        attempt += 1


def no_access(topic: str, group: str, error: Exception) -> SettingsError:
    """What the broker refused, with the remedy."""
    return SettingsError(
        [
            f"queue: the broker or its client refuses ({error!r}): correct queue_options, and allow READ and DESCRIBE "
            f"on topic {topic!r} and READ on group {group!r}"
        ]
    )


def no_codec(topic: str, error: Exception) -> SettingsError:
    """Records are compressed by a library that is not installed here: no waiting makes them readable."""
    return SettingsError(
        [
            f"queue: records of topic {topic!r} are compressed in a way that this installation cannot read ({error}): "
            "install the library where the consumer runs (pip install python-snappy, lz4 or zstandard) and start it "
            "again; nothing was committed beyond these records"
        ]
    )


def corrupt(topic: str, error: Exception) -> CheckFailed:
    """A batch with a wrong checksum: damaged on its way, or where the broker keeps it."""
    return CheckFailed(
        f"queue: a batch of topic {topic!r} is damaged ({error}) and nothing of it was committed: start the consumer "
        "again, which fetches it anew; if that does not help, mend the broker's log (a replica may be whole), or give "
        "the batch up by setting the group's offset behind it with kafka-consumer-groups.sh --reset-offsets"
    )


def no_place(topic: str, group: str, error: Exception) -> SettingsError:
    """Only where `auto_offset_reset` is "none" does the client ask where to begin."""
    return SettingsError(
        [
            f'queue_options.auto_offset_reset: "none" says nothing about where group {group!r} begins in topic '
            f'{topic!r}, where it has no valid offset ({error!r}): write "earliest" or "latest", or set the '
            "group's offsets with kafka-consumer-groups.sh --reset-offsets"
        ]
    )
