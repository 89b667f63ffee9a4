"""A judge tried on cases with a right answer: what it said, beside what it should have said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tracejudge.judging.known_cases import KnownCase
from tracejudge.judging.panel import Panel
from tracejudge.judging.specs.spec import JudgeSpec
from tracejudge.judging.tasks import JudgeTask
from tracejudge.scores import JudgeCall, LedgerRow, Outcome, Score

TRIAL_RUN = "trial"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """The result of one case. `said` is an outcome, or a decision where there was no verdict."""

    case: str
    expected: str
    said: str
    right: bool
    detail: str  # the judge's explanation, or why there is no verdict
    model_reported: str
    fingerprint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """The results of one judge on all cases, and what they cost."""

    judge_name: str
    tried: tuple[Tried, ...]
    calls: tuple[JudgeCall, ...]

    @property
    def wrong(self) -> int:
        return sum(not one.right for one in self.tried)


async def try_judge(spec: JudgeSpec, cases: Sequence[KnownCase], panel: Panel) -> Trial:
    """The judge on each case, for real: no verdict is taken from a cache."""
    tasks = [
        JudgeTask(
            trace=case.trace,
            judge_names=frozenset({spec.name}),
            inclusion_probability={spec.name: 1.0},
            event_time=case.trace.event_time,
        )
        for case in cases
    ]
    result = await panel.evaluate(tasks, run_id=TRIAL_RUN)
    rows: dict[str, Score | LedgerRow] = {row.trace_id: row for row in result.ledger}
    rows |= {row.trace_id: row for row in result.scores}
    return Trial(
        judge_name=spec.name,
        tried=tuple(_tried(case, rows[case.trace.trace_id]) for case in cases),
        calls=result.calls,
    )


def _tried(case: KnownCase, row: Score | LedgerRow) -> Tried:
    expected = Outcome.PASSED if case.passes else Outcome.FAILED
    if isinstance(row, LedgerRow):
        said, detail = row.decision.value, row.reason
    else:
        said = row.outcome.value
        detail = f"{row.reason}: {row.feedback}" if row.outcome is Outcome.INVALID else row.feedback
    return Tried(
        case=case.name,
        expected=expected.value,
        said=said,
        right=said == expected.value,
        detail=detail,
        model_reported=row.model_reported if isinstance(row, Score) else "",
        fingerprint=row.fingerprint if isinstance(row, Score) else "",
    )
