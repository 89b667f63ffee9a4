"""The governors at work: once a minute the leader fixes the rates of the next epoch from what was stored.

What was decided in earlier minutes is remembered, so that a round reads the last minutes alone; a new leader reads the
running hour once.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from tracejudge.reports import read_rates
from tracejudge.sampling import (
    LEAD_S,
    Epoch,
    EpochBook,
    GovernedRates,
    Governor,
    SamplingPolicy,
    VersionKey,
    epoch_from_json,
    epoch_number,
)
from tracejudge.sampling.forecast import Observed, decide
from tracejudge.sampling.solve import Cell, alike
from tracejudge.store import DecidedRow, RateQuery, SamplingEpoch, Store

logger = logging.getLogger(__name__)

YOUNG: Final = timedelta(days=7)
"""So long epochs say how old a version is."""

_READ_AGAIN: Final = timedelta(minutes=10)
_MARGIN_S: Final = 5.0  # an insert is seen by readers a moment after it was stamped
_MINUTE: Final = timedelta(minutes=1)
_HOUR: Final = timedelta(hours=1)
_DAY: Final = timedelta(days=1)


@dataclass(slots=True)
class _Memory:
    """What one governor's traffic was, by minute, and what is asked for once an hour."""

    minutes: dict[datetime, list[DecidedRow]]
    hour: datetime | None = None
    by_hour: Mapping[datetime, float] | None = None
    cost_usd: float | None = None
    rate: float | None = None
    design_effect: float = 1.0
    spent_before: int = 0


class Governing:
    """Call `decide_next` about once a minute, as the leader alone."""

    def __init__(self, store: Store, policy: SamplingPolicy) -> None:
        self._store = store
        self._policy = policy
        self._memory: dict[str, _Memory] = {}
        self._versions: dict[VersionKey, datetime] | None = None
        self._frontier: datetime | None = None
        self._unpriced: set[str] = set()

    def decide_next(self) -> Epoch | None:
        """Stores the next epoch where it differs from the one in force; returns it, or None.

        Raises ServiceUnavailable when the store is away.
        """
        if not self._policy.has_epochs:
            return None
        now = self._store.now()
        starts_at = _next_minute(now + timedelta(seconds=LEAD_S + 2 * _MARGIN_S))
        frontier = self._store.sampling_counts.frontier(now)
        if frontier is None or frontier == self._frontier:
            return None  # nothing is known that was not known before: a dead consumer is no quiet hour
        self._frontier = frontier
        read = self._store.sampling_epochs.in_force(now - _DAY)
        epochs = EpochBook(epoch_from_json(one.epoch, one.starts_at, one.rates) for one in read.epochs)
        before = epochs.at(starts_at)
        rates = {name: one for name, one in (before.rates if before else {}).items() if name in self._names()}
        changed = before is not None and rates.keys() != before.rates.keys()
        for governor in self._policy.governors:
            found = self._decide(governor, frontier, starts_at, epochs)
            if found is not None and not alike(found, rates.get(governor.name)):
                rates[governor.name], changed = found, True
        first_seen = self._young(now, frontier, before)
        if not changed and first_seen == (before.first_seen if before else {}):
            return None
        epoch = Epoch(number=epoch_number(starts_at), starts_at=starts_at, rates=rates, first_seen=first_seen)
        row = SamplingEpoch(epoch=epoch.number, starts_at=starts_at, rates=epoch.to_json(), decided_at=now)
        if not self._store.sampling_epochs.insert_ahead(row, lead_s=LEAD_S + _MARGIN_S):
            logger.info("sampling: epoch %d came too late or stands already; the rates stay", epoch.number)
            return None
        return epoch

    def _names(self) -> frozenset[str]:
        return frozenset(governor.name for governor in self._policy.governors)

    def _decide(
        self, governor: Governor, frontier: datetime, starts_at: datetime, epochs: EpochBook
    ) -> GovernedRates | None:
        memory = self._memory.setdefault(governor.name, _Memory({}))
        self._read_minutes(governor, memory, frontier, starts_at)
        self._read_hourly(governor, memory, starts_at)
        if governor.max_usd_per_day is not None and not memory.cost_usd:
            if governor.name not in self._unpriced:
                self._unpriced.add(governor.name)
                logger.warning(
                    "governor %r: no verdict of judge %r with a known price yet; its rates stay as written until then",
                    governor.name,
                    governor.judge,
                )
            return None
        rows = [row for minute in memory.minutes.values() for row in minute]
        scored, nothing = sum(row.scored for row in rows), sum(row.not_applicable for row in rows)
        running = starts_at.replace(minute=0, second=0, microsecond=0)
        observed = Observed(
            minutes={
                minute: _cells(decided, governor, self._policy, epochs) for minute, decided in memory.minutes.items()
            },
            frontier=frontier,
            applicable=scored / (scored + nothing) if scored + nothing >= 50 else 1.0,
            spent_today=memory.spent_before if running.hour else 0.0,
            by_hour=memory.by_hour or {},
            cost_usd=memory.cost_usd,
            rate=memory.rate,
            design_effect=memory.design_effect,
        )
        floors = self._policy.floors_per_h()
        return decide(governor, observed, starts_at=starts_at, epochs=epochs, floors_per_h=floors)

    def _read_minutes(self, governor: Governor, memory: _Memory, frontier: datetime, starts_at: datetime) -> None:
        # An hour back from the running one, and not from the frontier: what is older was counted when the hour began.
        since = oldest = starts_at.replace(minute=0, second=0, microsecond=0) - _HOUR
        if memory.minutes:
            since = max(oldest, min(max(memory.minutes), frontier) - _READ_AGAIN)
        since = since.replace(second=0, microsecond=0)
        memory.minutes = {minute: rows for minute, rows in memory.minutes.items() if oldest <= minute < since}
        found = self._store.sampling_counts.decided(governor.judge, since, frontier + _MINUTE, app=governor.app)
        for row in found:
            memory.minutes.setdefault(row.minute, []).append(row)

    def _read_hourly(self, governor: Governor, memory: _Memory, starts_at: datetime) -> None:
        hour = starts_at.replace(minute=0, second=0, microsecond=0)
        if governor.period == "hour" or memory.hour == hour:
            return
        memory.hour = hour
        midnight = hour.replace(hour=0)
        counts = self._store.sampling_counts
        memory.by_hour = {at: float(n) for at, n in counts.by_hour(hour - _DAY, hour, app=governor.app).items()}
        memory.spent_before = counts.judged(governor.judge, midnight, max(midnight, hour - _HOUR), app=governor.app)
        week = RateQuery(
            start=hour - timedelta(days=7), end=hour, environment=None, app=governor.app, judge=governor.judge
        )
        if governor.max_usd_per_day is not None:
            effort = self._store.traffic.effort(week)
            verdicts = sum(row.verdicts for row in effort)
            usd = sum(row.total_usd for row in effort)
            memory.cost_usd = usd / verdicts if verdicts and usd > 0.0 else None
        if governor.within_points is not None:
            lines = [line.rate for line in read_rates(self._store, week) if line.rate and line.rate.judged >= 50]
            best = max(lines, key=lambda rate: rate.judged, default=None)
            if best is not None and best.estimate is not None:
                memory.rate = best.estimate
                memory.design_effect = best.judged / max(1.0, best.n_eff)

    def _young(self, now: datetime, frontier: datetime, before: Epoch | None) -> dict[VersionKey, datetime]:
        """The versions seen first within the last days. What an epoch has said of a version is not changed any more."""
        if not self._policy.looks_at_version_age:
            return {}
        since = now - 2 * YOUNG if self._versions is None else frontier - 2 * _HOUR
        found = {
            VersionKey(*row[:3]): row.at for row in self._store.sampling_counts.versions(since, frontier + _MINUTE)
        }
        known = dict(before.first_seen) if before else {}
        self._versions = {**found, **(self._versions or {}), **known}
        return {key: at for key, at in self._versions.items() if now - at <= YOUNG}


