"""Rates in force from an event time on, fixed before any trace of that time was seen.

An epoch is chosen by the trace's event time alone, so every process and every redelivery decides alike. Before the
first epoch the policy stands as written.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Final, NamedTuple

EPOCH_S: Final = 60
"""Epochs begin at whole minutes; one that would change nothing is not stored, and the one before goes on."""

LEAD_S: Final = 30.0
"""An epoch is stored at least so long before it begins. Who has read the epochs at an instant knows all of those that
begin up to so much later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GovernedRates:
    """The rates as one governor has set them.

    A trace's chance is max(own x scale, rule x rules, floor): `own` the judge's base rate or that of the trace's
    stratum, `rule` the largest rate of the rules that match, `floor` that of the stratum in `floors`; at most 1.
    """

    scale: float = 1.0
    rules: float = 1.0
    floors: Mapping[str, float] = field(default_factory=dict)

    def chance(self, own: float, rule: float, stratum: str) -> float:
        """The chance of a trace, in [0, 1]; 0 only where both rates are."""
        if own <= 0.0 and rule <= 0.0:
            return 0.0
        floor = self.floors.get(stratum, 0.0) if own > 0.0 else 0.0
        return min(1.0, max(own * self.scale, rule * self.rules, floor, SMALLEST))


SMALLEST: Final = 1e-6
"""One in a million: below, a single trace would stand for more traffic than any window holds."""


class VersionKey(NamedTuple):
    """A release of an app, somewhere."""

    environment: str
    app: str
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """The rates set by every governor, by its name, and since when young versions have been seen."""

    number: int
    starts_at: datetime
    rates: Mapping[str, GovernedRates] = field(default_factory=dict)
    first_seen: Mapping[VersionKey, datetime] = field(default_factory=dict)

    def version_age_h(self, key: VersionKey, at: datetime) -> float | None:
        """Hours from the version's first trace to `at`; None for one that is not young, or that nobody has seen."""
        first = self.first_seen.get(key)
        return None if first is None else max(0.0, (at - first).total_seconds() / 3600.0)

    def to_json(self) -> dict[str, Any]:
        """JSON values of the rates and versions; `epoch_from_json` reads them."""
        return {
            "governors": {
                name: {"scale": one.scale, "rules": one.rules, "floors": dict(one.floors)}
                for name, one in sorted(self.rates.items())
            },
            "versions": [[*key, first.isoformat()] for key, first in sorted(self.first_seen.items())],
        }


def epoch_number(starts_at: datetime) -> int:
    """The number of the epoch that begins then: whole minutes since 1970."""
    return int(starts_at.timestamp()) // EPOCH_S


def epoch_from_json(number: int, starts_at: datetime, values: Mapping[str, Any]) -> Epoch:
    """The epoch that `to_json` gave."""
    return Epoch(
        number=number,
        starts_at=starts_at,
        rates={
            name: GovernedRates(scale=one["scale"], rules=one["rules"], floors=dict(one["floors"]))
            for name, one in values.get("governors", {}).items()
        },
        first_seen={
            VersionKey(environment, app, version): datetime.fromisoformat(first).astimezone(timezone.utc)
            for environment, app, version, first in values.get("versions", ())
        },
    )


class EpochBook:
    """Epochs in order of time: which one is in force at an instant. Immutable."""

    def __init__(self, epochs: Iterable[Epoch] = ()) -> None:
        self._epochs = tuple(sorted(epochs, key=lambda epoch: epoch.starts_at))
        self._starts = [epoch.starts_at for epoch in self._epochs]

    def __len__(self) -> int:
        return len(self._epochs)

    def at(self, event_time: datetime) -> Epoch | None:
        """The epoch in force; None before the first one."""
        index = bisect_right(self._starts, event_time)
        return self._epochs[index - 1] if index else None
