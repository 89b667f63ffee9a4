"""What the work beside the queue asks of the store, and no more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Protocol

from tracejudge.scores import LedgerRow, TraceKey
from tracejudge.store import Known, Lease, StoredPart, StoredTrace

StillOurs = Callable[[], bool]
"""Asked between two pieces of work: False means that another consumer does it now."""


class StoredTraces(Protocol):
    def of(self, keys: Sequence[TraceKey], /) -> dict[TraceKey, StoredTrace]: ...


class AgainStore(Protocol):
    """Where traces are that are judged again."""

    @property
    def traces(self) -> StoredTraces: ...
    def lookup(self, keys: Sequence[TraceKey], /) -> dict[TraceKey, Known]: ...


class UndecidedRows(Protocol):
    def undecided(self, *, judge: str | None = None, limit: int = 1000) -> list[LedgerRow]: ...


class UndecidedStore(AgainStore, Protocol):
    @property
    def ledger(self) -> UndecidedRows: ...


class OpenParts(Protocol):
    def of(self, keys: Sequence[TraceKey], /) -> dict[TraceKey, list[StoredPart]]: ...
    def older_than(self, instant: datetime, /, *, limit: int = 1000) -> list[TraceKey]: ...


class PartsStore(Protocol):
    @property
    def parts(self) -> OpenParts: ...
    def now(self) -> datetime: ...


class Leases(Protocol):
    def acquire(self, name: str, holder: str, ttl_s: float, /) -> Lease | None: ...
    def renew(self, lease: Lease, ttl_s: float, /) -> Lease | None: ...
    def release(self, lease: Lease, /) -> None: ...


class Chore(Protocol):
    """One kind of work."""

    async def due(self) -> bool:
        """Whether there is anything to do; a look that costs little."""
        ...

    async def work(self, still_ours: StillOurs) -> None:
        """Does the work that is due, as long as the lease is ours."""
        ...
