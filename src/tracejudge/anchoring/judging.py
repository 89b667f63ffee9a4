"""Judging the anchors of a set, each for real: no verdict comes from a cache or from a call for somebody else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tracejudge.anchors.anchor import Anchor, AnchorSet
from tracejudge.anchors.round import Verdict
from tracejudge.judging.specs.spec import JudgeSpec
from tracejudge.judging.tasks import JudgeTask
from tracejudge.scores import ANCHOR_RUN, Decision, Score
from tracejudge.store import Store

if TYPE_CHECKING:
    from tracejudge.judging import Panel

_BATCH: Final = 25


@dataclass(frozen=True, slots=True, kw_only=True)
class AnchorRun:
    """The result of judging the anchors of a set. `verdicts` holds the anchors that were asked about and are
    applicable; one that a cap cut off, or whose judge is gone, is missing there and counted in `left`."""

    judge_name: str
    verdicts: Mapping[str, Verdict]
    left: int
    not_applicable: int
    calls: int
    cost_usd: float | None
    gone: tuple[str, ...]
    model_reported: str
    fingerprint: str


async def judge_anchors(
    panel: Panel,
    spec: JudgeSpec,
    anchors: AnchorSet,
    *,
    store: Store | None,
    known: Mapping[str, Verdict] | None = None,
    progress: Callable[[Mapping[str, Verdict]], None] = lambda _: None,
    still_wanted: Callable[[], bool] = lambda: True,
) -> AnchorRun:
    """Judges every anchor that is not in `known` (of a round that was interrupted) under one judge of the panel.

    Calls are stored under run "anchor" where there is a store: money that was spent counts against the judge's caps.
    Verdicts are not stored: `progress` is told all of them after each batch. It ends early when the judge is gone, a
    cap is reached, or `still_wanted` says no, which it is asked before each batch.
    """
    verdicts: dict[str, Verdict] = dict(known or {})
    waiting = [anchor for anchor in anchors.anchors if anchor.case_id not in verdicts]
    calls, cost, unpriced, not_applicable = 0, 0.0, False, 0
    gone: list[str] = []
    model, fingerprint = "", ""
    for start in range(0, len(waiting), _BATCH):
        if not still_wanted():
            break
        batch = waiting[start : start + _BATCH]
        result = await panel.evaluate([_task(anchor, spec) for anchor in batch], run_id=ANCHOR_RUN)
        expected = {anchor.case_id: anchor.labels.get(spec.criterion) for anchor in batch}
        for score in result.scores:
            verdicts[score.trace_id] = Verdict(_passed(score), expected[score.trace_id])
            model, fingerprint = score.model_reported or model, score.fingerprint or fingerprint
        not_applicable += sum(row.decision is Decision.NOT_APPLICABLE for row in result.ledger)
        calls += len(result.calls)
        cost += sum(call.cost_usd or 0.0 for call in result.calls)
        unpriced = unpriced or any(call.cost_usd is None for call in result.calls)
        gone += [str(error) for error in result.gone]
        if store is not None and result.calls:
            await asyncio.to_thread(store.calls.insert, result.calls)
        await asyncio.to_thread(progress, dict(verdicts))
        if gone or any(row.decision is Decision.OVER_BUDGET for row in result.ledger):
            break
    return AnchorRun(
        judge_name=spec.name,
        verdicts=verdicts,
        left=len(anchors.anchors) - len(verdicts) - not_applicable,
        not_applicable=not_applicable,
        calls=calls,
        cost_usd=None if unpriced else cost,
        gone=tuple(dict.fromkeys(gone)),
        model_reported=model,
        fingerprint=fingerprint,
    )


def _passed(score: Score) -> bool | None:
    return score.outcome.value == "passed" if score.outcome.settled else None


def _task(anchor: Anchor, spec: JudgeSpec) -> JudgeTask:
    # By its own id: two apps may have given one id to two traces.
    trace = anchor.trace.model_copy(update={"trace_id": anchor.case_id})
    return JudgeTask(
        trace=trace,
        judge_names=frozenset({spec.name}),
        inclusion_probability={spec.name: 1.0},
        event_time=trace.event_time,
    )
