"""What a run of the pipeline did, in numbers that add up."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal

from tracejudge.judging import PanelResult
from tracejudge.scores import Decision, Outcome

Ending = Literal["", "idle", "stopped", "unassigned"]
"""Why a run ended: "" still runs; "unassigned": other consumers of the group held every partition all the time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineReport:
    """Counts of one batch, of a run so far, or of a whole run; `a + b` adds them up.

    records = traces + parts + feedback + duplicates + the dead letters that could not be read. A duplicate repeats a
    trace of its own batch; an assembled trace came from parts and is counted beside them; abandoned ones are among
    the traces and the assembled.
    """

    records: int = 0
    traces: int = 0
    parts: int = 0
    assembled: int = 0
    feedback: int = 0
    duplicates: int = 0
    abandoned: int = 0  # left to the partition's next owner before they were judged
    known: int = 0  # traces that the store knew already: redelivered, or sent twice
    dead_letters: Mapping[str, int] = field(default_factory=dict)  # by reason; rows the store refused: "store_..."
    passed: int = 0
    failed: int = 0
    invalid: int = 0
    invalid_reasons: Mapping[str, int] = field(default_factory=dict)
    ledger: Mapping[Decision, int] = field(default_factory=dict)
    scored_by: Mapping[str, int] = field(default_factory=dict)  # by judge: its scores, invalid ones too
    not_applicable: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # by judge: the reasons
    settled: int = 0  # (trace, judge) pairs skipped because a settled score is stored
    asked: int = 0  # (trace, judge) pairs handed to the panel
    judge_calls: int = 0  # calls to models, failed ones too
    commits: int = 0
    ended: Ending = ""

    @property
    def scored(self) -> int:
        """(trace, judge) pairs with a settled verdict."""
        return self.passed + self.failed

    @property
    def dead(self) -> int:
        return sum(self.dead_letters.values())

    def __add__(self, other: PipelineReport) -> PipelineReport:
        return PipelineReport.total((self, other))

    @classmethod
    def total(cls, reports: Sequence[PipelineReport]) -> PipelineReport:
        """The sum of the reports, with `ended` of the last one that has it."""
        total: dict[str, Any] = {}
        for name in _NUMBERS:
            total[name] = sum([getattr(one, name) for one in reports])
        for name in _COUNTS:
            counted: Counter[Any] = Counter()
            for one in reports:
                if mapping := getattr(one, name):
                    counted.update(mapping)
            total[name] = dict(counted)
        reasons: dict[str, Counter[str]] = {}
        for one in reports:
            for judge, counts in one.not_applicable.items():
                reasons.setdefault(judge, Counter()).update(counts)
        total["not_applicable"] = {judge: dict(counts) for judge, counts in reasons.items()}
        total["ended"] = next((one.ended for one in reversed(reports) if one.ended), "")
        return cls(**total)


_NUMBERS: Final = tuple(one.name for one in fields(PipelineReport) if one.default == 0)
_COUNTS: Final = tuple(
    one.name for one in fields(PipelineReport) if one.default_factory is dict and one.name != "not_applicable"
)


class Tally:
    """Counts what judges say while it comes, one trace after the other; `report` gives it as one value."""

    __slots__ = (
        "_failed", "_invalid_reasons", "_ledger", "_not_applicable", "_passed", "_refused", "_scored_by", "abandoned",
        "asked", "judge_calls",
    )  # fmt: skip

    def __init__(self) -> None:
        self.asked = 0
        self.abandoned = 0
        self.judge_calls = 0
        self._passed = 0
        self._failed = 0
        self._invalid_reasons: Counter[str] = Counter()
        self._ledger: Counter[Decision] = Counter()
        self._scored_by: Counter[str] = Counter()
        self._not_applicable: dict[str, Counter[str]] = defaultdict(Counter)
        self._refused: Counter[str] = Counter()

    def stored(self, results: Iterable[PanelResult], refused: Mapping[str, int]) -> None:
        """The store has these, but for `refused` rows, by reason."""
        for result in results:
            for score in result.scores:  # by identity: an Enum's hash is a call of a function
                self._scored_by[score.judge_name] += 1
                if score.outcome is Outcome.PASSED:
                    self._passed += 1
                elif score.outcome is Outcome.FAILED:
                    self._failed += 1
                else:
                    self._invalid_reasons[score.reason] += 1
            for row in result.ledger:
                self._ledger[row.decision] += 1
                if row.decision is Decision.NOT_APPLICABLE:
                    self._not_applicable[row.judge_name][row.reason] += 1
            self.judge_calls += len(result.calls)
        if refused:
            self._refused.update(refused)

    def report(self) -> PipelineReport:
        return PipelineReport(
            asked=self.asked,
            abandoned=self.abandoned,
            judge_calls=self.judge_calls,
            passed=self._passed,
            failed=self._failed,
            invalid=self._invalid_reasons.total(),
            invalid_reasons=dict(self._invalid_reasons),
            ledger=dict(self._ledger),
            scored_by=dict(self._scored_by),
            not_applicable={judge: dict(reasons) for judge, reasons in self._not_applicable.items()},
            dead_letters=dict(self._refused),
        )
