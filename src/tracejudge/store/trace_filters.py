"""Filters of traces as SQL: conditions on the columns of `traces`, every value bound by the server."""

from __future__ import annotations

from typing import Final

from tracejudge.scores import LIVE_RUN
from tracejudge.store.queries import TraceFilter
from tracejudge.store.rates import trace_field
from tracejudge.store.score_rows import judge_condition
from tracejudge.store.table import Where
from tracejudge.store.values import bound_instant

DRAWN: Final = "sipHash64({draw_seed:String}, environment, app, trace_id)"
"""The hash by which a Draw chooses among stored traces."""


def judged_conditions(where: TraceFilter, *, outcome: str | None, judge: str | None) -> Where:
    """The filter, and that there is a live verdict by `judge` (any, when None) with `outcome`, where one is named."""
    conditions = trace_conditions(where)
    if outcome is not None or judge is not None:
        judged = Where().equal("run_id", LIVE_RUN).equal("outcome", outcome)
        judge_condition(judged, judge)
        # By time alone: the other fields of the filter are the outer query's to check.
        time = trace_conditions(TraceFilter(start=where.start, end=where.end))
        for condition in time.parts():
            judged.add(condition)
        conditions.add(
            "(environment, app, event_time, trace_id) IN "
            f"(SELECT environment, app, event_time, trace_id FROM scores FINAL {judged})",
            **judged.parameters,
        )
    return conditions


def trace_conditions(where: TraceFilter) -> Where:
    """The filter as SQL on the columns of `traces`."""
    conditions = Where()
    if where.start is not None:
        conditions.add("event_time >= {start:DateTime64(6, 'UTC')}", start=bound_instant("start", where.start))
    if where.end is not None:
        conditions.add("event_time < {end:DateTime64(6, 'UTC')}", end=bound_instant("end", where.end))
    for column in ("environment", "app", "version", "category", "user_id", "session_id", "status"):
        conditions.equal(column, getattr(where, column))
    if where.trace_ids:
        conditions.add("trace_id IN {trace_ids:Array(String)}", trace_ids=list(where.trace_ids))
    if where.contains is not None:
        conditions.add(
            "(positionCaseInsensitiveUTF8(query, {contains:String}) > 0"
            " OR positionCaseInsensitiveUTF8(ifNull(response, ''), {contains:String}) > 0)",
            contains=where.contains,
        )
    for number, (name, value) in enumerate(where.also):
        conditions.add(f"{trace_field(name, conditions)} = {{also_{number}:String}}", **{f"also_{number}": value})
    if where.draw is not None:
        line = {"draw_seed": str(where.draw.seed), "draw_line": where.draw.at_most}
        conditions.add(f"{DRAWN} <= {{draw_line:UInt64}}", **line)
    return conditions
