"""What a sampling policy would bring on traffic that was stored: judged counts, intervals, and delays of alarms.

Everything is an expectation over the hash, computed from the chances p = head x tail of each trace, nothing is drawn:

    judged = sum of the tail's chances, sum of weights = sum of 1 / head, sum of their squares = sum of 1 / (head p)
    effective size n = judged / design effect, with design effect = judged x (sum of squares) / (sum of weights)^2
    interval: Wilson's at the rate stored for the slice, on a day's n

Governors are taken as they would be if they knew each hour beforehand: what a real one loses to its forecast is a few
per cent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from math import inf
from typing import Final, NamedTuple

from tracejudge.alerts import Rule
from tracejudge.alerts.detecting.delay import breakdown_traces, expected_traces
from tracejudge.alerts.rules.rule import DriftRule, MaxDropRule, MinimumRule
from tracejudge.sampling import GovernedRates, SamplingPolicy, sample
from tracejudge.sampling.fields import SIGNAL_PREFIX
from tracejudge.sampling.governor import AIM, MARGIN, Governor
from tracejudge.sampling.solve import Cell, solve
from tracejudge.signals import Signals, signals_of
from tracejudge.store import StoredTrace
from tracejudge.windows import wilson

ASSUMED_RATE: Final = 0.9
"""Where nothing was judged yet."""

DROPS: Final = (0.10, 0.05, 0.01)
"""Falls of the pass rate, as shares, whose delay is told; and a total failure."""


_SIGNALS: Final = Signals.__dataclass_fields__
_EXPIRING: Final = frozenset({"query", "response", "error", "reference"})
"""Fields that the store keeps no longer than the texts of a trace."""


class Watched(NamedTuple):
    """What the alarms of a judge would be held against: their level, and the evidence in hours at which one fires."""

    boundary: float
    alarm_hours: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay:
    """The mean time until a fall is detected; `hours` is infinite where it never is. `drop` None: total failure."""

    drop: float | None
    hours: float
    traces: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanLine:
    """The expected sample of one judge in one slice. Counts are per day."""

    judge_name: str
    slice: str
    traces_per_day: float
    judged_per_day: float
    effective_per_day: float
    rate: float
    rate_known: bool
    low: float
    high: float
    usd_per_day: float | None

    @property
    def half_width(self) -> float:
        """Half the width of a day's interval, as a share."""
        return (self.high - self.low) / 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What the store says of a judge: the share of chosen traces it had something to say about, the cost of one
    verdict, and its pass rate by slice ("" for all)."""

    applicable: float = 1.0
    usd: float | None = None
    rates: Mapping[str, float] | None = None


class _Chance(NamedTuple):
    slice: str
    hour: datetime
    cell: Cell
    head: float
    governors: tuple[str, ...]


def plan(
    traces: Iterable[StoredTrace],
    policy: SamplingPolicy,
    judge_name: str,
    *,
    days: float,
    scale: float = 1.0,
    known: Known | None = None,
    slice_of: Callable[[StoredTrace], str] = lambda _: "",
) -> list[PlanLine]:
    """One line for all traffic (slice "") and one for every slice, for traces of `days` days.

    `scale` says how many traces each given one stands for, where only a part of them was looked at.
    """
    known = known or Known()
    chances = [found for one in traces if (found := _chance(one, policy, judge_name, slice_of)) is not None]
    rates = _governed(chances, policy, judge_name, scale=scale, known=known, days=days)
    judged: defaultdict[str, float] = defaultdict(float)
    stands: defaultdict[str, float] = defaultdict(float)
    squares: defaultdict[str, float] = defaultdict(float)
    counts: defaultdict[str, float] = defaultdict(float)
    for one in chances:
        options = [rates[name, one.hour] for name in one.governors] or [GovernedRates()]
        tail = min(each.chance(one.cell.own, one.cell.rule, one.cell.stratum) for each in options)
        for name in {"", one.slice}:
            counts[name] += 1.0
            judged[name] += tail
            if tail > 0.0:
                stands[name] += 1.0 / one.head
                squares[name] += 1.0 / (one.head * one.head * tail)
    per_day = scale / days
    lines = []
    for name in sorted(counts):
        seen = judged[name] * known.applicable * per_day
        effect = judged[name] * squares[name] / stands[name] ** 2 if stands[name] else 1.0
        stored = (known.rates or {}).get(name)
        rate = ASSUMED_RATE if stored is None else stored
        n = seen / max(1.0, effect)
        low, high = wilson(rate, n) if n > 0.0 else (0.0, 1.0)
        lines.append(
            PlanLine(
                judge_name=judge_name,
                slice=name,
                traces_per_day=counts[name] * per_day,
                judged_per_day=seen,
                effective_per_day=n,
                rate=rate,
                rate_known=stored is not None,
                low=low,
                high=high,
                usd_per_day=None if known.usd is None else known.usd * seen,
            )
        )
    return lines


def watched(rule: Rule | None, *, level: float, series: int = 1, hours: float = 720.0) -> Watched:
    """Boundary and alarm level of a rule for a series at `level`, when `series` of them share the alarm budget of one
    false alarm in `hours`.

    Without a rule: those of a drift rule which has learned the level.
    """
    boundary = level
    if isinstance(rule, MinimumRule):
        boundary = rule.minimum
    elif isinstance(rule, MaxDropRule):
        boundary = level - rule.max_drop
    elif isinstance(rule, DriftRule):
        boundary = level - rule.min_drop / 2.0
    return Watched(min(max(boundary, 0.01), 0.999), hours * max(1, series))


def delays(line: PlanLine, against: Watched) -> list[Delay]:
    """The mean delays of falls by DROPS and of a total failure from the line's level, largest fall first."""
    per_hour = line.judged_per_day / 24.0
    effect = line.judged_per_day / line.effective_per_day if line.effective_per_day else 1.0
    found = []
    for drop in (None, *DROPS):
        pace = {"per_hour": per_hour, "alarm_hours": against.alarm_hours, "deff": max(1.0, effect)}
        if drop is None:
            n = breakdown_traces(against.boundary, **pace)
        else:
            n = expected_traces(line.rate - drop, against.boundary, **pace) if line.rate >= drop else inf
        found.append(Delay(drop=drop, hours=n / per_hour if per_hour > 0.0 else inf, traces=n))
    return found


