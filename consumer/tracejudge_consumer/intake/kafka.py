"""A Kafka topic as an intake, read as a member of a consumer group.

Offsets are committed only when told to. Rebalancing is cooperative: what stays ours is read on meanwhile. The client
keeps records of paused partitions and gives them out after `resume`, so pausing costs no second fetch.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

from kafka import TopicPartition
from kafka.consumer.subscription_state import AsyncConsumerRebalanceListener
from kafka.errors import (
    AuthorizationError,
    CommitFailedError,
    CorruptRecordError,
    FencedInstanceIdError,
    IllegalGenerationError,
    KafkaError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    RebalanceInProgressError,
    UnknownMemberIdError,
    UnsupportedCodecError,
)
from kafka.structs import OffsetAndMetadata

from tracejudge.clock import Clock, SystemClock
from tracejudge_consumer.intake import PartitionKey, PartitionListener, RawRecord
from tracejudge_consumer.intake.kafka_connect import connect, corrupt, no_access, no_codec, no_place, sleep
from tracejudge_consumer.intake.ownership import ThreadOwnership

_LOG = logging.getLogger(__name__)

_NOT_OURS_ANY_MORE: Final = (CommitFailedError, IllegalGenerationError, UnknownMemberIdError, FencedInstanceIdError)


class KafkaIntake:
    """Reads a topic for `group`. Used by one thread."""

    def __init__(
        self,
        bootstrap_servers: Sequence[str],
        topic: str,
        *,
        group: str,
        options: Mapping[str, Any] | None = None,
        start_patience_s: float = 60.0,
        commit_timeout_s: float = 5.0,
        clock: Clock | None = None,
        wait: Callable[[float], object] = sleep,
    ) -> None:
        """Connects, and waits up to `start_patience_s` for a broker that knows the topic.

        `options` go to kafka-python (SASL, TLS, session_timeout_ms, max_poll_interval_ms ...). Raises QueueUnavailable
        when the patience is over, SettingsError for options that cannot work and for access that is refused.
        """
        self.source = f"kafka:{topic}"
        self._topic = topic
        self._group = group
        self._commit_timeout_ms = int(commit_timeout_s * 1000)
        self._thread = ThreadOwnership("KafkaIntake")
        self._listener: PartitionListener | None = None
        self._refused = 0
        self._failing = False
        self._wait = wait
        self._closed = False
        self._consumer: Any = connect(
            list(bootstrap_servers),
            topic,
            group,
            dict(options or {}),
            patience_s=start_patience_s,
            clock=clock or SystemClock(),
            wait=wait,
        )
        self._consumer.subscribe([topic], listener=_Rebalance(self))

    def listen(self, listener: PartitionListener) -> None:
        self._listener = listener

    def poll(self, *, timeout_s: float, max_records: int) -> list[RawRecord]:
        self._thread.check()
        self._remember_to_join()
        try:
            found = self._consumer.poll(timeout_ms=int(timeout_s * 1000), max_records=max_records)
        except AuthorizationError as error:
            raise no_access(self._topic, self._group, error) from error
        except UnsupportedCodecError as error:
            raise no_codec(self._topic, error) from error
        except (NoOffsetForPartitionError, OffsetOutOfRangeError) as error:
            raise no_place(self._topic, self._group, error) from error
        except CorruptRecordError as error:  # the client does not come back from its next poll
            raise corrupt(self._topic, error) from error
        except KafkaError as error:
            if not self._failing:
                self._failing = True
                _LOG.warning("waiting for the broker: %r", error)
            self._wait(timeout_s)  # some errors come at once, poll after poll
            return []
        self._failing = False
        return [
            RawRecord(
                source=self.source,
                partition=one.partition,
                offset=one.offset,
                key=one.key,
                # A record without a value (a tombstone) is read like any other, and found not to be JSON.
                value=one.value or b"",
                headers=tuple((name, value or b"") for name, value in one.headers or ()),
                timestamp_ms=one.timestamp,
            )
            for records in found.values()
            for one in records
        ]

    def commit(self, offsets: Mapping[PartitionKey, int]) -> bool:
        self._thread.check()
        ours = self.assignment()
        wanted = {_topic_partition(key, self._topic): _next(offset) for key, offset in offsets.items() if key in ours}
        if len(wanted) < len(offsets):
            self._refused += 1
        if not wanted:
            return not offsets
        try:
            self._consumer.commit(wanted, timeout_ms=self._commit_timeout_ms)
        except RebalanceInProgressError:
            return False  # not refused: the same offsets can be committed when it is over
        except _NOT_OURS_ANY_MORE as error:
            self._refused += 1
            _LOG.warning("commit refused, the records will be redelivered: %r", error)
            return False
        except AuthorizationError as error:
            raise no_access(self._topic, self._group, error) from error
        except KafkaError as error:
            _LOG.warning("commit not delivered, retried later: %r", error)
            return False
        return len(wanted) == len(offsets)

    @property
    def refused_commits(self) -> int:
        return self._refused

    def pause(self, partitions: Collection[PartitionKey]) -> None:
        self._thread.check()
        self._consumer.pause(*self._among(partitions))

    def resume(self, partitions: Collection[PartitionKey]) -> None:
        self._thread.check()
        self._consumer.resume(*self._among(partitions))

    def paused(self) -> frozenset[PartitionKey]:
        return frozenset(self._key(one) for one in self._consumer.paused())

    def assignment(self) -> frozenset[PartitionKey]:
        return frozenset(self._key(one) for one in self._consumer.assignment())

    def positions(self) -> dict[PartitionKey, int]:
        self._thread.check()
        found: dict[PartitionKey, int] = {}
        for key in self.assignment():
            position = self._position(key)
            if position is not None:
                found[key] = position
        return found

    def lag(self) -> dict[PartitionKey, int | None]:
        self._thread.check()
        ours = {_topic_partition(key, self._topic): key for key in self.assignment()}
        if not ours:
            return {}
        try:
            ends = self._consumer.end_offsets(list(ours), timeout_ms=self._commit_timeout_ms)
        except KafkaError as error:
            _LOG.debug("the broker does not say where the partitions end: %r", error)
            ends = {}
        found: dict[PartitionKey, int | None] = {}
        for one, key in ours.items():
            end, position = ends.get(one), self._position(key)
            found[key] = None if end is None or position is None else max(0, end - position)
        return found

    def close(self) -> None:
        self._thread.check()
        if self._closed:
            return
        self._closed = True
        try:
            # Calls the listener, which commits what it is told to; autocommit is off in any case.
            self._consumer.close(autocommit=False, timeout_ms=self._commit_timeout_ms)
        except KafkaError as error:
            _LOG.warning("left group %r without notice, the broker will time it out: %r", self._group, error)

    def _remember_to_join(self) -> None:
        """Keeps the client at a join that it began.

        kafka-python 3.0.12 rejoins when metadata differ from those of the last assignment (topics vanish while a
        broker restarts). When a short poll leaves that join in flight and the metadata change back meanwhile, it
        concludes that there is nothing to join and never looks at the answer: it reads on without heartbeats and
        without ever being able to commit. Asked to rejoin, it does until the answer is there.
        """
        coordinator = self._consumer._coordinator
        if coordinator.rebalance_in_progress():
            coordinator.request_rejoin()

    def _position(self, key: PartitionKey) -> int | None:
        try:
            position = self._consumer.position(_topic_partition(key, self._topic), timeout_ms=self._commit_timeout_ms)
        except KafkaError:  # given away, or not known, between two calls
            return None
        return None if position is None else int(position)

    def _key(self, one: Any) -> PartitionKey:
        return PartitionKey(self.source, one.partition)

    def _among(self, partitions: Collection[PartitionKey]) -> list[Any]:
        ours = self.assignment()
        return [_topic_partition(key, self._topic) for key in partitions if key in ours]

    # Called on the client's I/O thread, while our own thread waits inside poll or close.

    async def give_away(self, revoked: Collection[Any]) -> None:
        """Commits what is finished of partitions that are about to go to another member."""
        if self._listener is None or not revoked:
            return
        offsets = self._listener.revoked([self._key(one) for one in revoked])
        if not offsets:
            return
        wanted = {_topic_partition(key, self._topic): _next(offset) for key, offset in offsets.items()}
        try:
            await self._consumer.commit_async(wanted)
        except KafkaError as error:
            # The next owner reads these again: their scores are settled, so it costs a lookup.
            self._refused += isinstance(error, _NOT_OURS_ANY_MORE)
            _LOG.warning("last commit of revoked partitions failed: %r", error)

    def note_lost(self, lost: Collection[Any]) -> None:
        """Notes partitions that belong to another member already."""
        if self._listener is not None and lost:
            self._listener.lost([self._key(one) for one in lost])


class _Rebalance(AsyncConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python has no types
    def __init__(self, intake: KafkaIntake) -> None:
        self._intake = intake

    async def on_partitions_revoked(self, revoked: Collection[Any]) -> None:
        await self._intake.give_away(revoked)

    async def on_partitions_assigned(self, assigned: Collection[Any]) -> None:
        _LOG.info("assigned: %s", sorted(one.partition for one in assigned))

    async def on_partitions_lost(self, lost: Collection[Any]) -> None:
        self._intake.note_lost(lost)


def _topic_partition(key: PartitionKey, topic: str) -> Any:
    return TopicPartition(topic, key.partition)


def _next(offset: int) -> Any:
    return OffsetAndMetadata(offset, "", -1)
