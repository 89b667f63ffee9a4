"""Two sets of verdicts on the same traces, side by side."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tracejudge.scores import Bucket, JudgeId, Outcome, Score, TraceKey
from tracejudge.store import Pair
from tracejudge.windows import PassRate, pass_rate


@dataclass(frozen=True, slots=True, kw_only=True)
class Flip:
    """A trace on which the two disagree, with what each said."""

    key: TraceKey
    a: Score
    b: Score


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Pass rates of A and B on the traces that both settled, and how often they say the same.

    Every pair counts once, unweighted: the question is how the two judges differ on these very traces, not how good the
    traffic was. `agreement` is the share of pairs with the same verdict, with its interval. `invalid_a` and `invalid_b`
    count pairs that one could not judge; they are in neither rate.
    """

    pairs: int
    both_settled: int
    judge_ids_a: tuple[JudgeId, ...]
    judge_ids_b: tuple[JudgeId, ...]
    heuristic_a: bool
    heuristic_b: bool
    rate_a: PassRate | None
    rate_b: PassRate | None
    agreement: PassRate | None
    passed_to_failed: int
    failed_to_passed: int
    invalid_a: int
    invalid_b: int
    flips: tuple[Flip, ...]  # the first of each direction, at most `kept_flips` in all


def compare(pairs: Iterable[Pair], *, kept_flips: int = 10) -> Comparison:
    """The comparison of all `pairs`, read once; memory grows with `kept_flips` only."""
    total = settled = passed_a = passed_b = same = down = up = invalid_a = invalid_b = 0
    ids_a: set[JudgeId] = set()
    ids_b: set[JudgeId] = set()
    heuristic_a = heuristic_b = False
    downs: list[Flip] = []
    ups: list[Flip] = []
    for pair in pairs:
        total += 1
        ids_a.add(pair.a.judge_id)
        ids_b.add(pair.b.judge_id)
        heuristic_a |= "heuristic" in pair.a.flags
        heuristic_b |= "heuristic" in pair.b.flags
        invalid_a += not pair.a.outcome.settled
        invalid_b += not pair.b.outcome.settled
        if not (pair.a.outcome.settled and pair.b.outcome.settled):
            continue
        settled += 1
        a_passed, b_passed = pair.a.outcome is Outcome.PASSED, pair.b.outcome is Outcome.PASSED
        passed_a += a_passed
        passed_b += b_passed
        same += a_passed == b_passed
        if a_passed and not b_passed:
            down += 1
            if len(downs) < kept_flips:
                downs.append(Flip(key=pair.key, a=pair.a, b=pair.b))
        elif b_passed and not a_passed:
            up += 1
            if len(ups) < kept_flips:
                ups.append(Flip(key=pair.key, a=pair.a, b=pair.b))
    half = max(kept_flips // 2, kept_flips - len(ups))
    shown = downs[:half]
    return Comparison(
        pairs=total,
        both_settled=settled,
        judge_ids_a=tuple(sorted(ids_a)),
        judge_ids_b=tuple(sorted(ids_b)),
        heuristic_a=heuristic_a,
        heuristic_b=heuristic_b,
        rate_a=_share(passed_a, settled),
        rate_b=_share(passed_b, settled),
        agreement=_share(same, settled),
        passed_to_failed=down,
        failed_to_passed=up,
        invalid_a=invalid_a,
        invalid_b=invalid_b,
        flips=(*shown, *ups[: kept_flips - len(shown)]),
    )


def _share(part: int, whole: int) -> PassRate | None:
    if whole == 0:
        return None
    counts = Bucket(
        n=whole, passed=part, sum_w=float(whole), sum_w2=float(whole), sum_wx=float(part), sum_w2x=float(part)
    )
    return pass_rate({"": counts})