def in_words(line: PlanLine, found: Sequence[Delay]) -> str:
    """For a person: what it costs, which falls it sees and how soon, which it does not see within a day."""
    unknown = "price unknown: set usd_per_million_input_tokens and usd_per_million_output_tokens of the judge"
    money = unknown if line.usd_per_day is None else f"${line.usd_per_day:.2f} a day"
    seen = [f"-{100 * one.drop:g} in about {_span(one.hours)}" for one in found if one.drop and one.hours <= 24.0]
    if seen:
        seen[0] = seen[0].replace(" in", " points in", 1)
    total = next(one for one in found if one.drop is None)
    if total.hours <= 24.0:
        seen.append(f"total failure in about {_span(total.hours)}")
    unseen = [f"-{100 * one.drop:g}" for one in found if one.drop and one.hours > 24.0]
    if total.hours > 24.0:
        unseen.append("total failure")
    parts = [money]
    if seen:
        parts.append("detects " + ", ".join(seen))
    if unseen:
        parts.append(f"cannot detect {', '.join(unseen)} within a day")
    return "; ".join(parts)


def _span(hours: float) -> str:
    """Two digits: "40 minutes", "2.3 hours"."""
    minutes = hours * 60.0
    if minutes < 1.0:
        return "a minute"
    return f"{minutes:.2g} minutes" if minutes < 99.0 else f"{hours:.2g} hours"


