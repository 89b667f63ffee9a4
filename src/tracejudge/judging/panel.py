"""The judges run together on a batch, through a BatchEvalRunner."""

from __future__ import annotations

import asyncio
import logging
import os
import uuid
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from tracejudge.clock import Clock
from tracejudge.errors import JudgeGone
from tracejudge.judging.cache import VerdictCache
from tracejudge.judging.caps import NO_CAPS, Caps
from tracejudge.judging.circuit import Availability
from tracejudge.judging.judgement import Judgement
from tracejudge.judging.registry import Judge, MakeCompleter, Surroundings, build
from tracejudge.judging.responses import TraceResponse
from tracejudge.judging.rows import call_rows, ledger_row, same_model, score_row
from tracejudge.judging.runner import EvalRunner
from tracejudge.judging.spec import JudgeSpec
from tracejudge.judging.tasks import BudgetLeases, JudgeTask, PanelResult, RunCaps, SpendSource
from tracejudge.scores import LIVE_RUN, MEASURING_RUNS, RESERVED_RUNS, SHADOW_RUN, JudgeCall, JudgeId, LedgerRow, Score
from tracejudge_sdk.trace import Trace

_LOG: Final = logging.getLogger(__name__)

RUNNER_WORKERS: Final = 1_000_000
"""Above any number of evaluations in flight: the limiter in the guard is the bound that counts, and one that waits here
would hold back other judges, keep slots during back-off and know nothing of endpoints."""


@dataclass(frozen=True, slots=True)
class _Judged:
    task: JudgeTask
    judgement: Judgement


