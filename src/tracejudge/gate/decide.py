"""Does a run reach its thresholds? Every check is decided on an interval, and says when the cases do not decide it.

Rates have Wilson's interval. A fall against the baseline is measured on the same cases, pair by pair (Newcombe's
interval for paired shares), so that cases that are always hard or always easy cancel.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Literal

from tracejudge.errors import CheckFailed
from tracejudge.gate.baseline import Baseline
from tracejudge.gate.thresholds import Threshold, Thresholds
from tracejudge.gate.verdicts import RunVerdicts, Verdict
from tracejudge.reports.paired import Estimate, PairedCounts, paired_difference, share
from tracejudge.scores import Outcome


class Decided(str, Enum):
    """Of a check, and of the gate."""

    PASSED = "passed"
    FAILED = "failed"
    UNDECIDED = "undecided"


Limit = Literal["minimum", "max_invalid", "max_drop", "latency"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One limit of one judge.

    `estimate` is a share, for max_drop a difference of shares (now less before), for latency milliseconds; None where
    there is nothing to see.
    """

    kind: Limit
    name: str
    judge_name: str
    decided: Decided
    estimate: Estimate | None
    limit: float
    cases: int
    words: str
    changed: tuple[str, ...] = ()  # cases that passed in the baseline and fail now


@dataclass(frozen=True, slots=True, kw_only=True)
class GateResult:
    """All checks. One that failed fails the gate; one that is undecided leaves it undecided."""

    checks: tuple[Check, ...]
    decided: Decided


def decide(thresholds: Thresholds, run: RunVerdicts, baseline: Baseline | None) -> GateResult:
    """Every threshold held against the run.

    Raises CheckFailed, with the way out, when the comparison would be void: a judge that the run has not, a baseline
    that is missing, or is of another dataset or another JudgeId.
    """
    checks = [check for threshold in thresholds.thresholds for check in _checks(thresholds, threshold, run, baseline)]
    if thresholds.max_latency_p95_ms is not None:
        checks.append(_latency(thresholds.max_latency_p95_ms, run.latency_p95_ms))
    found = {check.decided for check in checks}
    order = (Decided.FAILED, Decided.UNDECIDED, Decided.PASSED)
    return GateResult(checks=tuple(checks), decided=next(one for one in order if one in found))


def _checks(
    thresholds: Thresholds, threshold: Threshold, run: RunVerdicts, baseline: Baseline | None
) -> Iterator[Check]:
    mine = [verdict for verdict in run.verdicts if verdict.judge_name == threshold.judge]
    if not mine:
        known = ", ".join(sorted(run.judge_ids)) or "none"
        raise CheckFailed(f"thresholds: judge {threshold.judge!r} has no verdicts in this run, which has: {known}")
    chosen = [v for v in mine if all(v.slices.get(field) == value for field, value in threshold.where.items())]
    settled = [verdict for verdict in chosen if verdict.outcome in (Outcome.PASSED, Outcome.FAILED)]
    where = "".join(f" {field}={value}" for field, value in sorted(threshold.where.items()))
    name = f"{threshold.judge}{where}"
    if threshold.minimum is not None:
        passed = sum(verdict.outcome is Outcome.PASSED for verdict in settled)
        rate = share(passed, len(settled), confidence=thresholds.confidence)
        decided, words = _decided(thresholds, rate, len(settled), at_least=threshold.minimum)
        yield Check(
            kind="minimum",
            name=f"{name} at least {_percent(threshold.minimum)}",
            judge_name=threshold.judge,
            decided=decided,
            estimate=rate,
            limit=threshold.minimum,
            cases=len(settled),
            words=words,
        )
    if threshold.max_invalid is not None:
        invalid = sum(verdict.outcome is Outcome.INVALID for verdict in chosen)
        asked = len(settled) + invalid
        part = share(invalid, asked, confidence=thresholds.confidence)
        sound = share(len(settled), asked, confidence=thresholds.confidence)
        decided, words = _decided(thresholds, sound, asked, at_least=1.0 - threshold.max_invalid)
        yield Check(
            kind="max_invalid",
            name=f"{name} invalid at most {_percent(threshold.max_invalid)}",
            judge_name=threshold.judge,
            decided=decided,
            estimate=part,
            limit=threshold.max_invalid,
            cases=asked,
            words=words,
        )
    if threshold.max_drop is not None:
        yield _drop(thresholds, threshold, name, settled, run, baseline)


