"""What hard caps cut off, by window and slice: it is not random, so such a window claims nothing about it."""

from __future__ import annotations

from typing import Final

from tracejudge.store.connection import Connection
from tracejudge.store.queries import RateQuery
from tracejudge.store.rates import pane, pane_start, window, with_trace_fields
from tracejudge.store.rows import CutOff

_KEY: Final = "environment, app, judge_name, event_time, trace_id, judge_id, run_id"


def cut_off(connection: Connection, query: RateQuery) -> list[CutOff]:
    """Traces that are over budget and were not judged after all, by judge name, pane and slice of the query.

    A slice by the model that answered is left out, for nobody answered.
    """
    if query.end <= query.start:
        return []
    where = window(query).equal("run_id", query.run_id)
    fields = [name for name in query.group_by if name != "model_reported"]
    # Without FINAL the skip index finds the few rows that were ever over budget, and only their scores are looked up;
    # FINAL then says which still are.
    candidates = f"({_KEY}) IN (SELECT {_KEY} FROM ledger {where} AND decision = 'over_budget')"
    source, columns = with_trace_fields(
        query,
        where,
        f"ledger FINAL {where} AND decision = 'over_budget' AND {candidates} "
        f"AND ({_KEY}) NOT IN (SELECT {_KEY} FROM scores {where} AND {candidates})",
    )
    grouped = "".join(f", {columns.get(name, name)}" for name in fields)
    rows = connection.query(
        f"SELECT {pane(query, 'toUnixTimestamp64Milli(event_time)')} AS pane, judge_name, "
        f"uniqExact(environment, app, trace_id){grouped} FROM {source} "
        f"GROUP BY pane, judge_name{grouped} ORDER BY pane, judge_name{grouped}",
        where.parameters,
    )
    return [
        CutOff(
            start=pane_start(query, int(row[0])),
            judge_name=row[1],
            traces=int(row[2]),
            group=dict(zip(fields, row[3:], strict=True)),
        )
        for row in rows
    ]
