"""Two sets of verdicts on the same traces or the same questions, side by side, and beside what people said."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from tracejudge.comparing.accuracy import Accuracy, LabelCounts, accuracy
from tracejudge.comparing.paired import (
    Estimate,
    PairedCounts,
    cohens_kappa,
    mcnemar_p,
    paired_difference,
)
from tracejudge.counted import counted
from tracejudge.scores import Bucket, JudgeId, Outcome, Score, TraceKey
from tracejudge.store import Pair
from tracejudge.windows import PassRate, pass_rate

_CHANCE: Final = 0.05
"""Below this p of McNemar's test a difference may be told in words, as its interval is one of 95 %."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flip:
    """A trace on which the two disagree, with what each said."""

    key: TraceKey
    a: Score
    b: Score


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One side of a comparison. `invalid` counts pairs that this side could not judge, which enter no rate. `cost_usd`
    is None when the price of a call is not known; `latency_ms` is the mean over traces of the total time of their
    calls."""

    judge_ids: tuple[JudgeId, ...]
    heuristic: bool
    rate: PassRate | None
    invalid: int
    calls: int
    cost_usd: float | None
    latency_ms: float | None
    labelled: Accuracy | None  # against people; None when no label speaks of these traces


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Agreement measures of a table of pairs. `same` is the share with one verdict; `kappa` that beyond chance;
    `difference` how much more B passes; `mcnemar_p` how surprising the flips would be if neither were stricter."""

    counts: PairedCounts
    same: PassRate | None
    difference: Estimate | None
    mcnemar_p: float | None
    kappa: Estimate | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A and B on the traces that both judged.

    Every different answer counts once, unweighted: the question is how the two differ on these, not how good the
    traffic was, and copies of an answer are one observation. `settled` counts the traces that both settled, copies
    included. `correct` is the table of answers with a label, by whether each side said what people said.
    """

    pairs: int
    settled: int
    a: Side
    b: Side
    agreement: Agreement
    slices: Mapping[str, Agreement]
    correct: Agreement | None
    flips: tuple[Flip, ...]  # the first of each direction, at most `kept_flips` in all


@dataclass(slots=True)
class _Tally:
    """What is added up of one side while pairs go by."""

    criterion: Mapping[TraceKey, bool]
    labelled: set[int] = field(default_factory=set)  # contents whose label was counted
    ids: set[JudgeId] = field(default_factory=set)
    heuristic: bool = False
    passed: int = 0
    invalid: int = 0
    calls: int = 0
    cost_usd: float | None = 0.0
    latency_ms: float = 0.0
    called: int = 0
    labels: LabelCounts = field(default_factory=LabelCounts)

    def add(self, score: Score) -> None:
        self.ids.add(score.judge_id)
        self.heuristic |= "heuristic" in score.flags
        self.invalid += not score.outcome.settled
        usage = score.usage
        self.calls += usage.calls
        self.cost_usd = None if self.cost_usd is None or usage.cost_usd is None else self.cost_usd + usage.cost_usd
        if usage.calls:
            self.called += 1
            self.latency_ms += usage.latency_ms
        good = self.criterion.get(score.key)
        if good is not None and score.outcome.settled and _first(self.labelled, *_content(score)):
            self.labels = self.labels.adding(good=good, passed=score.outcome is Outcome.PASSED)

    def side(self, settled: int) -> Side:
        return Side(
            judge_ids=tuple(sorted(self.ids)),
            heuristic=self.heuristic,
            rate=_share(self.passed, settled),
            invalid=self.invalid,
            calls=self.calls,
            cost_usd=self.cost_usd,
            latency_ms=self.latency_ms / self.called if self.called else None,
            labelled=accuracy(self.labels) if self.labels.n else None,
        )


def compare(
    pairs: Iterable[Pair],
    *,
    kept_flips: int = 10,
    by: str | None = None,
    labels_a: Mapping[TraceKey, bool] | None = None,
    labels_b: Mapping[TraceKey, bool] | None = None,
) -> Comparison:
    """The comparison of all `pairs`, read once; memory grows by some tens of bytes for each different answer.

    Of copies (the same content on both sides, in one app) the first that both settled counts.
    `by` names a field of the score (version, category ...) to slice by. `labels_*` hold what people said about the
    criterion that A and B measure, True for good. The scores of a pair may be of two traces: two versions' answers to
    one question.
    """
    a, b = _Tally(labels_a or {}), _Tally(labels_b or {})
    total = settled = 0
    told: set[int] = set()
    counts, correct = PairedCounts(), PairedCounts()
    slices: dict[str, PairedCounts] = {}
    downs: list[Flip] = []
    ups: list[Flip] = []
    for pair in pairs:
        total += 1
        a.add(pair.a)
        b.add(pair.b)
        if not (pair.a.outcome.settled and pair.b.outcome.settled):
            continue
        settled += 1
        a_passed, b_passed = pair.a.outcome is Outcome.PASSED, pair.b.outcome is Outcome.PASSED
        content = (*_content(pair.a), *_content(pair.b))
        if by is not None and _first(told, "slice", name := str(getattr(pair.a, by)), *content):
            slices[name] = slices.get(name, PairedCounts()).adding(a_passed=a_passed, b_passed=b_passed)
        good_a, good_b = a.criterion.get(pair.a.key), b.criterion.get(pair.b.key)
        if good_a is not None and good_b is not None and _first(told, "label", *content):
            correct = correct.adding(a_passed=a_passed == good_a, b_passed=b_passed == good_b)
        if not _first(told, *content):
            continue
        a.passed += a_passed
        b.passed += b_passed
        counts = counts.adding(a_passed=a_passed, b_passed=b_passed)
        if a_passed != b_passed:
            kept = downs if a_passed else ups
            if len(kept) < kept_flips:
                kept.append(Flip(key=pair.key, a=pair.a, b=pair.b))
    half = max(kept_flips // 2, kept_flips - len(ups))
    shown = downs[:half]
    return Comparison(
        pairs=total,
        settled=settled,
        a=a.side(counts.n),
        b=b.side(counts.n),
        agreement=agreement_of(counts),
        slices={name: agreement_of(table) for name, table in sorted(slices.items())},
        correct=agreement_of(correct) if correct.n else None,
        flips=(*shown, *ups[: kept_flips - len(shown)]),
    )


def _content(score: Score) -> tuple[str, str, str]:
    """Equal for copies of an answer; a score without a hash is its trace's own."""
    return score.environment, score.app, score.content_hash or f"trace {score.trace_id}"


