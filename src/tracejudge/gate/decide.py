"""Does a run reach its thresholds? Every check is decided on an interval, and says when the cases do not decide it.

Rates have Wilson's interval. A fall against the baseline is measured on the same cases, pair by pair (`fall`), so
that cases that are always hard or always easy cancel. A pass that would be none if the cases without a verdict had
failed is undecided, unless `max_invalid` says how many of them are acceptable. Where anchors ran along and the judge
moved on them, no fall is decided.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, Literal

from tracejudge.comparing.paired import Estimate, share
from tracejudge.counted import counted
from tracejudge.errors import CheckFailed, SettingsError
from tracejudge.gate.baseline import Baseline, Verdicts
from tracejudge.gate.fall import fall
from tracejudge.gate.thresholds import Threshold, Thresholds
from tracejudge.gate.verdicts import CaseKey, RunVerdicts, Verdict
from tracejudge.scores import Outcome


class Decided(str, Enum):
    """The outcome of a check, or of the whole gate."""

    PASSED = "passed"
    FAILED = "failed"
    UNDECIDED = "undecided"


_KNOWN_BY_ITS_WORDS: Final = "line-"
"""How the id of a line begins that came without one: a hash of its words follows."""

Limit = Literal["minimum", "max_invalid", "max_drop", "latency", "anchors"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The outcome of one limit for one judge.

    `estimate` is a share, for max_drop and anchors a difference of shares (now less before), for latency milliseconds;
    None where there is nothing to see.
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
    """The checks and the gate's outcome: failed when one check failed, else undecided when one is undecided, else
    passed."""

    checks: tuple[Check, ...]
    decided: Decided


def decide(
    thresholds: Thresholds, run: RunVerdicts, baseline: Baseline | None, *, anchors: RunVerdicts | None = None
) -> GateResult:
    """Every threshold held against the run. `anchors`: what the same judges say now of traces that never change.

    Raises SettingsError for a judge that the run has not and a baseline that is missing, and CheckFailed, with the way
    out, when the comparison would be void: a baseline of another dataset or another JudgeId.
    """
    steady = _anchor_checks(thresholds, baseline, anchors)
    moved = {check.judge_name: check.words for check in steady if check.decided is Decided.UNDECIDED}
    checks = [*steady]
    for threshold in thresholds.thresholds:
        checks += _checks(thresholds, threshold, run, baseline, moved.get(threshold.judge))
    if thresholds.max_latency_p95_ms is not None:
        checks.append(_latency(thresholds.max_latency_p95_ms, run.latency_p95_ms))
    found = {check.decided for check in checks}
    order = (Decided.FAILED, Decided.UNDECIDED, Decided.PASSED)
    return GateResult(checks=tuple(checks), decided=next(one for one in order if one in found))


def _anchor_checks(thresholds: Thresholds, baseline: Baseline | None, anchors: RunVerdicts | None) -> list[Check]:
    """Whether each judge still says of the anchors what it said when the baseline was made."""
    before = baseline.anchors if baseline is not None else None
    if before is None and anchors is None:
        return []
    if before is None or anchors is None:
        has, lacks = ("this run", "the baseline") if before is None else ("the baseline", "this run")
        raise CheckFailed(
            f"anchors: {has} has them and {lacks} has not: judge them along and name the rows with --anchors, or a set "
            "of the store with --anchor-set, also when the baseline is made"
        )
    checks = []
    for judge in dict.fromkeys(threshold.judge for threshold in thresholds.thresholds):
        mine = [verdict for verdict in anchors.verdicts if verdict.judge_name == judge]
        seen = fall(
            comparable(judge, anchors, before, what="anchors of the baseline"),
            judge,
            mine,
            confidence=thresholds.confidence,
        )
        difference = seen.difference
        moved = difference is not None and (difference.low > 0.0 or difference.high < 0.0)
        words = f"no sign on {counted(seen.cases, 'anchor')} that the judge moved"
        if moved and difference is not None:
            words = f"it passes {100 * difference.value:+.1f} points of {counted(seen.cases, 'anchor')}"
        checks.append(
            Check(
                kind="anchors",
                name=f"{_label(judge, mine)} judges the anchors as before",
                judge_name=judge,
                decided=Decided.UNDECIDED if moved else Decided.PASSED,
                estimate=difference,
                limit=0.0,
                cases=seen.cases,
                words=words,
                changed=tuple(_case(key, anchors) for key in seen.changed) if moved else (),
            )
        )
    return checks


def _label(judge: str, verdicts: list[Verdict]) -> str:
    """The judge's name, with the word that a heuristic must carry wherever it appears."""
    return f"{judge} (heuristic)" if any(verdict.heuristic for verdict in verdicts) else judge


