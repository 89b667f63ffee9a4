"""The store's tables that the pipeline writes, as dictionaries with the store's keys; it can be taken away."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import Generic, TypeVar

from tracejudge.errors import StoreUnavailable
from tracejudge.scores import LIVE_RUN, DeadLetter, JudgeCall, LedgerRow, Outcome, Score, TraceKey
from tracejudge.store import (
    EpochsRead,
    Identity,
    Inserted,
    Known,
    SamplingEpoch,
    StoredFeedback,
    StoredPart,
    StoredTrace,
)

_Row = TypeVar("_Row")


class MemoryTable(Generic[_Row]):
    """Rows by key; a second row of a key replaces the first, as in the store."""

    def __init__(self, store: MemoryStore, name: str, key: Callable[[_Row], Hashable]) -> None:
        self._store = store
        self._name = name
        self._key = key
        self.rows: dict[Hashable, _Row] = {}
        self.inserts = 0

    def insert(self, rows: Sequence[_Row], /) -> Inserted:
        self._store.arrive(f"{self._name}.insert")
        with self._store.lock:
            self.inserts += 1
            for row in rows:
                self.rows[self._key(row)] = row
        self._store.leave(f"{self._name}.insert")
        return Inserted(stored=len(rows))


class MemoryTraces(MemoryTable[StoredTrace]):
    """As in the store: the event time is fixed first ("traces.fixed" comes in between); then the first content stays,
    unless it was incomplete and a complete one comes."""

    def insert(self, rows: Sequence[StoredTrace], /) -> Inserted:
        self._store.arrive("traces.insert")
        with self._store.lock:
            for row in rows:
                self._store.fixed.setdefault(row.key, row.trace.event_time)
        self._store.on_call("traces.fixed")
        with self._store.lock:
            self.inserts += 1
            for row in rows:
                trace = row.trace.model_copy(update={"event_time": self._store.fixed[row.key]})
                before = self.rows.get(row.key)
                if before is None or (before.trace.status == "incomplete" != trace.status):
                    self.rows[row.key] = replace(row, trace=trace)
        self._store.leave("traces.insert")
        return Inserted(stored=len(rows))


class MemoryParts(MemoryTable[StoredPart]):
    def of(self, keys: Sequence[TraceKey], /) -> dict[TraceKey, list[StoredPart]]:
        self._store.arrive("parts.of")
        found: dict[TraceKey, list[StoredPart]] = {}
        for row in self.rows.values():
            key = TraceKey(row.part.environment, row.part.app, row.part.trace_id)
            if key in keys:
                found.setdefault(key, []).append(row)
        return found


class MemoryTombstones:
    """Nobody was forgotten, unless a test says so."""

    def __init__(self) -> None:
        self.keys: set[TraceKey] = set()
        self.users: set[str] = set()

    def forgotten(self, identities: Collection[Identity], /) -> frozenset[TraceKey]:
        return frozenset(one.key for one in identities if one.key in self.keys or one.user_id in self.users)

    def bury(self, keys: Sequence[TraceKey], /, *, at: datetime) -> None:
        self.keys.update(keys)


class MemoryEpochs:
    """The epochs that a test puts there."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self.rows: list[SamplingEpoch] = []
        self.reads = 0

    def in_force(self, start: datetime, end: datetime | None = None, /) -> EpochsRead:
        self._store.arrive("sampling_epochs.in_force")
        self.reads += 1
        begin = max((row.starts_at for row in self.rows if row.starts_at <= start), default=start)
        found = [row for row in self.rows if begin <= row.starts_at and (end is None or row.starts_at <= end)]
        return EpochsRead(datetime.now(timezone.utc), tuple(sorted(found, key=lambda row: row.starts_at)))


class MemoryStore:
    """Thread-safe. `down` makes every call raise StoreUnavailable; `lose_answers` does so after the rows went in."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.down = threading.Event()
        self.lose_answers = 0
        self.refused_calls = 0
        self.on_call: Callable[[str], None] = lambda name: None
        self.fixed: dict[TraceKey, datetime] = {}
        self.traces = MemoryTraces(self, "traces", lambda row: row.key)
        self.parts = MemoryParts(self, "parts", lambda row: (row.part.trace_id, row.partition, row.offset))
        self.feedback = MemoryTable[StoredFeedback](self, "feedback", lambda row: row.feedback.feedback_id)
        self.scores = MemoryTable[Score](
            self, "scores", lambda row: (row.key, row.event_time, row.judge_id, row.run_id)
        )
        self.ledger = MemoryTable[LedgerRow](
            self, "ledger", lambda row: (row.environment, row.app, row.trace_id, row.event_time, row.judge_id)
        )
        self.calls = MemoryTable[JudgeCall](self, "calls", lambda row: row.call_id)
        self.dead_letters = MemoryTable[DeadLetter](
            self, "dead_letters", lambda row: (row.source, row.partition, row.offset)
        )

        self.tombstones = MemoryTombstones()
        self.sampling_epochs = MemoryEpochs(self)

    def lookup(self, keys: Sequence[TraceKey], /, *, run_id: str = LIVE_RUN) -> dict[TraceKey, Known]:
        self.arrive("lookup")
        with self.lock:
            found: dict[TraceKey, Known] = {}
            for key, event_time in self.fixed.items():
                if key in keys:
                    scores = [s for s in self.scores.rows.values() if s.key == key and s.run_id == run_id]
                    found[key] = Known(
                        event_time=event_time,
                        settled=frozenset(s.judge_id for s in scores if s.outcome.settled),
                        invalid=frozenset(s.judge_id for s in scores if s.outcome is Outcome.INVALID),
                    )
            return found

    def arrive(self, name: str) -> None:
        self.on_call(name)
        if self.down.is_set():
            with self.lock:
                self.refused_calls += 1
            raise StoreUnavailable("the store was taken away by a test")

    def leave(self, name: str) -> None:
        with self.lock:
            if self.lose_answers:
                self.lose_answers -= 1
                raise StoreUnavailable(f"the answer of {name} was lost by a test")
