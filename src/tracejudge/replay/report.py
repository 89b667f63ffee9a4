"""What became of a replay, as counts that add up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from tracejudge.errors import JudgeGone
from tracejudge.scores import Decision, JudgeCall, LedgerRow, Outcome, Score


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayReport:
    """The counts of one attempt at a run. Per judge, `traces` = texts expired + already settled + already decided +
    passed + failed + invalid + decisions. A trace is counted once all of its questions were put; where a run of several
    judges stops in the middle of a page, some judges' verdicts about further traces may be stored already.

    `already_settled` and `already_decided` (invalid, or not applicable) were so before this attempt.
    """

    run_id: str
    traces: int = 0
    texts_expired: int = 0  # past their retention: there is nothing left to judge, so they are passed over
    already_settled: int = 0
    already_decided: int = 0
    passed: int = 0
    failed: int = 0
    invalid: int = 0
    invalid_reasons: dict[str, int] = field(default_factory=dict)
    decisions: dict[Decision, int] = field(default_factory=dict)
    calls: int = 0
    failed_calls: int = 0
    cost_usd: float | None = 0.0
    gone: tuple[str, ...] = ()
    complete: bool = False  # all of the selection was gone through

    @property
    def done(self) -> int:
        """(trace, judge) pairs of which is known what became of them."""
        known = self.already_settled + self.already_decided + self.passed + self.failed + self.invalid
        return known + sum(self.decisions.values())

    def as_dict(self) -> dict[str, Any]:
        """JSON values, for the run's manifest."""
        values = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "run_id"}
        values["decisions"] = {decision.value: count for decision, count in self.decisions.items()}
        values["gone"] = list(self.gone)
        return values

    def __add__(self, other: ReplayReport) -> ReplayReport:
        costs = (self.cost_usd, other.cost_usd)
        numbers = ("traces", "texts_expired", "already_settled", "already_decided", "passed", "failed", "invalid")
        return ReplayReport(
            run_id=self.run_id,
            **{name: getattr(self, name) + getattr(other, name) for name in (*numbers, "calls", "failed_calls")},
            invalid_reasons=dict(Counter(self.invalid_reasons) + Counter(other.invalid_reasons)),
            decisions=dict(Counter(self.decisions) + Counter(other.decisions)),
            cost_usd=None if None in costs else sum(cost for cost in costs if cost is not None),
            gone=tuple(dict.fromkeys((*self.gone, *other.gone))),
            complete=self.complete or other.complete,
        )


def report_of(
    run_id: str,
    *,
    scores: Sequence[Score],
    ledger: Sequence[LedgerRow],
    calls: Sequence[JudgeCall],
    gone: Iterable[JudgeGone],
) -> ReplayReport:
    """The counts of what judges said."""
    outcomes = [score.outcome for score in scores]
    # By identity: to hash or to compare a member of an enumeration is a call of Python.
    passed, failed = ([one is outcome for one in outcomes].count(True) for outcome in (Outcome.PASSED, Outcome.FAILED))
    invalid = len(scores) - passed - failed
    reasons = [score.reason for score in scores if score.outcome is Outcome.INVALID] if invalid else []
    return ReplayReport(
        run_id=run_id,
        passed=passed,
        failed=failed,
        invalid=invalid,
        invalid_reasons=dict(Counter(reasons)),
        decisions=dict(Counter(row.decision for row in ledger)),
        calls=len(calls),
        failed_calls=len(calls) - [call.status for call in calls].count("ok"),
        cost_usd=_sum(call.cost_usd for call in calls),
        gone=tuple(dict.fromkeys(map(str, gone))),
    )


def _sum(costs: Iterable[float | None]) -> float | None:
    total = 0.0
    for cost in costs:
        if cost is None:
            return None
        total += cost
    return total