def _checks(
    thresholds: Thresholds, threshold: Threshold, run: RunVerdicts, baseline: Baseline | None, moved: str | None
) -> Iterator[Check]:
    mine = [verdict for verdict in run.verdicts if verdict.judge_name == threshold.judge]
    if not mine:
        known = ", ".join(sorted(run.judge_ids)) or "none"
        raise SettingsError([f"thresholds: judge {threshold.judge!r} has no verdicts in this run, which has: {known}"])
    chosen = [v for v in mine if all(v.slices.get(field) == value for field, value in threshold.where.items())]
    settled = [verdict for verdict in chosen if verdict.outcome in (Outcome.PASSED, Outcome.FAILED)]
    unjudged = [verdict for verdict in chosen if verdict.outcome is Outcome.INVALID]
    where = "".join(f" {field}={value}" for field, value in sorted(threshold.where.items()))
    name = f"{_label(threshold.judge, mine)}{where}"
    if threshold.minimum is not None:
        passed = sum(verdict.outcome is Outcome.PASSED for verdict in settled)
        rate = share(passed, len(settled), confidence=thresholds.confidence)
        decided, words = decided_at_least(thresholds, rate, len(settled), at_least=threshold.minimum)
        if unjudged and threshold.max_invalid is None:
            asked = len(settled) + len(unjudged)
            at_worst, _ = decided_at_least(
                thresholds, share(passed, asked, confidence=thresholds.confidence), asked, at_least=threshold.minimum
            )
            decided, words = _unless_unjudged_failed(decided, words, at_worst, len(unjudged), asked)
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
        asked = len(settled) + len(unjudged)
        part = share(len(unjudged), asked, confidence=thresholds.confidence)
        sound = share(len(settled), asked, confidence=thresholds.confidence)
        decided, words = decided_at_least(thresholds, sound, asked, at_least=1.0 - threshold.max_invalid)
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
        yield _drop(thresholds, threshold, name, settled, unjudged, run, baseline, moved)


def _unless_unjudged_failed(
    decided: Decided, words: str, at_worst: Decided, unjudged: int, asked: int
) -> tuple[Decided, str]:
    """A judge seldom fails at random: a pass that hangs on what it could not judge is none."""
    told = f"{unjudged} of {asked} could not be judged"
    if decided is not Decided.PASSED or at_worst is not Decided.FAILED:
        return decided, f"{words}; {told}"
    return Decided.UNDECIDED, f"{told}, and had they failed, so would this: score them again, or set max_invalid"


