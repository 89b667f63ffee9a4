"""How much less passes than before on the same cases, and how much of that the same code does by itself.

With one run before, the interval is Newcombe's for paired shares (`reports.paired`): it allows for other cases as well.

With k runs at constant code each case i has k_i verdicts, of which a share p_i passed. Then v_i = p_i (1 - p_i) k_i /
(k_i - 1) estimates, without bias, how much a single verdict on it varies, and the fall over n cases varies by

    var = (sum v_i (1 + 1 / k_i) + 1 / k) / n^2

where 1 / k stands for one flip more than was seen (none seen is no proof of none). The interval is the normal one. It
takes the flips of two cases for independent: an index that is rebuilt between runs moves many at once, so the runs
should differ in all that may differ between two nights.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist

from tracejudge.comparing.paired import Estimate, PairedCounts, paired_difference
from tracejudge.gate.baseline import Verdicts
from tracejudge.gate.verdicts import CaseKey, Verdict
from tracejudge.scores import Outcome

_SETTLED = (Outcome.PASSED, Outcome.FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fall:
    """`difference` is the share that passes now less that before, None without a common case; `noise` how far the same
    code goes either way, None where it was run once; `changed` the cases that passed before (always) and fail now."""

    difference: Estimate | None
    cases: int
    noise: float | None
    changed: tuple[CaseKey, ...]


def fall(before: Verdicts, judge: str, now: Iterable[Verdict], *, confidence: float) -> Fall:
    """The fall on those cases that are settled now and were before."""
    pairs = _pairs(before.outcomes.get(judge, {}), now)
    changed = tuple(sorted(key for key, share, _, passes in pairs if share == 1.0 and not passes))
    if before.runs == 1:
        counts = PairedCounts()
        for _, share, _, passes in pairs:
            counts = counts.adding(a_passed=share == 1.0, b_passed=passes)
        difference = paired_difference(counts, confidence=confidence)
        return Fall(difference=difference, cases=counts.n, noise=None, changed=changed)
    if not pairs:
        return Fall(difference=None, cases=0, noise=None, changed=())
    n = len(pairs)
    value = sum(passes - share for _, share, _, passes in pairs) / n
    # A case that was settled once among several runs says nothing of noise; the others do.
    flips = sum(share * (1.0 - share) * (k + 1) / (k - 1) for _, share, k, _ in pairs if k > 1)
    noise = NormalDist().inv_cdf(0.5 + confidence / 2.0) * sqrt(flips + 1.0 / before.runs) / n
    bounds = Estimate(value=value, low=max(-1.0, value - noise), high=min(1.0, value + noise))
    return Fall(difference=bounds, cases=n, noise=noise, changed=changed)


def _pairs(
    before: Mapping[CaseKey, tuple[Outcome | None, ...]], now: Iterable[Verdict]
) -> list[tuple[CaseKey, float, int, bool]]:
    """Case, share that passed before, out of how many, and whether it passes now."""
    found = []
    for verdict in now:
        then = [one is Outcome.PASSED for one in before.get(verdict.key, ()) if one in _SETTLED]
        if then and verdict.outcome in _SETTLED:
            found.append((verdict.key, sum(then) / len(then), len(then), verdict.outcome is Outcome.PASSED))
    return found
