"""What became of a replay, as counts that add up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from tracejudge.judging import PanelResult
from tracejudge.scores import Decision, Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayReport:
    """Of one attempt at a run. Per judge, `traces` = texts expired + already settled + already decided + passed +
    failed + invalid + decisions.

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


def report_of(run_id: str, results: Sequence[PanelResult]) -> ReplayReport:
    """The counts of what judges said."""
    scores = [score for result in results for score in result.scores]
    calls = [call for result in results for call in result.calls]
    outcomes = Counter(score.outcome for score in scores)
    return ReplayReport(
        run_id=run_id,
        passed=outcomes[Outcome.PASSED],
        failed=outcomes[Outcome.FAILED],
        invalid=outcomes[Outcome.INVALID],
        invalid_reasons=dict(Counter(score.reason for score in scores if score.outcome is Outcome.INVALID)),
        decisions=dict(Counter(row.decision for result in results for row in result.ledger)),
        calls=len(calls),
        failed_calls=sum(call.status != "ok" for call in calls),
        cost_usd=_sum(call.cost_usd for call in calls),
        gone=tuple(dict.fromkeys(str(error) for result in results for error in result.gone)),
    )


def _sum(costs: Iterable[float | None]) -> float | None:
    total = 0.0
    for cost in costs:
        if cost is None:
            return None
        total += cost
    return total
