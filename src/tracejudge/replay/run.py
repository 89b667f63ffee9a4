"""Judging stored traces again, under a run of its own, beside the live scores and never touching them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from typing import Any, Final

from tracejudge.clock import Clock
from tracejudge.judging import JudgeTask, Panel, PanelResult
from tracejudge.judging.spec import JudgeSpec
from tracejudge.scores import RESERVED_RUNS, Decision, Outcome
from tracejudge.store import RunManifest, Store, StoredTrace, TraceFilter

BATCH_TRACES: Final = 100
LOOK_AGAIN_S: Final = 10.0
BATCHES_IN_FLIGHT: Final = 4
"""Batches overlap, so that one slow call at the end of a batch does not leave the judge idle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayReport:
    """What became of a replay. `traces` = texts expired + already settled + scored + invalid + decisions, per judge."""

    run_id: str
    traces: int = 0
    texts_expired: int = 0  # past their retention: there is nothing left to judge, so they are passed over
    already_settled: int = 0
    passed: int = 0
    failed: int = 0
    invalid: int = 0
    invalid_reasons: dict[str, int] = field(default_factory=dict)
    decisions: dict[Decision, int] = field(default_factory=dict)
    calls: int = 0
    cost_usd: float | None = 0.0
    gone: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """JSON values, for the run's manifest."""
        return {
            "traces": self.traces,
            "texts_expired": self.texts_expired,
            "already_settled": self.already_settled,
            "passed": self.passed,
            "failed": self.failed,
            "invalid": self.invalid,
            "invalid_reasons": self.invalid_reasons,
            "decisions": {decision.value: count for decision, count in self.decisions.items()},
            "calls": self.calls,
            "cost_usd": self.cost_usd,
            "gone": list(self.gone),
        }


def check_run_name(run_id: str) -> None:
    """Raises ValueError for a name that a replay may not use."""
    if run_id in RESERVED_RUNS:
        raise ValueError(f"run {run_id!r} is reserved; give the replay a name of its own")
    if not run_id or len(run_id) > 64 or not all(c.isalnum() or c in "-_." for c in run_id):
        raise ValueError(f"run {run_id!r}: use 1 to 64 letters, digits, '-', '_' and '.'")


