"""Weighted counts from the rows of `scores`, with w = 1 / inclusion probability and x = 1 for passed, 0 for failed.

A judge name may have had several JudgeIds. Where adoptions say which was live when, each trace counts once under the
name: by the verdict of the JudgeId that was live at its event time, or by its first verdict where there is none of
that one (it was judged late, by a successor).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from tracejudge.scores import Bucket, JudgeId
from tracejudge.store.connection import Connection
from tracejudge.store.judges import Judges
from tracejudge.store.queries import RateQuery, is_trace_field
from tracejudge.store.rows import Adoption, BucketRow
from tracejudge.store.stretches import stretches
from tracejudge.store.table import Where
from tracejudge.store.values import EPOCH, bound_instant, from_milliseconds

_AT_ONCE: Final = 300_000
"""About as many rows are counted by a statement: what it holds grows with them."""

SUMS: Final = (
    "countIf(outcome != 'invalid')",
    "countIf(outcome = 'passed')",
    "countIf(outcome = 'invalid')",
    "sumIf(1 / inclusion_probability, outcome != 'invalid')",
    "sumIf(1 / (inclusion_probability * inclusion_probability), outcome != 'invalid')",
    "sumIf(1 / inclusion_probability, outcome = 'passed')",
    "sumIf(1 / (inclusion_probability * inclusion_probability), outcome = 'passed')",
    "sumIf(ifNull(score, 0) / inclusion_probability, outcome != 'invalid')",
)
"""The fields of a Bucket, in its order."""


def window(query: RateQuery, column: str = "event_time", *, judged: bool = True) -> Where:
    """The query's time range, slice and judge as conditions on rows; `judged` False: without the judge."""
    where = Where()
    where.add(f"{column} >= {{start:DateTime64(6, 'UTC')}}", start=bound_instant("start", query.start))
    where.add(f"{column} < {{end:DateTime64(6, 'UTC')}}", end=bound_instant("end", query.end))
    for name in ("environment", "app", "version", "category"):
        where.equal(name, getattr(query, name))
    if not judged:
        return where
    return where.equal("judge_id" if query.judge is not None and "@" in query.judge else "judge_name", query.judge)


def trace_field(name: str, where: Where) -> str:
    """SQL for a field of `traces` as text; "" where the trace does not have it."""
    if not name.startswith("tags."):
        return f"ifNull(toString({name}), '')"
    bound = f"tag_{len(where.parameters)}"
    where.parameters[bound] = name.removeprefix("tags.")
    return f"tags[{{{bound}:String}}]"


def only(query: RateQuery, where: Where, columns: Mapping[str, str]) -> str:
    """SQL for the query's conditions on fields of the trace; `columns` holds the column of each field."""
    conditions = []
    for name, value in query.also.items():
        bound = f"also_{len(where.parameters)}"
        where.parameters[bound] = value
        conditions.append(f"{columns[name]} = {{{bound}:String}}")
    return " AND ".join(conditions) or "1"


def pane(query: RateQuery, milliseconds: str) -> str:
    """SQL for the number of a row's pane: panes tile [start, end) from `start` on."""
    if query.step_s is None:
        return "toInt64(0)"
    return f"intDiv({milliseconds} - {_start_ms(query)}, {int(query.step_s) * 1000})"


def pane_start(query: RateQuery, number: int) -> Any:
    """The instant at which a pane begins."""
    return query.start + timedelta(seconds=number * (query.step_s or 0))


def raw_buckets(
    connection: Connection, judges: Judges, query: RateQuery, *, one_per_content: bool = False
) -> list[BucketRow]:
    """Answers the query from the rows themselves, a stretch of time after the other, so that memory stays bounded.

    `one_per_content`: rows of equal content within an hour (UTC) of an app are one observation of their summed weight.
    Counts and rates do not change by it; squares of weights, and with them the interval, are of the observations.
    """
    if query.end <= query.start:
        return []
    adopted = [] if query.judge is not None and "@" in query.judge else judges.adoptions(query.judge)
    names = {one.judge_name for one in adopted if sum(other.judge_name == one.judge_name for other in adopted) > 1}
    several = [one for one in adopted if one.judge_name in names]
    found: dict[tuple[Any, ...], BucketRow] = {}
    for start, end in stretches(
        connection, "scores", query.start, query.end, environment=query.environment, app=query.app, rows=_AT_ONCE
    ):
        if start is None or end is None or end <= start:
            continue
        part = replace(query, start=start, end=end)
        for row in _counted(connection, query, part, several, one_per_content=one_per_content):
            key = (row.start, row.judge_name, row.judge_id, row.stratum, *row.group.values())
            before = found.get(key)
            if before is not None:
                heuristic = row.heuristic or before.heuristic
                row = replace(row, bucket=before.bucket + row.bucket, heuristic=heuristic)
            found[key] = row
    return [found[key] for key in sorted(found)]


