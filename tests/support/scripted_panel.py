"""A panel of one judge that says what a test wrote down, and waits where the test wants it to."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone

from tracejudge.errors import JudgeGone, StoreUnavailable
from tracejudge.judging import JudgeTask, PanelResult
from tracejudge.judging.tasks import OnJudged
from tracejudge.scores import (
    LIVE_RUN,
    Decision,
    InvalidReason,
    JudgeCall,
    JudgeId,
    LedgerRow,
    Outcome,
    Score,
)

LONGEST_GATE_S = 60.0
"""A test that failed opens its gates no more; without an end they would keep the interpreter from exiting."""

JUDGED_AT = datetime(2026, 1, 2, tzinfo=timezone.utc)


def passes_if_it_may(task: JudgeTask) -> Outcome:
    """Failed for every third trace by its number, passed for the rest."""
    return Outcome.FAILED if int(task.trace.trace_id.rpartition("-")[2]) % 3 == 0 else Outcome.PASSED


class ScriptedPanel:
    """Judges "scripted" (and more names where asked for). `asked` counts the questions per trace id and judge.

    `unread_budgets`: how often it finds the store away before it judges anything.
    """

    def __init__(
        self,
        *names: str,
        verdict: Callable[[JudgeTask], Outcome] = passes_if_it_may,
        gate: Callable[[JudgeTask], threading.Event | None] = lambda task: None,
        gone: bool = False,
        unread_budgets: int = 0,
    ) -> None:
        self._names = names or ("scripted",)
        self._verdict = verdict
        self._gate = gate
        self.gone = gone
        self.unread_budgets = unread_budgets
        self.asked: Counter[tuple[str, str]] = Counter()
        self.closed = 0
        self.running = 0

    @property
    def judge_ids(self) -> Mapping[str, JudgeId]:
        return {name: JudgeId(f"{name}@000000000000") for name in self._names}

    @property
    def instant(self) -> frozenset[str]:
        return frozenset()

    @property
    def shadow(self) -> frozenset[str]:
        return frozenset()

    async def evaluate(self, tasks: Sequence[JudgeTask], *, run_id: str = LIVE_RUN) -> PanelResult:
        if self.unread_budgets:
            self.unread_budgets -= 1
            raise StoreUnavailable("what was spent could not be read")
        scores: list[Score] = []
        ledger: list[LedgerRow] = []
        calls: list[JudgeCall] = []
        self.running += 1
        try:
            for task in tasks:
                gate = self._gate(task)
                if gate is not None:
                    await asyncio.to_thread(gate.wait, LONGEST_GATE_S)
                for name in sorted(task.judge_names):
                    self.asked[task.trace.trace_id, name] += 1
                    if self.gone:
                        ledger.append(self._undecided(task, name))
                        continue
                    scores.append(self._score(task, name, run_id))
                    calls.append(self._call(task, name))
        finally:
            self.running -= 1
        gone = tuple(JudgeGone(name, "bad_key", "no such key") for name in self._names) if self.gone else ()
        return PanelResult(scores=tuple(scores), ledger=tuple(ledger), calls=tuple(calls), gone=gone)

    async def evaluate_each(self, tasks: Sequence[JudgeTask], on_result: OnJudged, *, run_id: str = LIVE_RUN) -> None:
        if self.unread_budgets:
            self.unread_budgets -= 1
            raise StoreUnavailable("what was spent could not be read")

        async def one(place: int, task: JudgeTask) -> None:
            on_result(place, await self.evaluate([task], run_id=run_id))

        await asyncio.gather(*(one(place, task) for place, task in enumerate(tasks)))

    async def close(self) -> None:
        self.closed += 1

    def _score(self, task: JudgeTask, name: str, run_id: str) -> Score:
        outcome = self._verdict(task)
        trace = task.trace
        return Score(
            environment=trace.environment,
            app=trace.app,
            version=trace.version,
            category=trace.category or "",
            trace_id=trace.trace_id,
            event_time=task.event_time,
            judge_name=name,
            judge_id=self.judge_ids[name],
            run_id=run_id,
            outcome=outcome,
            score={Outcome.PASSED: 1.0, Outcome.FAILED: 0.0, Outcome.INVALID: None}[outcome],
            reason=InvalidReason.JUDGE_TIMEOUT.value if outcome is Outcome.INVALID else "",
            stratum=task.stratum,
            inclusion_probability=task.inclusion_probability[name],
            judged_at=JUDGED_AT,
        )

    def _undecided(self, task: JudgeTask, name: str) -> LedgerRow:
        return LedgerRow(
            environment=task.trace.environment,
            app=task.trace.app,
            version=task.trace.version,
            category=task.trace.category or "",
            trace_id=task.trace.trace_id,
            event_time=task.event_time,
            judge_name=name,
            judge_id=self.judge_ids[name],
            decision=Decision.UNDECIDED,
            decided_at=JUDGED_AT,
        )

    def _call(self, task: JudgeTask, name: str) -> JudgeCall:
        number = self.asked[task.trace.trace_id, name]
        return JudgeCall(
            call_id=f"{task.trace.trace_id}/{name}/{number}",
            environment=task.trace.environment,
            app=task.trace.app,
            trace_id=task.trace.trace_id,
            judge_name=name,
            judge_id=self.judge_ids[name],
            status="ok",
            started_at=JUDGED_AT,
        )