class Panel:
    """Judges batches of traces. Usable from any event loop; one instance may serve overlapping `evaluate` calls.

    Raises SettingsError with every fault of the specs (a key not in the environment, a class not to be imported).
    `caps` are those of this run, `total` those of all judges together; with `leases` they are kept across all processes
    that take theirs from the same place. `patience_s`: how long a trace waits inside `evaluate` for an endpoint that is
    down (connection refused, 5xx or timeouts from everybody) before it is left undecided with reason `judge_down_...`;
    a judge that is gone is not waited for.
    `make_completer` and `sleep` (of the back-off) are for tests.
    """

    def __init__(
        self,
        specs: Sequence[JudgeSpec],
        *,
        clock: Clock,
        spend: SpendSource,
        environ: Mapping[str, str] = os.environ,
        caps: RunCaps | None = None,
        total: Caps = NO_CAPS,
        leases: BudgetLeases | None = None,
        cache: VerdictCache | None = None,
        patience_s: float = 0.0,
        make_completer: MakeCompleter | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._clock = clock
        self._cache = cache
        self._sleep = sleep
        around = Surroundings(
            clock=clock,
            spend=spend,
            environ=environ,
            caps=caps or RunCaps(),
            total=total,
            leases=leases,
            cache=cache,
            holder=uuid.uuid4().hex,
            patience_s=patience_s,
            make_completer=make_completer,
            sleep=sleep,
        )
        self._judges = build(specs, around)
        self._runners = {
            name: EvalRunner({name: judge.evaluator}, workers=RUNNER_WORKERS) for name, judge in self._judges.items()
        }
        self._warned: set[tuple[str, str]] = set()

    @property
    def judge_ids(self) -> Mapping[str, JudgeId]:
        """Judge name to JudgeId."""
        return {name: judge.judge_id for name, judge in self._judges.items()}

    @property
    def instant(self) -> frozenset[str]:
        """Names of the judges that call nothing."""
        return frozenset(name for name, judge in self._judges.items() if not judge.spec.calls_model)

    @property
    def shadow(self) -> frozenset[str]:
        """Names of the judges on trial: what they say about live traffic goes into run "shadow"."""
        return frozenset(name for name, judge in self._judges.items() if judge.spec.shadow)

    def availability(self) -> Mapping[str, Availability]:
        """Judge name to whether it can be asked now. A judge that calls no model is always "ok"."""
        return {name: judge.circuit.availability for name, judge in self._judges.items()}

    async def wait_until_available(self, names: Collection[str] | None = None, *, timeout_s: float) -> bool:
        """Waits until each of these judges (all of them by default) is worth asking; False when `timeout_s` is over
        before that. A judge that is down is worth asking once its pause is over: the next call finds out."""
        wanted = [judge for name, judge in self._judges.items() if names is None or name in names]
        deadline = self._clock.monotonic() + timeout_s
        while True:
            states = [judge.circuit.availability for judge in wanted]
            wait_s = max((state.retry_in_s or 0.0 for state in states if not state.worth_asking), default=0.0)
            left_s = deadline - self._clock.monotonic()
            if wait_s <= 0.0 or left_s <= 0.0:
                return wait_s <= 0.0
            # No longer than a second at once: another call may find it back sooner.
            await self._sleep(min(wait_s, left_s, 1.0))

    async def evaluate(self, tasks: Sequence[JudgeTask], *, run_id: str = LIVE_RUN, fresh: bool = False) -> PanelResult:
        """Judges each task by the judges it names; every (task, judge) ends in exactly one of scores or ledger.

        Rows come in the order of judges, then tasks; within a batch `judged_at` grows with event time. Raises
        ValueError when a task names a judge that is not here or gives it no inclusion probability. Before anything is
        judged it may raise what the SpendSource raises when the hour's or day's spending cannot be read, above all
        ServiceUnavailable while the store is away: nothing was spent then, and the whole batch may be handed in again.
        Once judging has begun, a store that is away at the turn of an hour is waited for. Shadow judges' rows of the
        live run are under run "shadow".

        A run with a name of its own (a replay) is judged in the background: live traffic goes first. `fresh`, and runs
        that measure a judge, take no verdict from the cache and leave none there.
        """
        wanted = {name: [task for task in tasks if name in task.judge_names] for name in self._judges}
        self._check(tasks)
        for name, of_judge in wanted.items():
            if of_judge:
                budget = self._judges[name].budget
                if not budget.known:
                    await budget.seed()
        fresh = fresh or run_id in MEASURING_RUNS
        background = run_id not in RESERVED_RUNS or run_id in MEASURING_RUNS
        responses = {id(task): TraceResponse(task.trace, background=background, fresh=fresh) for task in tasks}
        active = [(self._judges[name], of_judge) for name, of_judge in wanted.items() if of_judge]
        work = [self._judge(judge, of_judge, responses) for judge, of_judge in active]
        # The usual question is one trace for one judge: no task of its own for that.
        judged = [await work[0]] if len(work) == 1 else await asyncio.gather(*work)
        rows = [(judge, rows) for (judge, _), rows in zip(active, judged, strict=True)]
        return self._result(rows, run_id, responses)

    async def close(self) -> None:
        """Closes the connections that belong to the running event loop, and gives back what the budget did not use."""
        for judge in self._judges.values():
            if judge.model is not None:
                await judge.model.close()
            await judge.budget.close()
        if self._cache is not None:
            await self._cache.close()

    def _check(self, tasks: Sequence[JudgeTask]) -> None:
        for task in tasks:
            for name in task.judge_names:
                if name not in self._judges:
                    raise ValueError(f"judge {name!r} is not on this panel, which has {sorted(self._judges)}")
                probability = task.inclusion_probability.get(name)
                if probability is None or not 0.0 < probability <= 1.0:
                    raise ValueError(
                        f"trace {task.trace.trace_id!r}: inclusion probability of {name!r} is {probability!r}, "
                        "not in (0, 1]"
                    )

    async def _judge(
        self, judge: Judge, tasks: Sequence[JudgeTask], responses: Mapping[int, TraceResponse]
    ) -> list[_Judged]:
        name = judge.spec.name
        results = await self._runners[name].aevaluate_responses(
            queries=[task.trace.query for task in tasks], responses=[responses[id(task)] for task in tasks]
        )
        judged = []
        # The runner returns results without ids, in the order of the input: pair them strictly, and look at the ids.
        for task, judgement in zip(tasks, results[name], strict=True):
            if not isinstance(judgement, Judgement) or judgement.trace_id != task.trace.trace_id:
                raise RuntimeError(f"judge {name!r}: a result came back for another trace than {task.trace.trace_id!r}")
            judged.append(_Judged(task, judgement))
        return judged

    def _result(
        self,
        judged: Sequence[tuple[Judge, list[_Judged]]],
        run_id: str,
        responses: Mapping[int, TraceResponse],
    ) -> PanelResult:
        now = self._clock.now()
        scores: list[Score] = []
        ledger: list[LedgerRow] = []
        calls: list[JudgeCall] = []
        gone: dict[str, JudgeGone] = {}
        served: dict[tuple[str, str], int] = {}
        for judge, rows in judged:
            run_of_judge = SHADOW_RUN if judge.spec.shadow and run_id == LIVE_RUN else run_id
            instants = _instants(rows, now)
            for row in rows:
                task, judgement = row.task, row.judgement
                calls += call_rows(task, judge, judgement, run_of_judge)
                if judgement.gone is not None:
                    gone.setdefault(judge.spec.name, judgement.gone)
                if judgement.decision is not None:
                    ledger.append(ledger_row(task, judge, judgement, run_of_judge, now))
                    continue
                digest = responses[id(task)].digest
                if judge.spec.calls_model:
                    key = (judge.spec.name, judgement.served)
                    served[key] = served.get(key, 0) + 1
                scores.append(score_row(task, judge, judgement, run_of_judge, instants[id(task)], digest))
                self._warn_of_same_model(judge.spec, task.trace)
        return PanelResult(
            scores=tuple(scores),
            ledger=tuple(ledger),
            calls=tuple(calls),
            gone=tuple(gone.values()),
            served=served,
        )

    def _warn_of_same_model(self, spec: JudgeSpec, trace: Trace) -> None:
        if same_model(spec, trace) and (spec.name, trace.app) not in self._warned:
            self._warned.add((spec.name, trace.app))
            _LOG.warning(
                "judge %r and app %r use the same model %r: models rate their own answers too well; judge with another",
                spec.name,
                trace.app,
                trace.model,
            )


def _instants(rows: Sequence[_Judged], now: datetime) -> dict[int, datetime]:
    """When each task of a batch was judged, by its id: a microsecond apart, in order of event time, the last at `now`.

    Detectors fold scores in (judged_at, trace_id) order. With one instant for all, a batch would be folded in the order
    of its ids, and a fall inside it would be seen with its traces shuffled.
    """
    if len(rows) == 1:
        return {id(rows[0].task): now}
    ranked = sorted(rows, key=lambda row: (row.task.event_time, row.task.trace.trace_id))
    return {
        id(row.task): now - timedelta(microseconds=len(ranked) - place) for place, row in enumerate(ranked, start=1)
    }
