"""Where records come from: one protocol that Kafka and the SQLite log both keep.

An intake is used by one thread. It hands out records in offset order per partition, commits only the offsets it is told
to, and says which partitions were taken away. What may be committed is decided elsewhere (`offsets`): an intake never
commits by itself, not even when it is closed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from tracejudge.quick import made_quickly


class PartitionKey(NamedTuple):
    """One ordered stream of records: offsets grow within it and mean nothing outside of it."""

    source: str  # "kafka:TOPIC" or "sqlite:NAME"
    partition: int


@made_quickly
@dataclass(frozen=True, slots=True, kw_only=True)
class RawRecord:
    """One record as the queue holds it, not yet read."""

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
        """What holding it costs, about: key and value; headers and the object itself are small beside them."""
        return len(self.value) + len(self.key or b"")


class PartitionListener(Protocol):
    """Who is told that partitions were taken away.

    Both methods are called while the owning thread is inside `poll` or `close` (Kafka's client calls them from its
    I/O thread meanwhile); they return at once and do not call the intake.
    """

    def revoked(self, partitions: Collection[PartitionKey]) -> Mapping[PartitionKey, int]:
        """These go to another consumer now. Gives what may still be committed for them: the intake does so first."""
        ...

    def lost(self, partitions: Collection[PartitionKey]) -> None:
        """These belong to somebody else already: nothing of them may be committed any more."""
        ...


class Intake(Protocol):
    """A reader of one queue on behalf of one group."""

    source: str

    def listen(self, listener: PartitionListener) -> None:
        """Tells `listener` from now on what is taken away. Called once, before the first `poll`."""
        ...

    def poll(self, *, timeout_s: float, max_records: int) -> list[RawRecord]:
        """The next records of partitions that are not paused, at most `max_records`, within about `timeout_s`.

        Also keeps the membership alive: call it every few seconds, with everything paused when there is no room.
        Empty when there is nothing, when nothing is assigned and when the queue does not answer.
        """
        ...

    def commit(self, offsets: Mapping[PartitionKey, int]) -> bool:
        """Commits, per partition, the offset of the next record to read. True when the queue took all of it.

        False when it was refused (the generation or lease is gone) or could not be delivered; `refused_commits`
        counts the former. Neither loses anything: what is not committed is delivered again.
        """
        ...

    @property
    def refused_commits(self) -> int:
        """How many commits were refused because the partitions belong to somebody else."""
        ...

    def pause(self, partitions: Collection[PartitionKey]) -> None:
        """No records of these until `resume`. Partitions that are not assigned are passed over."""
        ...

    def resume(self, partitions: Collection[PartitionKey]) -> None: ...

    def paused(self) -> frozenset[PartitionKey]: ...

    def assignment(self) -> frozenset[PartitionKey]:
        """The partitions that are ours now; empty while joining or waiting for a lease."""
        ...

    def positions(self) -> dict[PartitionKey, int]:
        """Per assigned partition the offset below which everything was handed out or does not exist."""
        ...

    def lag(self) -> dict[PartitionKey, int | None]:
        """Per assigned partition how many records are still to be handed out; None when the queue does not say."""
        ...

    def close(self) -> None:
        """Gives the partitions back. The listener is asked (`revoked`) first; then nothing else is committed."""
        ...


__all__ = ["Intake", "PartitionKey", "PartitionListener", "RawRecord"]
