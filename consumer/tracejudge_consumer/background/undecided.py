"""Judges undecided traces, whose judge was gone, once the judge is back or another one was adopted in its place.

They wait in the store with their offsets committed. The consumer that holds the lease asks about the oldest one: the
judge's circuit decides whether that costs a call, so a judge that stays gone costs one call after each of its growing
pauses. Once the judge answers, the others follow, the oldest first.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from tracejudge.alerts import HEALTH_RULE, AlertEvent, EventKind, SeriesKey
from tracejudge.clock import Clock
from tracejudge.counted import counted
from tracejudge.errors import JudgeDown, JudgeGone
from tracejudge.scores import LedgerRow
from tracejudge_consumer.background.again import Again
from tracejudge_consumer.background.needs import StillOurs, UndecidedStore
from tracejudge_consumer.report import PipelineReport
from tracejudge_consumer.stages.needs import Judges
from tracejudge_consumer.stages.store_calls import StoreCalls

_LOG = logging.getLogger(__name__)

PAGE: Final = 100
_MOST_TOLD: Final = 1_000  # "1000 or more" is enough to know

Announce = Callable[[AlertEvent], None]
"""Stores and notifies an event. Calling it twice with one event changes nothing, by the event's id. May block."""


class UndecidedTraces:
    """The chore that judges undecided traces. For one event loop."""

    def __init__(
        self,
        *,
        store: UndecidedStore,
        judges: Judges,
        again: Again,
        calls: StoreCalls,
        clock: Clock,
        announce: Announce,
        count: Callable[[PipelineReport], None],
    ) -> None:
        """`count` is called with the report of each page of rows."""
        self._store = store
        self._judges = judges
        self._again = again
        self._calls = calls
        self._clock = clock
        self._announce = announce
        self._count = count

    async def due(self) -> bool:
        for name in self._judges.judge_ids:
            if await self._rows(name, 1):
                return True
        return False

    async def work(self, still_ours: StillOurs) -> None:
        for name in self._judges.judge_ids:
            oldest = await self._rows(name, 1)
            if oldest and still_ours():
                await self._judge(name, oldest[0], still_ours)

    async def _judge(self, name: str, oldest: LedgerRow, still_ours: StillOurs) -> None:
        rows: Sequence[LedgerRow] = [oldest]
        while rows:
            report = await self._again.judge(rows)
            self._count(report.counts)
            if report.gone:
                waiting = len(await self._rows(name, _MOST_TOLD))
                await self._tell(_gone(report.gone[0], oldest, waiting=waiting, at=self._clock))
                return
            left = await self._rows(name, PAGE)
            if left and {*map(_place, left)} == {*map(_place, rows)}:
                return  # nothing was decided: what stands in the way is not the judge's being gone
            rows = left
            if rows and not still_ours():
                return
        _LOG.warning("judge %r: nothing is undecided any more", name)
        if oldest.reason.startswith(("judge_gone", "judge_down")):
            await self._tell(_back(oldest, at=self._clock))

    async def _rows(self, name: str, limit: int) -> list[LedgerRow]:
        return await self._calls(partial(self._store.ledger.undecided, judge=name, limit=limit))

    async def _tell(self, event: AlertEvent) -> None:
        await asyncio.shield(self._calls(partial(self._announce, event)))


def _place(row: LedgerRow) -> tuple[str, str, str]:
    return (row.environment, row.app, row.trace_id)


def _gone(fault: JudgeGone, oldest: LedgerRow, *, waiting: int, at: Clock) -> AlertEvent:
    wait = counted(waiting, "trace is undecided and will be", "traces are undecided and will be")
    if waiting >= _MOST_TOLD:
        wait = f"{waiting} or more traces are undecided and will be"
    return _event(
        oldest,
        kind="evaluator_unhealthy",
        summary=f"judge {fault.judge_name} is {'down' if isinstance(fault, JudgeDown) else 'unavailable'} "
        f"({fault.kind}): {wait} judged when it is available again",
        evidence={"kind": fault.kind, "undecided": waiting, "since": oldest.decided_at.isoformat()},
        at=at,
    )


def _back(oldest: LedgerRow, *, at: Clock) -> AlertEvent:
    return _event(
        oldest,
        kind="evaluator_healthy",
        summary=f"judge {oldest.judge_name} is available again: no trace is undecided any more",
        evidence={"since": oldest.decided_at.isoformat()},
        at=at,
    )


def _event(oldest: LedgerRow, *, kind: EventKind, summary: str, evidence: dict[str, object], at: Clock) -> AlertEvent:
    """Its id follows from the trace that waits longest, so that every process means the same absence."""
    absence = f"{oldest.judge_name}\n{oldest.judge_id}\n{oldest.trace_id}\n{oldest.decided_at.isoformat()}\n{kind}"
    return AlertEvent(
        event_id=hashlib.sha256(absence.encode("utf-8", "replace")).hexdigest()[:32],
        series=SeriesKey(
            rule=HEALTH_RULE, environment="", app="", judge_name=oldest.judge_name, judge_id=oldest.judge_id
        ),
        kind=kind,
        severity="ticket",
        heuristic=False,
        at=at.now(),
        summary=summary,
        evidence=evidence,
    )
