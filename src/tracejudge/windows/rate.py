"""The weighted pass rate of a window with its interval."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tracejudge.scores import Bucket


@dataclass(frozen=True, slots=True, kw_only=True)
class PassRate:
    """A pass rate with its interval. `estimate`, `low`, `high` and `plain` are None when no score is settled.

    `judged` = `passed` + `failed` settled scores; `invalid` ones are counted beside them and never averaged. `plain` is
    the unweighted share, for a look beside the weighted one. `represents` is the estimated number of traces that the
    judged ones stand for (the sum of their weights).
    """

    estimate: float | None
    low: float | None
    high: float | None
    n_eff: float
    judged: int
    passed: int
    failed: int
    invalid: int
    plain: float | None
    represents: float


def pass_rate(
    bucket_by_stratum: Mapping[str, Bucket],
    *,
    confidence: float = 0.95,
    traces_by_stratum: Mapping[str, float] | None = None,
) -> PassRate | None:
    """The pass rate of all strata together; None when there is no score at all, settled or invalid."""
    raise NotImplementedError


def enough(rate: PassRate | None, minimum_effective: float) -> bool:
    """True when there are at least `minimum_effective` effective samples; without them one says "not enough data"."""
    return rate is not None and rate.estimate is not None and rate.n_eff >= minimum_effective
