"""Drops records of forgotten traces and users at intake, so that reading a topic again does not bring them back.

Nothing of them is stored but a ledger row under a hash of the trace id, so that the ledger still accounts for it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial

from tracejudge.scores import DeadLetter, JudgeId, LedgerRow, TraceKey
from tracejudge.store import Identity, forgotten_row
from tracejudge_consumer.stages.needs import PipelineStore
from tracejudge_consumer.stages.read import IntakeRecord, ReadBatch
from tracejudge_consumer.stages.store_calls import StoreCalls
from tracejudge_sdk.trace import Feedback, TracePart


class Forgotten:
    """Looks up tombstones, once for each batch."""

    def __init__(self, *, store: PipelineStore, calls: StoreCalls) -> None:
        self._store = store
        self._calls = calls

    async def removed_from(self, read: ReadBatch, *, at: datetime) -> tuple[ReadBatch, tuple[IntakeRecord, ...]]:
        """The batch without what was forgotten, and the traces that were removed from it."""
        letters = [(letter, _of_letter(letter)) for letter, _ in read.dead]
        asked = [_of_trace(record) for record in read.traces]  # a batch holds each trace once
        asked += {Identity(_key(one), one.user_id) for one, _ in read.parts}
        asked += {Identity(_key(one)) for one, _ in read.feedback}
        asked += [one for _, found in letters for one in found]
        gone = await self._ask(asked, at=at)
        if not gone:
            return read, ()
        dropped = {id(letter) for letter, found in letters if any(one.key in gone for one in found)}
        left = replace(
            read,
            traces=tuple(record for record in read.traces if record.key not in gone),
            parts=tuple(pair for pair in read.parts if _key(pair[0]) not in gone),
            feedback=tuple(pair for pair in read.feedback if _key(pair[0]) not in gone),
            dead=tuple(pair for pair in read.dead if id(pair[0]) not in dropped),
        )
        return left, tuple(record for record in read.traces if record.key in gone)

    async def among(self, records: Sequence[IntakeRecord], *, at: datetime) -> frozenset[TraceKey]:
        """Which of these traces were forgotten."""
        return await self._ask({_of_trace(record) for record in records}, at=at)

    async def _ask(self, identities: Collection[Identity], *, at: datetime) -> frozenset[TraceKey]:
        if not identities:
            return frozenset()
        gone = await self._calls(partial(self._store.tombstones.forgotten, identities))
        # Found by the user: later records of the same trace may not name the user, so the trace gets a tombstone.
        people = {one.key for one in identities if one.key in gone and one.user_id is not None}
        if people:
            await self._calls(partial(self._store.tombstones.bury, sorted(people), at=at))
        return gone


def ledger_rows(records: Iterable[IntakeRecord], judge_ids: Mapping[str, JudgeId], *, at: datetime) -> list[LedgerRow]:
    """One ledger row for each trace and judge, with the decision FORGOTTEN."""
    return [
        forgotten_row(
            record.key,
            version=record.trace.version,
            category=record.trace.category or "",
            event_time=record.trace.event_time,
            judge_name=name,
            judge_id=judge_id,
            at=at,
        )
        for record in records
        for name, judge_id in judge_ids.items()
    ]


def _of_trace(record: IntakeRecord) -> Identity:
    return Identity(record.key, record.trace.user_id)


def _key(one: TracePart | Feedback) -> TraceKey:
    return TraceKey(one.environment, one.app, one.trace_id)


def _of_letter(letter: DeadLetter) -> list[Identity]:
    """The traces and users that an unreadable record may be about, from its key and from its value if that is JSON."""
    found = []
    if letter.key:
        found.append(Identity(TraceKey("", "", letter.key.decode("utf-8", "replace"))))
    try:
        value = json.loads(letter.value)
    except (ValueError, RecursionError):
        return found
    if isinstance(value, dict):
        names = ("environment", "app", "trace_id", "user_id")
        environment, app, trace_id, user_id = (
            value.get(name) if isinstance(value.get(name), str) else None for name in names
        )
        key = TraceKey(environment or "production", app or "", trace_id or f"{letter.source}:{letter.offset}")
        found.append(Identity(key, user_id))
    return found