def _drop(
    thresholds: Thresholds,
    threshold: Threshold,
    name: str,
    settled: list[Verdict],
    run: RunVerdicts,
    baseline: Baseline | None,
) -> Check:
    before = _comparable(threshold.judge, run, baseline)
    counts, changed = PairedCounts(), []
    for verdict in settled:
        then, now = before.get(verdict.case), verdict.outcome is Outcome.PASSED
        if then not in (Outcome.PASSED, Outcome.FAILED):
            continue
        counts = counts.adding(a_passed=then is Outcome.PASSED, b_passed=now)
        if then is Outcome.PASSED and not now:
            changed.append(verdict.case)
    limit = threshold.max_drop or 0.0
    difference = paired_difference(counts, confidence=thresholds.confidence)
    decided, words = _decided(thresholds, difference, counts.n, at_least=-limit)
    return Check(
        kind="max_drop",
        name=f"{name} at most {100 * limit:g} points below the baseline",
        judge_name=threshold.judge,
        decided=decided,
        estimate=difference,
        limit=limit,
        cases=counts.n,
        words=words,
        changed=tuple(sorted(changed)),
    )


def _comparable(judge: str, run: RunVerdicts, baseline: Baseline | None) -> Mapping[str, Outcome | None]:
    again = "; judge it again, or make a new one with --update-baseline"
    if baseline is None:
        raise CheckFailed(f"thresholds: max_drop of {judge!r} needs a baseline: name one with --baseline{again}")
    if baseline.dataset != run.dataset:
        raise CheckFailed(
            f"baseline: is of another dataset ({baseline.dataset[:12]}) than this run ({run.dataset[:12]}){again}"
        )
    if (theirs := baseline.judge_ids.get(judge)) != (ours := run.judge_ids[judge]):
        raise CheckFailed(f"baseline: judge {judge!r} was {theirs or 'not there'} and is {ours} now{again}")
    return baseline.outcomes[judge]


def _decided(thresholds: Thresholds, seen: Estimate | None, cases: int, *, at_least: float) -> tuple[Decided, str]:
    """Whether the seen value is not below a limit, and why one may say so."""
    if seen is None or cases < thresholds.min_cases:
        decided = {"pass": Decided.PASSED, "fail": Decided.FAILED}.get(thresholds.too_few, Decided.UNDECIDED)
        return decided, f"not enough evidence: {cases} settled cases, {thresholds.min_cases} needed"
    if seen.high < at_least:
        return Decided.FAILED, "worse, beyond doubt"
    if seen.low >= at_least:
        return Decided.PASSED, "good, beyond doubt"
    if thresholds.strict:
        return Decided.UNDECIDED, "not enough evidence: the interval holds the limit"
    return Decided.PASSED, "no evidence that it is worse"


def _latency(limit: float, seen: float | None) -> Check:
    decided = Decided.UNDECIDED if seen is None else Decided.PASSED if seen <= limit else Decided.FAILED
    words = "was not measured: score the dataset with --engine" if seen is None else f"p95 {seen:.0f} ms"
    estimate = None if seen is None else Estimate(value=seen, low=seen, high=seen)
    return Check(
        kind="latency",
        name=f"latency p95 at most {limit:g} ms",
        judge_name="",
        decided=decided,
        estimate=estimate,
        limit=limit,
        cases=0,
        words=words,
    )


def _percent(value: float) -> str:
    return f"{100 * value:g} %"