def _counted(
    connection: Connection, query: RateQuery, part: RateQuery, several: list[Adoption], *, one_per_content: bool
) -> list[BucketRow]:
    """The counts of `part` of the query's time, in the query's panes. `several`: the adoptions of names with more than
    one."""
    where = window(part).equal("run_id", query.run_id)
    source = f"scores FINAL {where}"
    if several:
        where.parameters["several"] = sorted({one.judge_name for one in several})
        source = f"scores FINAL {where} AND {_standing(where, _live(where, several))}"
    source, columns = with_trace_fields(part, where, source)
    grouped = "".join(f", {columns.get(name, name)}" for name in query.group_by)
    at = pane(query, "toUnixTimestamp64Milli(event_time)")
    if one_per_content:
        inner = ", ".join(f"{columns.get(name, name)} AS slice_{number}" for number, name in enumerate(query.group_by))
        outer = "".join(f", slice_{number}" for number in range(len(query.group_by)))
        n, passed, invalid, w, _, wx, _, ws = SUMS
        rows = connection.query(
            "SELECT pane, judge_name, judge_id, stratum, max(h), sum(n), sum(passed_n), sum(invalid_n), sum(w), "
            f"sum(w * w), sum(wx), sum(w * wx), sum(ws){outer} FROM (SELECT {at} AS pane, judge_name, judge_id, "
            f"stratum, max(has(flags, 'heuristic')) AS h, {n} AS n, {passed} AS passed_n, {invalid} AS invalid_n, "
            f"{w} AS w, {wx} AS wx, {ws} AS ws{', ' * bool(inner)}{inner} FROM {source} GROUP BY pane, judge_name, "
            f"judge_id, stratum, environment, app, toStartOfHour(event_time), content_hash, "
            f"if(content_hash = '', trace_id, ''){outer}) "
            f"GROUP BY pane, judge_name, judge_id, stratum{outer}",
            where.parameters,
        )
    else:
        rows = connection.query(
            f"SELECT {at} AS pane, judge_name, judge_id, stratum, "
            f"max(has(flags, 'heuristic')), {', '.join(SUMS)}{grouped} FROM {source} "
            f"GROUP BY pane, judge_name, judge_id, stratum{grouped}",
            where.parameters,
        )
    return [bucket_row(query, row) for row in rows]


def _standing(where: Where, live: str) -> str:
    """SQL that is true for one row of each trace under a name with several JudgeIds, and for all rows of other names.

    Nearly all are the live one's, which nothing beats; only traces that have another are looked at together.
    """
    named = "judge_name IN {several:Array(String)}"
    key = "environment, app, event_time, trace_id, judge_name"
    others = f"({key}) IN (SELECT {key} FROM scores {where} AND {named} AND NOT {live})"
    return (
        f"({live} OR NOT {named} OR ({key}, judge_id) IN (SELECT {key}, "
        f"argMin(judge_id, (NOT {live}, judged_at, judge_id)) FROM scores FINAL {where} AND {named} AND {others} "
        f"GROUP BY {key}))"
    )


def with_trace_fields(query: RateQuery, where: Where, source: str) -> tuple[str, dict[str, str]]:
    """SQL for `source` joined with the fields of traces that the query needs, and the column of each such field."""
    names = [name for name in dict.fromkeys((*query.group_by, *query.also)) if is_trace_field(name)]
    if not names:
        return source, {}
    columns = {name: f"of_trace_{number}" for number, name in enumerate(names)}
    fields = ", ".join(f"{trace_field(name, where)} AS {column}" for name, column in columns.items())
    key = "environment, app, event_time, trace_id"
    rows = source if source.startswith("(") else f"(SELECT * FROM {source})"
    beside = ", ".join(f"t.{column} AS {column}" for column in columns.values())
    return (
        f"(SELECT s.*, {beside} FROM {rows} AS s LEFT JOIN "
        f"(SELECT {key}, {fields} FROM traces FINAL {window(query, judged=False)}) AS t USING ({key}) "
        f"WHERE {only(query, where, {name: f't.{column}' for name, column in columns.items()})})"
    ), columns


def bucket_row(query: RateQuery, row: tuple[Any, ...]) -> BucketRow:
    """The BucketRow of a result row (pane, judge_name, judge_id, stratum, heuristic, SUMS, slice values)."""
    return BucketRow(
        start=pane_start(query, int(row[0])),
        judge_name=row[1],
        judge_id=JudgeId(row[2]),
        stratum=row[3],
        heuristic=bool(row[4]),
        bucket=Bucket(
            n=int(row[5]),
            passed=int(row[6]),
            invalid=int(row[7]),
            sum_w=row[8],
            sum_w2=row[9],
            sum_wx=row[10],
            sum_w2x=row[11],
            sum_ws=row[12],
        ),
        group=dict(zip(query.group_by, row[5 + len(SUMS) :], strict=True)),
    )


def _live(where: Where, adoptions: list[Adoption]) -> str:
    """SQL that is true for rows of the JudgeId that was live at their event time."""
    conditions = []
    for index, one in enumerate(adoptions):
        first = index == 0 or adoptions[index - 1].judge_name != one.judge_name
        after = adoptions[index + 1] if index + 1 < len(adoptions) else None
        ends = after.live_from if after is not None and after.judge_name == one.judge_name else from_milliseconds(2**42)
        where.parameters |= {
            f"name_{index}": one.judge_name,
            f"id_{index}": one.judge_id,
            f"from_{index}": bound_instant("live_from", EPOCH if first else one.live_from),
            f"to_{index}": bound_instant("live_from", ends),
        }
        conditions.append(
            f"(judge_name = {{name_{index}:String}} AND judge_id = {{id_{index}:String}} "
            f"AND event_time >= {{from_{index}:DateTime64(6, 'UTC')}} "
            f"AND event_time < {{to_{index}:DateTime64(6, 'UTC')}})"
        )
    return f"({' OR '.join(conditions)})"


def _start_ms(query: RateQuery) -> int:
    return (query.start - EPOCH) // timedelta(milliseconds=1)
