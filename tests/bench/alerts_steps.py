"""Falls at a steady volume, and the figures that tell of alarms and delays."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

import numpy as np

from tests.bench.alerts_runs import Delays, Fresh, Mean, delays
from tests.bench.alerts_streams import Stream, fall
from tests.bench.frame import Figure, Run

RATES: Final = (0.90, 0.95, 0.98)
_SEED: Final = 20260517


def seeded(*seed: float) -> np.random.Generator:
    """The same numbers for the same `seed`, whatever else is measured."""
    return np.random.default_rng([_SEED, *(round(1000 * part) for part in seed)])


def steps(
    run: Run,
    per_hour: int,
    rate: float,
    drop: float,
    fresh: Fresh | Callable[[np.random.Generator], Fresh],
    *,
    hours: float = 168.0,
    quiet_h: float = 75.0,
    times: int = 1,
) -> Delays:
    """Delays after falls from `rate` by `drop`. `fresh` is one for all paths, or makes one for each."""
    # The error of a mean is about 0.7 of it over the root of their number: 2 % at 60 an hour, since the worst of nine
    # cells is what counts.
    paths = times * (run.pick(1200, 50) if per_hour < 200 else run.pick(200, 20))

    def cases() -> Iterator[tuple[Fresh, Stream, int]]:
        for k in range(paths):
            rng = seeded(2, per_hour, rate, drop, k)
            stream, begin = fall(rng, per_hour=per_hour, rate=rate, drop=drop, hours=hours, quiet_h=quiet_h)
            made = fresh(seeded(12, per_hour, rate, drop, k)) if isinstance(fresh, partial) else fresh
            yield made, stream, begin  # type: ignore[misc]

    return delays(cases())


def under(name: str, value: float, goal: float, *, note: str = "") -> Figure:
    """A value that may be `goal` at the most."""
    return Figure(name=name, value=value, goal=f"<= {goal:g}", reached=value <= goal, note=note)


def promised(name: str, found: Mean, goal: float, months: int) -> Figure:
    """False alarms in so many months, which may exceed their goal by two errors of a Poisson count."""
    allowed = goal + 2.0 * math.sqrt(goal / months)
    note = f"+- {found.error:.2g} over {months} months; allowed with two errors: {allowed:.2f}"
    return Figure(name=name, value=found.value, goal=f"<= {goal:g}", reached=found.value <= allowed, note=note)


def shown(name: str, value: float, found: Delays) -> Figure:
    """A delay without a goal."""
    return Figure(name=name, value=value, note=f"+- {found.mean.error:.2g}; missed in 7 days {found.missed:.1%}")
