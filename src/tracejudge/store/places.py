"""Traces by their ids and the event times under which their rows stand, as conditions on any table that has these."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from tracejudge.scores import TraceKey
from tracejudge.store.table import Where
from tracejudge.store.values import milliseconds

AT_ONCE: Final = 500
"""Traces of one statement: a mutation rewrites every part it touches, so few large ones are far cheaper than many."""

_INSTANT: Final = "fromUnixTimestamp64Milli({}, 'UTC')"


class Place(NamedTuple):
    """A trace and the event time under which its rows stand."""

    key: TraceKey
    event_time: datetime


def scope_of(environment: str | None, app: str | None) -> Where:
    """One environment and app, or any where None."""
    return Where().equal("environment", environment).equal("app", app)


def at_places(places: Collection[Place], *, timed: bool) -> Where:
    """The places as conditions that find them through the primary key. All of one environment and app."""
    first = next(iter(places)).key
    where = scope_of(first.environment, first.app)
    if timed:
        # As numbers: a mutation writes a bound DateTime64 out as seconds and reads them again as a date where they have
        # fewer than nine digits. It then fails, or deletes nothing, of times before 1973-03.
        instants = sorted({milliseconds("event_time", place.event_time) for place in places})
        where.add(
            f"event_time >= {_INSTANT.format('{first:Int64}')} AND event_time <= {_INSTANT.format('{last:Int64}')} "
            f"AND event_time IN arrayMap(ms -> {_INSTANT.format('ms')}, {{instants:Array(Int64)}})",
            first=instants[0],
            last=instants[-1],
            instants=instants,
        )
    ids = sorted({place.key.trace_id for place in places})
    return where.add("trace_id IN {trace_ids:Array(String)}", trace_ids=ids)


def chunks(places: Sequence[Place]) -> Iterator[list[Place]]:
    """At most `AT_ONCE` places of one environment and app each."""
    apart: dict[tuple[str, str], list[Place]] = {}
    for place in places:
        apart.setdefault((place.key.environment, place.key.app), []).append(place)
    for group in apart.values():
        for first in range(0, len(group), AT_ONCE):
            yield group[first : first + AT_ONCE]