def _drop(
    thresholds: Thresholds,
    threshold: Threshold,
    name: str,
    settled: list[Verdict],
    unjudged: list[Verdict],
    run: RunVerdicts,
    baseline: Baseline | None,
    moved: str | None,
) -> Check:
    before = comparable(threshold.judge, run, baseline)
    if threshold.max_drop == "noise" and before.runs == 1:
        raise SettingsError(
            [
                f"thresholds: max_drop = 'noise' of {threshold.judge!r} needs a baseline of several runs at constant "
                "code: score the dataset again without changing anything, and make it of all: `tracejudge gate ROWS "
                "ROWS ROWS --baseline FILE --update-baseline`"
            ]
        )
    limit = 0.0 if threshold.max_drop in (None, "noise") else float(threshold.max_drop or 0.0)
    seen = fall(before, threshold.judge, settled, confidence=thresholds.confidence)
    decided, words = decided_at_least(thresholds, seen.difference, seen.cases, at_least=-limit)
    if unjudged and threshold.max_invalid is None:
        failed = [*settled, *(replace(verdict, outcome=Outcome.FAILED) for verdict in unjudged)]
        worst = fall(before, threshold.judge, failed, confidence=thresholds.confidence)
        at_worst, _ = decided_at_least(thresholds, worst.difference, worst.cases, at_least=-limit)
        decided, words = _unless_unjudged_failed(decided, words, at_worst, len(unjudged), len(failed))
    if seen.noise is not None:
        words += f"; the same code moves by up to {100 * seen.noise:.1f} points ({counted(before.runs, 'run')})"
    if moved is not None and seen.difference is not None:
        decided, words = Decided.UNDECIDED, f"the judge moved ({moved}), so a fall need not be the product's"
    asked = "within the noise of" if threshold.max_drop == "noise" else f"at most {100 * limit:g} points below"
    return Check(
        kind="max_drop",
        name=f"{name} {asked} the baseline",
        judge_name=threshold.judge,
        decided=decided,
        estimate=seen.difference,
        limit=limit,
        cases=seen.cases,
        words=words,
        changed=tuple(_case(key, run) for key in seen.changed),
    )


def _case(key: CaseKey, run: RunVerdicts) -> str:
    return key.case if len(run.apps) == 1 else f"{key.app}/{key.case}"


def comparable(judge: str, run: RunVerdicts, before: Verdicts | None, *, what: str = "baseline") -> Verdicts:
    """The verdicts that a run is compared with. Raises SettingsError where there is none, and CheckFailed, with the way
    out, when that would be void."""
    again = "; judge it again, or write a new one with --update-baseline"
    if before is None:
        raise SettingsError(
            [
                f"thresholds: max_drop of {judge!r} needs a baseline: name one with --baseline, or write the first "
                "with --baseline FILE --update-baseline from a run that is good, and commit it"
            ]
        )
    if before.dataset != run.dataset:
        by_words = any(verdict.case.startswith(_KNOWN_BY_ITS_WORDS) for verdict in run.verdicts)
        if by_words and run.stored:
            again = (
                ": a stored run knows a case by its trace_id, and lines without one by their words, so that another "
                "answer is another case; give every line a trace_id that stays, or judge the file with `tracejudge "
                "score` and name its rows, which know the case_id"
            )
        elif by_words:
            again = (
                ": some lines have neither case_id nor trace_id, so that each is known by its words, and with another "
                "answer it is another case; give every line a case_id, judge it again, and write the baseline with "
                "--update-baseline from a run that is good"
            )
        raise CheckFailed(
            f"{what}: is of another dataset ({before.dataset[:12]}) than this run ({run.dataset[:12]}){again}"
        )
    if (theirs := before.judge_ids.get(judge)) != (ours := run.judge_ids.get(judge)):
        raise CheckFailed(
            f"{what}: judge {judge!r} was {theirs or 'not there'} and is {ours or 'not there'} now{again}"
        )
    return before


def decided_at_least(
    thresholds: Thresholds, seen: Estimate | None, cases: int, *, at_least: float
) -> tuple[Decided, str]:
    """Whether the seen value is not below a limit, and why one may say so."""
    if seen is None or cases < thresholds.min_cases:
        decided = {"pass": Decided.PASSED, "fail": Decided.FAILED}.get(thresholds.too_few, Decided.UNDECIDED)
        return decided, f"not enough evidence: {counted(cases, 'settled case')}, {thresholds.min_cases} needed"
    if seen.high < at_least:
        return Decided.FAILED, "worse: the whole interval is beyond the limit"
    if seen.low >= at_least:
        return Decided.PASSED, "good: the whole interval is within the limit"
    if thresholds.strict:
        return Decided.UNDECIDED, "not enough evidence: the interval includes the limit"
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
