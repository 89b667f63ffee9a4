"""What becomes of traces whose judge was down for longer than the panel waits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, Literal

from tracejudge.judging import JudgeTask, PanelResult
from tracejudge.judging.tasks import content_hash
from tracejudge.scores import Decision, InvalidReason, Outcome, Score, TraceKey

PastPatience = Literal["undecided", "invalid"]
"""undecided: judged when the judge is back, however late. invalid: counted as a failure of the judge, and judged again
by `tracejudge retry` alone."""

_DOWN: Final = "judge_down_"  # the ledger's reason while an endpoint does not answer, with what it was
_DOWN_REASONS: Final = {
    "judge_down_timeout": InvalidReason.JUDGE_TIMEOUT,
    "judge_down_rate_limited": InvalidReason.RATE_LIMITED,
}


def given_up(result: PanelResult, tasks: Mapping[TraceKey, JudgeTask]) -> PanelResult:
    """The result with an invalid score for every trace whose judge was down for too long."""
    down = [row for row in result.ledger if row.decision is Decision.UNDECIDED and row.reason.startswith(_DOWN)]
    if not down:
        return result
    scores = [
        Score(
            environment=row.environment,
            app=row.app,
            version=row.version,
            category=row.category,
            trace_id=row.trace_id,
            event_time=row.event_time,
            judge_name=row.judge_name,
            judge_id=row.judge_id,
            run_id=row.run_id,
            outcome=Outcome.INVALID,
            score=None,
            reason=_DOWN_REASONS.get(row.reason, InvalidReason.JUDGE_ERROR).value,
            feedback=f"the judge was down for longer than judge_patience_s ({row.reason.removeprefix(_DOWN)})",
            stratum=row.stratum,
            inclusion_probability=row.inclusion_probability,
            content_hash=content_hash(tasks[TraceKey(row.environment, row.app, row.trace_id)].trace),
            judged_at=row.decided_at,
        )
        for row in down
    ]
    kept = tuple(row for row in result.ledger if row not in down)
    return replace(result, ledger=kept, scores=(*result.scores, *scores))