def _first(seen: set[int], *what: str) -> bool:
    """Whether this is seen for the first time, by a 64-bit hash: a tenth of what the texts would take."""
    before = len(seen)
    seen.add(hash(what))
    return len(seen) > before


def agreement_of(counts: PairedCounts) -> Agreement:
    """The agreement measures of a table of pairs."""
    return Agreement(
        counts=counts,
        same=_share(counts.same, counts.n),
        difference=paired_difference(counts),
        mcnemar_p=mcnemar_p(counts),
        kappa=cohens_kappa(counts),
    )


def in_words(comparison: Comparison, *, a: str = "A", b: str = "B", answers: bool = False) -> list[str]:
    """What the intervals allow one to say, a sentence each; never more than that.

    `answers`: A and B are two versions that answered the same questions, judged by one judge.
    """
    difference = comparison.agreement.difference
    if difference is None:
        return ["No comparison is possible: no trace was settled by both."]
    said = [
        f"The verdicts of {name} come from several judges of one name, {' and '.join(side.judge_ids)}, and are mixed: "
        "name one by its JudgeId."
        for name, side in ((a, comparison.a), (b, comparison.b))
        if len(side.judge_ids) > 1
    ]
    low, high, seen = 100 * difference.low, 100 * difference.high, comparison.agreement.counts.n
    if _shown(comparison.agreement):
        more, width = difference.low > 0, 100 * abs(difference.value)
        near, far = sorted((abs(low), abs(high)))
        by = f"by {width:.1f} points ({near:.1f} to {far:.1f})"
        said.append(
            f"{b}'s answers pass {'more' if more else 'less'} often than {a}'s on these questions, {by}."
            if answers
            else f"{b} passes {'more' if more else 'fewer'} of these answers than {a}, {by}."
        )
    else:
        asked = (
            f"{_these(seen, 'question')} not show whether {b}'s answers pass more or less often than {a}'s"
            if answers
            else f"{_these(seen, 'answer')} not show whether {b} passes more or fewer than {a}"
        )
        why = f"anything from {low:+.1f} to {high:+.1f} points is possible"
        if difference.low > 0 or difference.high < 0:
            why = f"{counted(comparison.agreement.counts.n - comparison.agreement.counts.same, 'flip')} may be chance"
        said.append(f"{asked}: {why}.")
    if answers:
        return said
    if comparison.correct is not None and (gain := comparison.correct.difference) is not None:
        labelled = counted(comparison.correct.counts.n, "labelled answer")
        if _shown(comparison.correct):
            better, worse = (b, a) if gain.low > 0 else (a, b)
            said.append(f"{better} agrees with human labels more often than {worse}, on {labelled}.")
        else:
            said.append(f"Human labels, on {labelled}, do not show which of the two agrees with them more often.")
    if len(comparison.a.judge_ids) == 1 and comparison.a.judge_ids == comparison.b.judge_ids:
        said.append(
            f"{a} and {b} are the same judge, {comparison.a.judge_ids[0]}: differences are its own noise, and cached "
            "verdicts show none."
        )
    return said


def _shown(agreement: Agreement) -> bool:
    """Whether the pairs show a difference: by its interval and by the exact test, which a few flips never pass."""
    difference, p = agreement.difference, agreement.mcnemar_p
    beyond = difference is not None and (difference.low > 0 or difference.high < 0)
    return beyond and p is not None and p < _CHANCE


def _these(number: int, noun: str) -> str:
    return f"This {noun} does" if number == 1 else f"These {number} {noun}s do"


def _share(part: int, whole: int) -> PassRate | None:
    if whole == 0:
        return None
    counts = Bucket(
        n=whole,
        passed=part,
        sum_w=float(whole),
        sum_w2=float(whole),
        sum_wx=float(part),
        sum_w2x=float(part),
        sum_ws=float(part),
    )
    return pass_rate({"": counts})
