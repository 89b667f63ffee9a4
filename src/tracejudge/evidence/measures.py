"""What else is known of the traces before and since: other judges, and the cheap signals of retrieval and answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, sqrt
from typing import Final, Literal

from tracejudge.comparing.paired import Estimate
from tracejudge.comparing.unpaired import difference
from tracejudge.evidence.slicing import sums_by
from tracejudge.store import JudgedRow
from tracejudge.windows import pass_rate

_Z: Final = 1.959963984540054

Unit = Literal["share", "number"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One number before and since, with the interval of its change: a share in [0, 1], or a plain number."""

    name: str
    unit: Unit
    before: float
    since: float
    change: Estimate
    traces: int  # of both periods

    @property
    def moved(self) -> bool:
        """Whether the interval of its change excludes zero."""
        return self.change.low > 0.0 or self.change.high < 0.0


_NUMBERS: Final[tuple[tuple[str, str], ...]] = (
    ("passages per trace", "node_count"),
    ("best retrieval score", "retrieval_score_max"),
    ("median retrieval score", "retrieval_score_median"),
    ("characters of passages", "context_chars"),
    ("characters of answer", "response_chars"),
    ("share of the answer's words in the passages", "lexical_overlap"),
)
_SHARES: Final[tuple[tuple[str, str], ...]] = (("reads like a refusal", "refusal"),)
_FEWEST: Final = 5  # rows of a period
_DIGITS: Final = 1e-9


def measures_of(
    before: Sequence[JudgedRow], since: Sequence[JudgedRow], criteria: Mapping[str, str]
) -> tuple[Measure, ...]:
    """Pass rates of the other judges of `criteria` (name to what it measures), then the signals. Those with fewer than
    five rows in a period are left out."""
    found = [
        _share(f"{name} passes ({criteria[name].replace('_', ' ')})", before, since, _verdict_of(name))
        for name in sorted(criteria)
    ]
    found += [_share(name, before, since, _flag(signal)) for name, signal in _SHARES]
    found += [_number(name, before, since, signal) for name, signal in _NUMBERS]
    return tuple(one for one in found if one is not None)


def _verdict_of(judge: str) -> Callable[[JudgedRow], bool | None]:
    return lambda row: row.others.get(judge)


def _flag(signal: str) -> Callable[[JudgedRow], bool | None]:
    def of(row: JudgedRow) -> bool | None:
        value = row.signals.get(signal)
        return value if isinstance(value, bool) else None

    return of


def _share(
    name: str,
    before: Sequence[JudgedRow],
    since: Sequence[JudgedRow],
    of: Callable[[JudgedRow], bool | None],
) -> Measure | None:
    rates = []
    for rows in (before, since):
        known = [row for row in rows if of(row) is not None]
        if len(known) < _FEWEST:
            return None
        weighted = [_as_verdict(row, passed=bool(of(row))) for row in known]
        rates.append(pass_rate(sums_by(weighted, None)))
    old, new = rates
    change = difference(new, old)
    if change is None or old is None or new is None or old.estimate is None or new.estimate is None:
        return None
    return Measure(
        name=name, unit="share", before=old.estimate, since=new.estimate, change=change, traces=old.judged + new.judged
    )


def _as_verdict(row: JudgedRow, *, passed: bool) -> JudgedRow:
    return JudgedRow(
        trace_id=row.trace_id,
        event_time=row.event_time,
        passed=passed,
        score=float(passed),
        weight=row.weight,
        content_hash=row.content_hash,
    )


def _number(name: str, before: Sequence[JudgedRow], since: Sequence[JudgedRow], signal: str) -> Measure | None:
    sides = []
    for rows in (before, since):
        known = [
            (row.weight, float(value))
            for row in rows
            if isinstance(value := row.signals.get(signal), int | float) and not isinstance(value, bool)
        ]
        if len(known) < _FEWEST:
            return None
        total = sum(weight for weight, _ in known)
        mean = sum(weight * value for weight, value in known) / total
        if not isfinite(mean):
            return None  # scores near the greatest floats, whose sums are none
        if max(abs(value - mean) for _, value in known) <= _DIGITS * abs(mean):
            sides.append((known[0][1], 0.0, len(known)))  # all the same, but for the last digits of the sums
            continue
        squares = sum((weight * (value - mean)) * (weight * (value - mean)) for weight, value in known)
        sides.append((mean, squares / total**2, len(known)))  # linearised
    (old, old_variance, n_old), (new, new_variance, n_new) = sides
    half = _Z * sqrt(old_variance + new_variance)
    if not isfinite(half + old + new):
        return None  # nor are their squares
    change = Estimate(value=new - old, low=new - old - half, high=new - old + half)
    return Measure(name=name, unit="number", before=old, since=new, change=change, traces=n_old + n_new)
