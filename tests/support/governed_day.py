"""Traffic by the minute under a governor, simulated: what came, what was chosen, which epochs the leader fixed."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Final

from tracejudge.sampling import Epoch, EpochBook, GovernedRates, Governor, epoch_number
from tracejudge.sampling.forecast import Observed, decide
from tracejudge.sampling.solve import Cell, alike

START: Final = datetime(2026, 1, 5, tzinfo=timezone.utc)
CELLS: Final = ((Cell("", 1.0, 0.0), 0.78), (Cell("gold", 0.5, 0.0), 0.2), (Cell("", 1.0, 1.0), 0.02))
_MINUTE: Final = timedelta(minutes=1)


@dataclass(slots=True, kw_only=True)
class Day:
    """A run of the simulation. `seen_until` says, for the minute that now begins, up to where the store has traces."""

    governor: Governor
    rng: random.Random
    floors_per_h: dict[str, float] = field(default_factory=dict)
    cells: Sequence[tuple[Cell, float]] = CELLS
    cost_usd: float | None = None
    leading: Callable[[int], bool] = lambda _minute: True
    seen_until: Callable[[int], int] = lambda minute: minute
    epochs: list[Epoch] = field(default_factory=list)
    minutes: dict[datetime, dict[Cell, float]] = field(default_factory=dict)
    kept: list[dict[Cell, int]] = field(default_factory=list)

    def run(self, arrivals: Sequence[int]) -> list[int]:
        """How many were chosen in each hour, when so many traces come in each minute."""
        hours = [0] * math.ceil(len(arrivals) / 60)
        for minute, count in enumerate(arrivals):
            at = START + minute * _MINUTE
            rates = self.rates(at)
            came = self._split(count)
            self.minutes[at] = came
            kept = {
                cell: sum(
                    self.rng.random() < rates.chance(cell.own, cell.rule, cell.stratum) for _ in range(int(number))
                )
                for cell, number in came.items()
            }
            self.kept.append(kept)
            hours[minute // 60] += sum(kept.values())
            if self.leading(minute):
                self._lead(minute)
        return hours

    def rates(self, at: datetime) -> GovernedRates:
        found = next((epoch for epoch in reversed(self.epochs) if epoch.starts_at <= at), None)
        return GovernedRates() if found is None else found.rates["g"]

    def _split(self, count: int) -> dict[Cell, float]:
        found = {cell: 0.0 for cell, _ in self.cells}
        drawn = self.rng.choices([cell for cell, _ in self.cells], [share for _, share in self.cells], k=count)
        for cell in drawn:
            found[cell] += 1.0
        return {cell: number for cell, number in found.items() if number}

    def _lead(self, minute: int) -> None:
        """At the end of a minute: what the store holds by then decides about the minute after the next."""
        last = self.seen_until(minute)
        look = 60
        seen = {
            at: cells
            for n in range(max(0, last - look), last + 1)
            if (cells := self.minutes.get(at := START + n * _MINUTE))
        }
        if not seen:
            return
        frontier = max(seen) + timedelta(seconds=59.9)
        starts_at = START + (minute + 2) * _MINUTE
        spent = 0.0
        if self.governor.period == "day":
            today, oldest = (int((at - START) / _MINUTE) for at in (starts_at.replace(hour=0, minute=0), min(seen)))
            spent = float(sum(sum(kept.values()) for kept in self.kept[today:oldest]))
        observed = Observed(minutes=seen, frontier=frontier, cost_usd=self.cost_usd, spent_today=spent)
        found = decide(
            self.governor,
            observed,
            starts_at=starts_at,
            epochs=EpochBook(self.epochs[-150:]),
            floors_per_h=self.floors_per_h,
        )
        if found is not None and not alike(found, self.epochs[-1].rates["g"] if self.epochs else None):
            self.epochs.append(Epoch(number=epoch_number(starts_at), starts_at=starts_at, rates={"g": found}))


def busy_minutes(rng: random.Random, hours: int, *, per_h: float, bursts: bool = True) -> list[int]:
    """Arrivals by the minute: a day's wave, and now and then five times as many for some minutes."""
    found, burst = [], 0
    for minute in range(hours * 60):
        level = per_h / 60.0 * (1.0 + 0.7 * math.sin(minute / 1440.0 * 2.0 * math.pi))
        if bursts and burst <= 0 and rng.random() < 1 / 600:
            burst = rng.randint(5, 40)
        if burst > 0:
            level, burst = level * 5.0, burst - 1
        found.append(_poisson(rng, level))
    return found


def _poisson(rng: random.Random, mean: float) -> int:
    if mean > 50.0:
        return max(0, round(rng.gauss(mean, math.sqrt(mean))))
    limit, product, count = math.exp(-mean), rng.random(), 0
    while product > limit:
        product *= rng.random()
        count += 1
    return count
