"""The protocol of a queue's reader, which Kafka and the SQLite log both implement.

An intake is used by one thread. It hands out records in offset order per partition, commits only the offsets it is
given, and tells its listener which partitions were revoked. Which offsets may be committed is decided in `offsets`: an
intake never commits by itself, not even when it is closed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from tracejudge.quick import made_quickly


class PartitionKey(NamedTuple):
    """Names one ordered stream of records: offsets grow within it and mean nothing outside of it."""

    source: str  # "kafka:TOPIC" or "sqlite:NAME"
    partition: int


@made_quickly
@dataclass(frozen=True, slots=True, kw_only=True)
class RawRecord:
    """A record as the queue holds it, not yet decoded."""

    source: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes
    headers: tuple[tuple[str, bytes], ...] = ()
    timestamp_ms: int

    @property
    def partition_key(self) -> PartitionKey:
        return PartitionKey(self.source, self.partition)

    @property
    def size_bytes(self) -> int:
        """About how much memory it takes: key and value; headers and the object itself are small beside them."""
        return len(self.value) + len(self.key or b"")


class PartitionListener(Protocol):
    """Called when partitions are revoked or lost.

    Both methods are called while the owning thread is inside `poll` or `close` (Kafka's client calls them from its I/O
    thread); they must return at once and not call the intake.
    """

    def revoked(self, partitions: Collection[PartitionKey]) -> Mapping[PartitionKey, int]:
        """These partitions are about to go to another consumer. Returns the offsets that the intake commits first."""
        ...

    def lost(self, partitions: Collection[PartitionKey]) -> None:
        """These partitions belong to another consumer already: nothing of them may be committed any more."""
        ...


class Intake(Protocol):
    """A reader of one queue on behalf of one group."""

    source: str

    def listen(self, listener: PartitionListener) -> None:
        """Sets the listener. Called once, before the first `poll`."""
        ...

    def poll(self, *, timeout_s: float, max_records: int) -> list[RawRecord]:
        """The next records of partitions that are not paused, at most `max_records`, within about `timeout_s`.

        Also keeps the group membership alive: call it every few seconds, with everything paused when there is no room.
        Empty when there are no records, when nothing is assigned and when the queue does not answer.
        """
        ...

    def commit(self, offsets: Mapping[PartitionKey, int]) -> bool:
        """Commits, per partition, the offset of the next record to read. True when the queue accepted all of them.

        False when it was refused (the generation or lease is gone) or could not be delivered; `refused_commits`
        counts the former. Neither loses anything: what is not committed is delivered again.
        """
        ...

    @property
    def refused_commits(self) -> int:
        """How many commits were refused because the partitions belong to another consumer."""
        ...

    def pause(self, partitions: Collection[PartitionKey]) -> None:
        """Stops `poll` from giving records of these partitions until `resume`. Ignores those that are not assigned."""
        ...

    def resume(self, partitions: Collection[PartitionKey]) -> None: ...

    def paused(self) -> frozenset[PartitionKey]: ...

    def assignment(self) -> frozenset[PartitionKey]:
        """The partitions assigned to this reader; empty while joining or waiting for a lease."""
        ...

    def positions(self) -> dict[PartitionKey, int]:
        """By assigned partition, the offset below which every record was handed out or does not exist."""
        ...

    def lag(self) -> dict[PartitionKey, int | None]:
        """By assigned partition, how many records are not yet handed out; None when the queue does not say."""
        ...

    def close(self) -> None:
        """Gives the partitions back, after a last commit of what the listener's `revoked` returns."""
        ...


__all__ = ["Intake", "PartitionKey", "PartitionListener", "RawRecord"]
