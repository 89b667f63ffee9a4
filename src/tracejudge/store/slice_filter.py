"""Rows of a slice as conditions: by what scores say themselves, and by what only their traces say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tracejudge.store.queries import TRACE_FIELDS, is_trace_field
from tracejudge.store.rates import trace_field
from tracejudge.store.table import Where

_OF_SCORE: Final = ("version", "category", "stratum")


def slice_of(where: Where, group: Mapping[str, str], *, since: str) -> None:
    """Adds that rows with an event time and a trace id have these values, to conditions that bind `environment` and
    `app`. `since` bounds the event times, as SQL with its parameters bound by the caller.

    Raises ValueError for a field that neither has.
    """
    of_trace = []
    for number, (name, value) in enumerate(group.items()):
        bound = f"slice_{number}"
        if name in _OF_SCORE:
            where.add(f"{name} = {{{bound}:String}}", **{bound: value})
        elif is_trace_field(name):
            # As long as what tells slices apart (alerts.slices.LONGEST_VALUE): longer values are cut there.
            of_trace.append(f"substringUTF8({trace_field(name, where)}, 1, 120) = {{{bound}:String}}")
            where.parameters[bound] = value
        else:
            raise ValueError(f"group: {name!r} is not one of {', '.join((*_OF_SCORE, *TRACE_FIELDS))} or tags.NAME")
    if of_trace:
        where.add(
            "(event_time, trace_id) IN (SELECT event_time, trace_id FROM traces FINAL WHERE environment = "
            f"{{environment:String}} AND app = {{app:String}} AND {since} AND {' AND '.join(of_trace)})"
        )
