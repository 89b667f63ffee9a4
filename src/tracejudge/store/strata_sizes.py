"""How many traces a judge could have judged in each stratum: known where everything that it did not judge was left out
by the hash alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from tracejudge.store.connection import Connection
from tracejudge.store.queries import RateQuery, is_trace_field
from tracejudge.store.rates import pane, pane_start, window

_KEY: Final = "environment, app, judge_name, event_time, trace_id, run_id"


@dataclass(frozen=True, slots=True, kw_only=True)
class StratumSize:
    """The traces of one pane, judge, slice and stratum: `traces` scored or left out by the hash; `others` left out in
    another way (not applicable, invalid, over budget, not judged yet ...), for which the weights do not stand."""

    start: datetime
    judge_name: str
    group: Mapping[str, str]
    stratum: str
    traces: int
    others: int


def strata_sizes(connection: Connection, query: RateQuery) -> list[StratumSize] | None:
    """Sizes by stratum, from every row of the window; filtered traces belong to no stratum.

    None where they cannot be known: the SDK kept a share only (what it dropped was never seen), the query slices by
    what the ledger does not know, or it is about a JudgeId.
    """
    if query.end <= query.start or query.also or (query.judge is not None and "@" in query.judge):
        return None
    if any(name in ("model_reported", "run_id") or is_trace_field(name) for name in query.group_by):
        return None
    of_traces = window(query, judged=False)
    head = connection.query(f"SELECT min(head_probability), count() FROM traces {of_traces}", of_traces.parameters)
    if int(head[0][1]) == 0 or float(head[0][0]) < 1.0:
        return None
    where = window(query).equal("run_id", query.run_id)
    grouped = "".join(f", {name}" for name in query.group_by)
    rows = connection.query(
        f"SELECT {pane(query, 'toUnixTimestamp64Milli(event_time)')} AS pane, judge_name, stratum, countIf(ok), "
        f"countIf(NOT ok){grouped} FROM ("
        f"SELECT event_time, toString(judge_name) AS judge_name, toString(stratum) AS stratum, "
        f"outcome != 'invalid' AS ok{grouped} FROM scores FINAL {where} UNION ALL "
        f"SELECT event_time, toString(judge_name) AS judge_name, toString(stratum) AS stratum, "
        f"decision = 'sampled_out' AS ok{grouped} FROM ledger FINAL {where} AND decision != 'filtered' "
        f"AND ({_KEY}) NOT IN (SELECT {_KEY} FROM scores {where})) "
        f"GROUP BY pane, judge_name, stratum{grouped} ORDER BY pane, judge_name, stratum{grouped}",
        where.parameters,
    )
    return [
        StratumSize(
            start=pane_start(query, int(row[0])),
            judge_name=row[1],
            stratum=row[2],
            traces=int(row[3]),
            others=int(row[4]),
            group=dict(zip(query.group_by, row[5:], strict=True)),
        )
        for row in rows
    ]