def _cells(
    rows: Iterable[DecidedRow], governor: Governor, policy: SamplingPolicy, epochs: EpochBook
) -> dict[Cell, float]:
    """How many traces of each kind a minute brought.

    Traces that are still undecided (their judge has not answered) are spread over the kinds of the decided ones.
    """
    cells: defaultdict[Cell, float] = defaultdict(float)
    decided = waiting = 0
    for row in rows:
        if row.tail is None:
            waiting += row.traces
            continue
        decided += row.traces
        cells[_cell(row, governor, policy, epochs)] += row.traces
    if waiting and not decided:
        return {Cell("", policy.base_rate(governor.judge), 0.0): float(waiting)}
    more = 1.0 + waiting / decided if decided else 1.0
    return {cell: count * more for cell, count in cells.items()}


def _cell(row: DecidedRow, governor: Governor, policy: SamplingPolicy, epochs: EpochBook) -> Cell:
    """The kind of traces that had this chance under the rates of their minute."""
    tail = row.tail or 0.0
    if tail <= 0.0:
        return Cell(row.stratum, 0.0, 0.0)
    own = policy.own_rate(governor.judge, row.stratum)
    epoch = epochs.at(row.minute)
    rates = (epoch.rates.get(governor.name) if epoch else None) or GovernedRates()
    if tail <= rates.chance(own, 0.0, row.stratum) * (1.0 + 1e-6):
        return Cell(row.stratum, own, 0.0)
    return Cell(row.stratum, own, min(1.0, tail / rates.rules))


def _next_minute(at: datetime) -> datetime:
    whole = at.replace(second=0, microsecond=0)
    return whole if whole == at else whole + _MINUTE
