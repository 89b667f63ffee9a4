"""How often a judge contradicts itself, and how many rows that makes a difference cost.

Self-agreement: the same trace judged k times; P(two of its verdicts agree), averaged over traces. With a of k settled
verdicts passing: (a (a - 1) + (k - a) (k - a - 1)) / (k (k - 1)).

Rows for a difference d of two pass rates, at 5 % two-sided and 80 % power (z = 1.960 + 0.842):

- two samples of different questions: n = 2 p (1 - p) (z / d)^2 each (Fleiss, Statistical Methods for Rates and
  Proportions, without continuity correction)
- the same questions under both: n = (1.960 sqrt(psi) + 0.842 sqrt(psi - d^2))^2 / d^2, with psi the share of questions
  on which the two verdicts differ (Connor 1987, for McNemar's test). Noise alone makes two verdicts on an unchanged
  answer differ in (1 - self-agreement) of the questions, so psi is at least that, and at least d.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tracejudge.scores import Outcome, Score, TraceKey
from tracejudge.windows import wilson

Z_ALPHA: Final = 1.959964
Z_POWER: Final = 0.841621


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """The noise of a judge, measured by repeated verdicts. Shares are in [0, 1]; None where there is nothing to say."""

    traces: int  # with at least two settled verdicts
    repeats: int
    verdicts: int
    invalid: int
    pass_rate: float | None
    agreement: float | None  # P(two verdicts on one trace agree)
    unanimous: int  # traces on which all agree
    unanimous_low: float | None  # Wilson, 95 %
    unanimous_high: float | None
    score_sd: float | None  # typical standard deviation of a trace's scores, for judges with a scale

    @property
    def disagreement(self) -> float | None:
        return None if self.agreement is None else 1.0 - self.agreement


def measure_noise(scores: Sequence[Score], *, repeats: int) -> Noise:
    """The noise in `scores`, which hold up to `repeats` verdicts of one judge for each trace."""
    by_trace: dict[TraceKey, list[Score]] = defaultdict(list)
    for score in scores:
        if score.outcome.settled:
            by_trace[score.key].append(score)
    several = [found for found in by_trace.values() if len(found) > 1]
    agreements, variances, unanimous = [], [], 0
    for found in several:
        k, passed = len(found), sum(score.outcome is Outcome.PASSED for score in found)
        failed = k - passed
        agreements.append((passed * (passed - 1) + failed * (failed - 1)) / (k * (k - 1)))
        unanimous += passed in (0, k)
        values = [score.score for score in found if score.score is not None]
        mean = sum(values) / len(values)
        variances.append(sum((value - mean) ** 2 for value in values) / (len(values) - 1))
    settled = [score for score in scores if score.outcome.settled]
    interval = wilson(unanimous / len(several), len(several)) if several else None
    return Noise(
        traces=len(several),
        repeats=repeats,
        verdicts=len(settled),
        invalid=len(scores) - len(settled),
        pass_rate=sum(score.outcome is Outcome.PASSED for score in settled) / len(settled) if settled else None,
        agreement=sum(agreements) / len(agreements) if agreements else None,
        unanimous=unanimous,
        unanimous_low=interval[0] if interval is not None else None,
        unanimous_high=interval[1] if interval is not None else None,
        score_sd=math.sqrt(sum(variances) / len(variances)) if variances else None,
    )


def rows_unpaired(difference: float, *, pass_rate: float) -> int:
    """Rows of each of two samples that show a difference of `difference` at this pass rate."""
    _check(difference)
    # A rate of 0 or 1 has no variance and a neighbour that does: the rate half-way to the other one is taken.
    rate = min(max(pass_rate, difference / 2.0), 1.0 - difference / 2.0)
    return math.ceil(2.0 * rate * (1.0 - rate) * ((Z_ALPHA + Z_POWER) / difference) ** 2)


def rows_paired(difference: float, *, discordant: float) -> int:
    """Questions judged under both that show a difference of `difference`, where `discordant` of the verdicts differ."""
    _check(difference)
    psi = min(1.0, max(discordant, difference))
    root = Z_ALPHA * math.sqrt(psi) + Z_POWER * math.sqrt(psi - difference**2)
    return math.ceil((root / difference) ** 2)


def _check(difference: float) -> None:
    if not 0.0 < difference < 1.0:
        raise ValueError(f"difference: {difference!r} is not in (0, 1)")
