"""From a judgement to the rows that are stored."""

from __future__ import annotations

from datetime import datetime

from tracejudge.judging.registry import Judge
from tracejudge.judging.replies.judgement import Judgement
from tracejudge.judging.specs.spec import JudgeSpec
from tracejudge.judging.tasks import JudgeTask
from tracejudge.scores import Decision, JudgeCall, LedgerRow, Outcome, Score, Usage
from tracejudge_sdk.trace import Trace


def same_model(spec: JudgeSpec, trace: Trace) -> bool:
    """True when the judge asks the model that wrote the answer (the provider's prefix does not count)."""
    if not trace.model:
        return False
    ours, theirs = spec.model_name.casefold().rpartition("/")[2], trace.model.casefold().rpartition("/")[2]
    return bool(ours) and ours == theirs


def score_row(
    task: JudgeTask, judge: Judge, judgement: Judgement, run_id: str, judged_at: datetime, digest: str
) -> Score:
    """The score of a verdict or of an invalid result."""
    trace, spec = task.trace, judge.spec
    invalid = judgement.invalid is not None
    flags = judgement.flags
    if same_model(spec, trace):
        flags += ("same_model",)
    if trace.truncated:
        flags += ("truncated_trace",)
    if judgement.served:
        flags += ("cached",)
    return Score(
        environment=trace.environment,
        app=trace.app,
        version=trace.version,
        category=trace.category or "",
        trace_id=trace.trace_id,
        event_time=task.event_time,
        judge_name=spec.name,
        judge_id=judge.judge_id,
        run_id=run_id,
        outcome=Outcome.INVALID if invalid else Outcome.PASSED if judgement.passing else Outcome.FAILED,
        score=None if invalid else judgement.score,
        reason=judgement.code,
        feedback=judgement.feedback or "",
        raw_reply=judgement.raw_reply,
        stratum=task.stratum,
        inclusion_probability=task.inclusion_probability[spec.name],
        content_hash=digest,
        model_reported=judgement.model_reported,
        fingerprint=judgement.fingerprint,
        flags=tuple(dict.fromkeys(flags)) if len(flags) > 1 else flags,
        usage=usage_of(judgement),
        judged_at=judged_at,
    )


def ledger_row(task: JudgeTask, judge: Judge, judgement: Judgement, run_id: str, decided_at: datetime) -> LedgerRow:
    """Why there is no score."""
    trace = task.trace
    return LedgerRow(
        environment=trace.environment,
        app=trace.app,
        version=trace.version,
        category=trace.category or "",
        trace_id=trace.trace_id,
        event_time=task.event_time,
        judge_name=judge.spec.name,
        judge_id=judge.judge_id,
        run_id=run_id,
        decision=judgement.decision or Decision.UNDECIDED,
        reason=judgement.code,
        stratum=task.stratum,
        inclusion_probability=task.inclusion_probability[judge.spec.name],
        decided_at=decided_at,
    )


def call_rows(task: JudgeTask, judge: Judge, judgement: Judgement, run_id: str) -> tuple[JudgeCall, ...]:
    """Every call that was made for this judgement."""
    trace = task.trace
    return tuple(
        [
            JudgeCall(
                call_id=call.call_id,
                environment=trace.environment,
                app=trace.app,
                trace_id=trace.trace_id,
                judge_name=judge.spec.name,
                judge_id=judge.judge_id,
                run_id=run_id,
                status=call.status,
                attempt=call.attempt,
                input_tokens=call.input_tokens,
                output_tokens=call.output_tokens,
                cost_usd=call.cost_usd,
                latency_ms=call.latency_ms,
                model_reported=call.model_reported,
                started_at=call.started_at,
            )
            for call in judgement.calls
        ]
    )


def usage_of(judgement: Judgement) -> Usage:
    """What its calls took together; the cost is None, not known, as soon as that of one call is."""
    calls = judgement.calls
    if len(calls) == 1:  # the usual case
        call = calls[0]
        return Usage(
            calls=1,
            input_tokens=call.input_tokens,
            output_tokens=call.output_tokens,
            cost_usd=call.cost_usd,
            latency_ms=judgement.latency_ms,
        )
    costs = [call.cost_usd for call in calls]
    known = [cost for cost in costs if cost is not None]
    return Usage(
        calls=len(calls),
        input_tokens=sum(call.input_tokens for call in calls),
        output_tokens=sum(call.output_tokens for call in calls),
        cost_usd=sum(known, 0.0) if len(known) == len(costs) else None,
        latency_ms=judgement.latency_ms,
    )
