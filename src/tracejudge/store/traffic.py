"""What was served and what judging took, per window and slice: counts, and percentiles of latency and cost.

Always from the rows: a percentile cannot be put together from sums of minutes. Percentiles are exact, so that they are
the same before and after merges; they are of the stored traces, unweighted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from tracejudge.scores import JudgeId, TraceFacts, TraceKey
from tracejudge.store.connection import Connection
from tracejudge.store.queries import RateQuery
from tracejudge.store.rates import only, pane, pane_start, trace_field, window, with_trace_fields
from tracejudge.store.table import Where
from tracejudge.store.trace_index import KEYS_IN, key_parameters
from tracejudge.store.values import bound_instant

_LEVELS: Final = "quantilesExactLow(0.5, 0.95, 0.99)"
_LEVELS_IF: Final = "quantilesExactLowIf(0.5, 0.95, 0.99)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Percentiles:
    """The median, 95th and 99th percentile of `n` values (nearest rank)."""

    n: int
    p50: float
    p95: float
    p99: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficRow:
    """Traces of one pane and slice, by the time they were served. `latency_ms` is None where none says its latency."""

    start: datetime
    group: Mapping[str, str]
    traces: int
    errors: int
    incomplete: int
    latency_ms: Percentiles | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EffortRow:
    """The cost and latency of one judge's verdicts in one pane and slice. `cost_usd` is of the verdicts with a known
    cost, None where there is none; `total_usd` adds these."""

    start: datetime
    judge_name: str
    judge_id: JudgeId
    heuristic: bool
    group: Mapping[str, str]
    verdicts: int
    calls: int
    total_usd: float
    cost_usd: Percentiles | None
    latency_ms: Percentiles | None


class Traffic:
    """Windows beside the pass rate."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def served(self, query: RateQuery) -> list[TrafficRow]:
        """Traces per pane and slice; of the query's slices those that a trace has."""
        if query.end <= query.start:
            return []
        names = [name for name in query.group_by if name not in ("model_reported", "run_id")]
        where = window(query, judged=False)
        columns = {name: f"g{number}" for number, name in enumerate(dict.fromkeys((*names, *query.also)))}
        fields = ", ".join(f"{trace_field(name, where)} AS {column}" for name, column in columns.items())
        met = only(query, where, columns)
        keys = "".join(f", {columns[name]}" for name in names)
        rows = self._connection.query(
            f"SELECT {pane(query, 'toUnixTimestamp64Milli(event_time)')} AS pane, count(), countIf(status = 'error'), "
            f"countIf(status = 'incomplete'), count(latency_ms), {_LEVELS}(latency_ms){keys} FROM "
            f"(SELECT event_time, status, latency_ms{', ' * bool(fields)}{fields} FROM traces FINAL {where}) "
            f"WHERE {met} GROUP BY pane{keys} ORDER BY pane{keys}",
            where.parameters,
        )
        return [
            TrafficRow(
                start=pane_start(query, int(row[0])),
                traces=int(row[1]),
                errors=int(row[2]),
                incomplete=int(row[3]),
                latency_ms=_percentiles(row[4], row[5]),
                group=dict(zip(names, row[6:], strict=True)),
            )
            for row in rows
        ]

    def facts(self, places: Mapping[TraceKey, datetime], *, fields: Sequence[str] = ()) -> dict[TraceKey, TraceFacts]:
        """What the traces of these keys and event times say of these fields (of `TRACE_FIELDS`, or `tags.NAME`), and
        how long the app took; a trace that is not stored is absent."""
        if not places:
            return {}
        instants = sorted(set(places.values()))
        where = (
            Where()
            .add("event_time >= {first:DateTime64(3, 'UTC')}", first=bound_instant("event_time", instants[0])[:-3])
            .add("event_time <= {last:DateTime64(3, 'UTC')}", last=bound_instant("event_time", instants[-1])[:-3])
            .add(KEYS_IN, **key_parameters(places))
        )
        asked = "".join(f", {trace_field(name, where)}" for name in fields)
        rows = self._connection.query(
            f"SELECT environment, app, trace_id, latency_ms{asked} FROM traces FINAL {where}", where.parameters
        )
        return {
            TraceKey(environment, app, trace_id): TraceFacts(latency, dict(zip(fields, said, strict=True)))
            for environment, app, trace_id, latency, *said in rows
        }

    def tags(self, query: RateQuery, *, limit: int, most_values: int) -> list[str]:
        """Names of the tags of traces in the query's window and slice, those of most traces first; without tags that
        have more than `most_values` values."""
        where = window(query, judged=False)
        rows = self._connection.query(
            f"SELECT name FROM traces ARRAY JOIN mapKeys(tags) AS name, mapValues(tags) AS value {where} "
            f"GROUP BY name HAVING uniqExact(value) <= {int(most_values)} ORDER BY count() DESC, name "
            f"LIMIT {int(limit)}",
            where.parameters,
        )
        return [str(name) for (name,) in rows]

    def effort(self, query: RateQuery) -> list[EffortRow]:
        """Cost and latency of judging, per pane, JudgeId and slice, by the time the traces were served."""
        if query.end <= query.start:
            return []
        where = window(query).equal("run_id", query.run_id)
        source, columns = with_trace_fields(query, where, f"scores FINAL {where}")
        grouped = "".join(f", {columns.get(name, name)}" for name in query.group_by)
        rows = self._connection.query(
            f"SELECT {pane(query, 'toUnixTimestamp64Milli(event_time)')} AS pane, judge_name, judge_id, count(), "
            f"sum(usage_calls), sum(ifNull(usage_cost_usd, 0)), count(usage_cost_usd), {_LEVELS}(usage_cost_usd), "
            f"countIf(usage_calls > 0), {_LEVELS_IF}(usage_latency_ms, usage_calls > 0), max(has(flags, 'heuristic'))"
            f"{grouped} FROM {source} "
            f"GROUP BY pane, judge_name, judge_id{grouped} ORDER BY pane, judge_name, judge_id{grouped}",
            where.parameters,
        )
        return [
            EffortRow(
                start=pane_start(query, int(row[0])),
                judge_name=row[1],
                judge_id=JudgeId(row[2]),
                heuristic=bool(row[10]),
                verdicts=int(row[3]),
                calls=int(row[4]),
                total_usd=float(row[5]),
                cost_usd=_percentiles(row[6], row[7]),
                latency_ms=_percentiles(row[8], row[9]),
                group=dict(zip(query.group_by, row[11:], strict=True)),
            )
            for row in rows
        ]


def _percentiles(n: int, values: Sequence[float]) -> Percentiles | None:
    return Percentiles(n=int(n), p50=values[0], p95=values[1], p99=values[2]) if n else None