def _chance(
    stored: StoredTrace, policy: SamplingPolicy, judge_name: str, slice_of: Callable[[StoredTrace], str]
) -> _Chance | None:
    """What the policy has to say of a trace, before its governors; None when it is filtered."""
    trace = stored.trace
    signals = stored_signals(stored)
    decision = sample(trace, signals, policy, [judge_name])
    if decision.decisions[judge_name].filtered:
        return None
    own = policy.own_rate(judge_name, decision.stratum)
    tail = decision.decisions[judge_name].inclusion_probability / trace.head_probability
    return _Chance(
        slice=slice_of(stored),
        hour=trace.event_time.replace(minute=0, second=0, microsecond=0),
        cell=Cell(decision.stratum, own, min(1.0, tail) if tail > own * (1.0 + 1e-9) else 0.0),
        head=trace.head_probability,
        governors=tuple(one.name for one in policy.governors if one.governs(judge_name, trace.app)),
    )


def decidable(traces: Sequence[StoredTrace], policy: SamplingPolicy) -> list[StoredTrace]:
    """The traces for which the policy can still be evaluated: all but those whose texts are past their retention, where
    the policy looks at texts, or at signals that an older release did not store."""
    asked = policy.looks_at()
    if asked & _EXPIRING:
        return [stored for stored in traces if not stored.texts_expired]
    if any(name.startswith(SIGNAL_PREFIX) for name in asked):
        return [stored for stored in traces if not stored.texts_expired or _has_signals(stored)]
    return list(traces)


def with_signals(traces: Sequence[StoredTrace]) -> list[StoredTrace]:
    """The traces, each with all signals: where an older release stored others they are computed anew, all together."""
    lacking = [n for n, stored in enumerate(traces) if not _has_signals(stored)]
    found = list(traces)
    for n, signals in zip(lacking, signals_of([traces[n].trace for n in lacking]), strict=True):
        found[n] = replace(traces[n], signals=signals.as_dict())
    return found


def stored_signals(stored: StoredTrace) -> Signals:
    """The signals as they were stored with the trace, or computed anew where an older release stored others."""
    (stored,) = with_signals([stored])
    return Signals(**{name: stored.signals[name] for name in _SIGNALS})  # type: ignore[arg-type]  # JSON values


def _has_signals(stored: StoredTrace) -> bool:
    return _SIGNALS.keys() <= stored.signals.keys()


def _governed(
    chances: Collection[_Chance],
    policy: SamplingPolicy,
    judge_name: str,
    *,
    scale: float,
    known: Known,
    days: float,
) -> dict[tuple[str, datetime], GovernedRates]:
    """The rates of each governor in each hour, from that hour's own traffic."""
    found: dict[tuple[str, datetime], GovernedRates] = {}
    for governor in policy.governors:
        if governor.judge != judge_name:
            continue
        by_hour: defaultdict[datetime, defaultdict[Cell, float]] = defaultdict(lambda: defaultdict(float))
        for one in chances:
            if governor.name in one.governors:
                by_hour[one.hour][one.cell] += scale
        everything = sum(sum(cells.values()) for cells in by_hour.values())
        for hour, cells in by_hour.items():
            budget = _budget(governor, known, share=sum(cells.values()) / everything if everything else 0.0, days=days)
            if budget is None:
                found[governor.name, hour] = GovernedRates()
            else:
                found[governor.name, hour] = solve(cells, budget / known.applicable, policy.floors_per_h())
    return found


def _budget(governor: Governor, known: Known, *, share: float, days: float) -> float | None:
    """Judged traces of one hour that holds this share of all traffic; None where no price is known."""
    if governor.max_per_h is not None:
        return AIM * governor.max_per_h
    if governor.max_usd_per_day is not None:
        return AIM * governor.max_usd_per_day * days * share / known.usd if known.usd else None
    half = (governor.within_points or 0.0) / 100.0
    rate = min(max((known.rates or {}).get("", 0.5), 0.5), 0.98)
    return MARGIN * 1.96**2 * rate * (1.0 - rate) / half**2 * days * share
