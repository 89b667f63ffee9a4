"""Retrieval or generation: did worse passages reach the generator, or did it make less of passages as good as before?

The verdicts that fell are split by what is known of the passages of the same traces (comparing/decomposition.py): by
the verdict of a judge of context relevancy where one has looked at them, else by thirds of the best retrieval score.
What moved between these groups (more irrelevant passages, lower scores) is the retrieval's part of the change; what
changed within them (passages as good as before, answers worse) is the generation's. Both parts have intervals, at 97.5
% each.

    retrieval    only the first part lies below zero, or it makes up four fifths of the change
    generation   only the second
    both         both do
    neither      the mix of traffic moved to slices that were worse all along, by more than half of the change
    cannot tell  neither part does, or too few traces have both verdicts, or nothing is known of the passages

No direction of retrieval scores is assumed: distances do as well as similarities. They are a weaker witness, since an
index may return the wrong passages with the old scores; the words say by what was told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from tracejudge.comparing.decomposition import decompose
from tracejudge.comparing.paired import Estimate
from tracejudge.evidence.measures import Measure, measures_of
from tracejudge.evidence.slicing import bucket_of, sums_by
from tracejudge.store import JudgedRow
from tracejudge.windows import pass_rate

Verdict = Literal["retrieval", "generation", "both", "neither", "cannot_tell"]

OF_PASSAGES: Final = frozenset({"context_relevancy", "hit_rate", "mrr"})
"""Criteria that look at the passages alone."""

_NOT_OF_ANSWERS: Final = frozenset({"latency", "length", "json_schema", "preference"})
_CONFIDENCE: Final = 0.975
_MOSTLY: Final = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Whether retrieval or generation failed, and the numbers that say so. Parts are of the change of the rate,
    negative for a fall."""

    verdict: Verdict
    says: str
    by: str  # a judge's name, "retrieval scores", or ""
    retrieval: Estimate | None = None
    generation: Estimate | None = None
    traces: int = 0  # with both verdicts, of both periods
    measures: tuple[Measure, ...] = ()


def read(
    before: Sequence[JudgedRow],
    since: Sequence[JudgedRow],
    *,
    criterion: str,
    criteria: Mapping[str, str],
    mix: str | None = None,
    min_effective: float = 20.0,
) -> Reading:
    """The joint reading of rows of a judge that measures `criterion`; `criteria` says what the other judges measure.

    `mix` names the attribute whose mix of traffic explains the change, where one does.
    """
    relevancy = next((name for name, what in sorted(criteria.items()) if what == "context_relevancy"), None)
    measures = measures_of(before, since, criteria)
    if criterion in OF_PASSAGES:
        return Reading(
            verdict="retrieval",
            says="retrieval: this judge looks only at the passages, and they got worse",
            by="",
            measures=measures,
        )
    if criterion in _NOT_OF_ANSWERS:
        return Reading(
            verdict="cannot_tell",
            says=f"cannot tell: {criterion} does not depend on the passages",
            by="",
            measures=measures,
        )
    if mix is not None:
        return Reading(
            verdict="neither",
            says=f"neither: traffic shifted between values of {mix}, to slices that were already worse",
            by="",
            measures=measures,
        )
    tried = []
    for by, group in _witnesses(before, relevancy):
        found = _parts(before, since, group, min_effective=min_effective)
        if found is not None:
            retrieval, generation, traces = found
            verdict = _verdict(retrieval, generation)
            return Reading(
                verdict=verdict,
                says=_says(verdict, by, retrieval, generation, faithfulness=criterion == "faithfulness"),
                by=by,
                retrieval=retrieval,
                generation=generation,
                traces=traces,
                measures=measures,
            )
        tried.append(by)
    if tried:
        why = f"too few traces with a verdict and {' or '.join(tried)}"
    else:
        scored = any(best_score(row) is not None for row in before)
        scores = "do not differ in their best retrieval score" if scored else "have no retrieval scores"
        why = f"no context relevancy judge scored these traces, and their passages {scores}"
    return Reading(verdict="cannot_tell", says=f"cannot tell: {why}", by="", measures=measures)


_Group = Callable[[JudgedRow], str | None]


def _witnesses(before: Sequence[JudgedRow], relevancy: str | None) -> list[tuple[str, _Group]]:
    """What may be known of passages, the best first, each with the group it puts a row in."""
    found: list[tuple[str, _Group]] = []
    if relevancy is not None and any(relevancy in row.others for row in before):
        found.append((relevancy, lambda row: _word(row.others.get(relevancy))))
    scores = sorted(score for row in before if (score := best_score(row)) is not None)
    if len(scores) >= 3 and scores[0] < scores[-1]:
        low, high = scores[len(scores) // 3], scores[2 * len(scores) // 3]
        found.append(("retrieval scores", lambda row: _third(best_score(row), low, high)))
    return found


def best_score(row: JudgedRow) -> float | None:
    """The highest retrieval score of a trace's passages; None without any."""
    score = row.signals.get("retrieval_score_max")
    return float(score) if isinstance(score, float | int) and not isinstance(score, bool) else None


def _word(relevant: bool | None) -> str | None:
    return None if relevant is None else ("relevant" if relevant else "irrelevant")


def _third(score: float | None, low: float, high: float) -> str | None:
    if score is None:
        return None
    return "lowest" if score < low else ("middle" if score < high else "highest")


def _parts(
    before: Sequence[JudgedRow], since: Sequence[JudgedRow], group: _Group, *, min_effective: float
) -> tuple[Estimate, Estimate, int] | None:
    sides = []
    for rows in (before, since):
        known = [(row, name) for row in rows if (name := group(row)) is not None]
        held = [row for row, _ in known]
        rate = pass_rate({"": bucket_of(held)})
        if rate is None or rate.n_eff < min_effective:
            return None
        sides.append((sums_by(held, {place: name for place, (_, name) in enumerate(known)}), len(held)))
    parts = decompose(sides[0][0], sides[1][0], confidence=_CONFIDENCE)
    return None if parts is None else (parts.between, parts.within, sides[0][1] + sides[1][1])


def _verdict(retrieval: Estimate, generation: Estimate) -> Verdict:
    change = retrieval.value + generation.value
    worse_passages, worse_answers = retrieval.high < 0.0, generation.high < 0.0
    if worse_passages and worse_answers and change < 0.0:
        if retrieval.value <= _MOSTLY * change:
            return "retrieval"
        return "generation" if generation.value <= _MOSTLY * change else "both"
    if worse_passages:
        return "retrieval"
    return "generation" if worse_answers else "cannot_tell"


def _says(
    verdict: Verdict,
    by: str,
    retrieval: Estimate,
    generation: Estimate,
    *,
    faithfulness: bool,
) -> str:
    answers = "less faithful" if faithfulness else "worse"
    parts = f"passages account for {_points(retrieval)}, answers for {_points(generation)}, measured by {by}"
    if verdict == "retrieval":
        return f"retrieval: the passages got less relevant ({parts})"
    if verdict == "generation":
        return f"generation: passages as relevant as before, answers {answers} ({parts})"
    if verdict == "both":
        return f"both: the passages got less relevant, and answers on equal passages {answers} ({parts})"
    return f"cannot tell: neither part is clear of chance ({parts})"


def _points(part: Estimate) -> str:
    return f"{100 * part.value:+.1f} points ({100 * part.low:+.1f} to {100 * part.high:+.1f})"