async def replay(
    store: Store,
    panel: Panel,
    *,
    specs: Collection[JudgeSpec],
    where: TraceFilter,
    run_id: str,
    clock: Clock,
    progress: Callable[[ReplayReport], None] = lambda _: None,
    live_lags: Callable[[], bool] = lambda: False,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> ReplayReport:
    """Judges every stored trace of `where` under `specs` and stores scores, ledger and calls under `run_id`.

    Sampling is not asked: every trace is judged, and its probability is the SDK's own. A trace that the run has settled
    already is not judged again, so a replay that was killed goes on where it was. When a judge is gone it stops early
    and says so in `gone`; when a cap is reached it stops too, with the traces it cut off as over_budget. `live_lags` is
    asked (it may block) before each batch: while it says yes, the replay takes no more on, and looks again every ten
    seconds. Raises
    ValueError for a reserved run name.
    """
    check_run_name(run_id)
    started_at = clock.now()
    manifest = {
        "release": version("tracejudge"),
        "judges": [{"judge_id": spec.judge_id(), "spec": spec.model_dump(mode="json")} for spec in specs],
        "where": {name: _json(getattr(where, name)) for name in where.__dataclass_fields__},
    }
    run = RunManifest(run_id=run_id, kind="replay", started_at=started_at, manifest=manifest)
    await asyncio.to_thread(store.runs.save, run)
    report = ReplayReport(run_id=run_id)
    gone: set[str] = set()
    capped = False
    in_flight: set[asyncio.Task[ReplayReport]] = set()
    batches = store.traces.stream(where, batch=BATCH_TRACES)
    try:
        while not (gone or capped) and (batch := await asyncio.to_thread(next, batches, None)) is not None:
            while await asyncio.to_thread(live_lags):
                await sleep(LOOK_AGAIN_S)
            in_flight.add(asyncio.create_task(_judge(store, panel, specs, batch, run_id)))
            if len(in_flight) >= BATCHES_IN_FLIGHT:
                done, in_flight = await asyncio.wait(in_flight, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    report = _add(report, task.result())
                progress(report)
                gone.update(report.gone)
                # A cap that is reached stays reached: going on would only write down one by one what it cut off.
                capped = Decision.OVER_BUDGET in report.decisions
        for result in await asyncio.gather(*in_flight):
            report = _add(report, result)
        progress(report)
    except BaseException:  # cancellation too: no judge is asked on behalf of a replay that has ended
        for task in in_flight:
            task.cancel()
        raise
    finished = replace(run, finished_at=clock.now(), manifest={**manifest, "result": report.as_dict()})
    await asyncio.to_thread(store.runs.save, finished)
    return report


async def _judge(
    store: Store, panel: Panel, specs: Collection[JudgeSpec], batch: list[StoredTrace], run_id: str
) -> ReplayReport:
    known = await asyncio.to_thread(store.lookup, [stored.key for stored in batch], run_id=run_id)
    tasks, settled, expired = [], 0, 0
    for stored in batch:
        if stored.texts_expired:
            expired += 1
            continue
        done = known[stored.key].settled if stored.key in known else frozenset()
        names = frozenset(spec.name for spec in specs if spec.judge_id() not in done)
        settled += len(specs) - len(names)
        if names:
            tasks.append(
                JudgeTask(
                    trace=stored.trace,
                    judge_names=names,
                    inclusion_probability=dict.fromkeys(names, stored.trace.head_probability),
                    event_time=stored.trace.event_time,
                )
            )
    result = await panel.evaluate(tasks, run_id=run_id)
    await asyncio.to_thread(_store, store, result)
    outcomes = Counter(score.outcome for score in result.scores)
    costs = [call.cost_usd for call in result.calls]
    return ReplayReport(
        run_id=run_id,
        traces=len(batch),
        texts_expired=expired,
        already_settled=settled,
        passed=outcomes[Outcome.PASSED],
        failed=outcomes[Outcome.FAILED],
        invalid=outcomes[Outcome.INVALID],
        invalid_reasons=dict(Counter(s.reason for s in result.scores if s.outcome is Outcome.INVALID)),
        decisions=dict(Counter(row.decision for row in result.ledger)),
        calls=len(result.calls),
        cost_usd=None if None in costs else sum(cost for cost in costs if cost is not None),
        gone=tuple(str(error) for error in result.gone),
    )


def _store(store: Store, result: PanelResult) -> None:
    # Calls first: money that was spent is known even if the process dies before its verdicts are stored.
    store.calls.insert(result.calls)
    store.scores.insert(result.scores)
    store.ledger.insert(result.ledger)


def _add(a: ReplayReport, b: ReplayReport) -> ReplayReport:
    return ReplayReport(
        run_id=a.run_id,
        traces=a.traces + b.traces,
        texts_expired=a.texts_expired + b.texts_expired,
        already_settled=a.already_settled + b.already_settled,
        passed=a.passed + b.passed,
        failed=a.failed + b.failed,
        invalid=a.invalid + b.invalid,
        invalid_reasons=dict(Counter(a.invalid_reasons) + Counter(b.invalid_reasons)),
        decisions=dict(Counter(a.decisions) + Counter(b.decisions)),
        calls=a.calls + b.calls,
        cost_usd=None if a.cost_usd is None or b.cost_usd is None else a.cost_usd + b.cost_usd,
        gone=tuple(dict.fromkeys((*a.gone, *b.gone))),
    )


def _json(value: object) -> object:
    return value.isoformat() if hasattr(value, "isoformat") else value
