"""The judges run together on a batch, through a BatchEvalRunner."""

from __future__ import annotations

import asyncio
import logging
import os
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from llama_index.core.evaluation.base import EvaluationResult

from tracejudge.clock import Clock
from tracejudge.judging.cache import VerdictCache
from tracejudge.judging.calls.circuit import Availability
from tracejudge.judging.registry import Judge, MakeCompleter, Surroundings, build
from tracejudge.judging.replies.judgement import Judgement
from tracejudge.judging.responses import TraceResponse
from tracejudge.judging.rows import call_rows, ledger_row, same_model, score_row
from tracejudge.judging.runner import EvalRunner
from tracejudge.judging.specs.caps import NO_CAPS, Caps
from tracejudge.judging.specs.spec import JudgeSpec
from tracejudge.judging.tasks import BudgetLeases, JudgeTask, OnJudged, PanelResult, RunCaps, SpendSource
from tracejudge.scores import LIVE_RUN, MEASURING_RUNS, RESERVED_RUNS, SHADOW_RUN, JudgeId
from tracejudge.together import all_of
from tracejudge_sdk.trace import Trace

_LOG: Final = logging.getLogger(__name__)

RUNNER_WORKERS: Final = 1_000_000
"""Above any number of evaluations in flight: the limiter in the guard is the bound that counts, and one that waits here
would hold back other judges, keep slots during back-off and know nothing of endpoints."""


_SERVED_NOBODY: Final[Mapping[tuple[str, str], int]] = {}


class _Row(NamedTuple):
    """One task for one judge."""

    place: int
    task: JudgeTask
    response: TraceResponse


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
        found: list[PanelResult] = []
        active = await self._asked(tasks, run_id=run_id, fresh=fresh)
        judged = await all_of([self._judge(judge, rows) for judge, rows in active])
        now = self._clock.now()
        for (judge, rows), judgements in zip(active, judged, strict=True):
            instants = _instants([row.task for row in rows], now)
            for row, judgement, at in zip(rows, judgements, instants, strict=True):
                found.append(self._result(judge, row, judgement, run_id, at))
        return PanelResult.total(found)

    async def evaluate_each(
        self, tasks: Sequence[JudgeTask], on_result: OnJudged, *, run_id: str = LIVE_RUN, fresh: bool = False
    ) -> None:
        """Judges like `evaluate`, but no verdict waits for another: `on_result(index, result)` is called once for each
        (task, judge), as soon as the judge has answered, with what it said about `tasks[index]`.

        What `on_result` raises ends the batch and is raised here; it is not called any more then.
        """
        asked = await self._asked(tasks, run_id=run_id, fresh=fresh)
        await all_of([self._judge_each(judge, rows, on_result, run_id) for judge, rows in asked])

    async def close(self) -> None:
        """Closes the connections that belong to the running event loop, and gives back what the budget did not use."""
        for judge in self._judges.values():
            if judge.model is not None:
                await judge.model.close()
            await judge.budget.close()
        if self._cache is not None:
            await self._cache.close()

    async def _asked(self, tasks: Sequence[JudgeTask], *, run_id: str, fresh: bool) -> list[tuple[Judge, list[_Row]]]:
        """The rows of each judge that is asked; what it may spend is known when this returns."""
        self._check(tasks)
        fresh = fresh or run_id in MEASURING_RUNS
        background = run_id not in RESERVED_RUNS or run_id in MEASURING_RUNS
        wanted: dict[str, list[_Row]] = {}
        for place, task in enumerate(tasks):
            # One for all judges: the hash of its texts is made once.
            response = TraceResponse(task.trace, background=background, fresh=fresh)
            for name in task.judge_names:
                wanted.setdefault(name, []).append(_Row(place, task, response))
        active = [(judge, wanted[name]) for name, judge in self._judges.items() if name in wanted]
        for judge, _ in active:
            if not judge.budget.known:
                await judge.budget.seed()
        return active

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

    async def _judge(self, judge: Judge, rows: Sequence[_Row]) -> list[Judgement]:
        name = judge.spec.name
        results = await self._runners[name].aevaluate_responses(
            queries=[row.task.trace.query for row in rows], responses=[row.response for row in rows]
        )
        # The runner returns results without ids, in the order of the input: pair them strictly, and look at the ids.
        return [_judgement(name, row.task, result) for row, result in zip(rows, results[name], strict=True)]

    async def _judge_each(self, judge: Judge, rows: Sequence[_Row], on_result: OnJudged, run_id: str) -> None:
        name = judge.spec.name

        def judged(_: str, number: int, result: EvaluationResult) -> None:
            row = rows[number]
            judgement = _judgement(name, row.task, result)
            on_result(row.place, self._result(judge, row, judgement, run_id, self._clock.now()))

        runner = EvalRunner({name: judge.evaluator}, workers=RUNNER_WORKERS, on_result=judged)
        await runner.aevaluate_responses(
            queries=[row.task.trace.query for row in rows], responses=[row.response for row in rows]
        )

    def _result(self, judge: Judge, row: _Row, judgement: Judgement, run_id: str, at: datetime) -> PanelResult:
        """The rows of one judge's result on one trace."""
        spec, task = judge.spec, row.task
        if spec.shadow and run_id == LIVE_RUN:
            run_id = SHADOW_RUN
        calls = call_rows(task, judge, judgement, run_id) if judgement.calls else ()
        gone = () if judgement.gone is None else (judgement.gone,)
        if judgement.decision is not None:
            return PanelResult(
                scores=(), ledger=(ledger_row(task, judge, judgement, run_id, at),), calls=calls, gone=gone
            )
        self._warn_of_same_model(spec, task.trace)
        return PanelResult(
            scores=(score_row(task, judge, judgement, run_id, at, row.response.digest),),
            ledger=(),
            calls=calls,
            gone=gone,
            served={(spec.name, judgement.served): 1} if spec.calls_model else _SERVED_NOBODY,
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


def _judgement(judge_name: str, task: JudgeTask, result: EvaluationResult) -> Judgement:
    if not isinstance(result, Judgement) or result.trace_id != task.trace.trace_id:
        raise RuntimeError(f"judge {judge_name!r}: a result came back for another trace than {task.trace.trace_id!r}")
    return result


def _instants(tasks: Sequence[JudgeTask], now: datetime) -> list[datetime]:
    """When each task of a batch was judged: a microsecond apart, in order of event time, the last at `now`.

    Detectors fold scores in (judged_at, trace_id) order. With one instant for all, a batch would be folded in the order
    of its ids, and a fall inside it would be seen with its traces shuffled.
    """
    if len(tasks) == 1:
        return [now]
    instants = [now] * len(tasks)
    ranked = sorted(range(len(tasks)), key=lambda n: (tasks[n].event_time, tasks[n].trace.trace_id))
    for place, number in enumerate(ranked, start=1):
        instants[number] = now - timedelta(microseconds=len(tasks) - place)
    return instants
