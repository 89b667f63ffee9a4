"""`calls`: every call to a judge's model, failed ones too: what budgets count and what `cost` adds up."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from tracejudge.scores import JudgeCall, JudgeId, Spend
from tracejudge.store.blocks import Block
from tracejudge.store.connection import Row
from tracejudge.store.rows import CostRow, Inserted
from tracejudge.store.score_blocks import call_block
from tracejudge.store.table import Columns, Table, Where
from tracejudge.store.values import EPOCH, bound_instant, microseconds, optional_real, real, text, whole


class MeasuredTokens(NamedTuple):
    """Means over so many calls."""

    calls: int
    input_per_call: float
    output_per_call: float


class Calls(Table[JudgeCall]):
    """Keyed by (judge name, start, call id): a call inserted twice is counted once."""

    name = "calls"
    columns = Columns(
        judge_name="LowCardinality(String)",
        started_at="DateTime64(6, 'UTC')",
        call_id="String",
        judge_id="LowCardinality(String)",
        environment="LowCardinality(String)",
        app="LowCardinality(String)",
        trace_id="String",
        run_id="LowCardinality(String)",
        status="LowCardinality(String)",
        attempt="UInt16",
        input_tokens="UInt64",
        output_tokens="UInt64",
        cost_usd="Nullable(Float64)",
        latency_ms="Float64",
        model_reported="LowCardinality(String)",
    )

    def insert(self, calls: Sequence[JudgeCall]) -> Inserted:
        """Stores calls; safe to repeat."""
        return self._insert(calls)

    def spent(self, judge_name: str, since: datetime, until: datetime | None = None) -> Spend:
        """Calls begun in [since, until) under a judge's name ("": under any), in all runs, and their known cost.

        Connections that never came about (status "unreachable") are no calls.
        """
        where = Where().add("started_at >= {since:DateTime64(6, 'UTC')}", since=bound_instant("since", since))
        if until is not None:
            where.add("started_at < {until:DateTime64(6, 'UTC')}", until=bound_instant("until", until))
        where.add("status != 'unreachable'").equal("judge_name", judge_name or None)
        rows = self._connection.query(
            f"SELECT count(), sum(ifNull(cost_usd, 0)), countIf(cost_usd IS NULL) FROM calls FINAL {where}",
            where.parameters,
        )
        calls, usd, unpriced = rows[0]
        return Spend(calls=int(calls), usd=float(usd), unpriced=int(unpriced))

    def of_run(self, run_id: str, *, since: datetime | None = None) -> Spend:
        """Calls made and money spent by a run, ever or by calls begun at or after `since`."""
        where = Where().equal("run_id", run_id).add("status != 'unreachable'")
        if since is not None:
            where.add("started_at >= {since:DateTime64(6, 'UTC')}", since=bound_instant("since", since))
        rows = self._connection.query(
            f"SELECT count(), sum(ifNull(cost_usd, 0)), countIf(cost_usd IS NULL) FROM calls FINAL {where}",
            where.parameters,
        )
        calls, usd, unpriced = rows[0]
        return Spend(calls=int(calls), usd=float(usd), unpriced=int(unpriced))

    def latencies_ms(self, judge_id: JudgeId, *, limit: int = 2000) -> list[float]:
        """How long the latest answered calls of a judge took, in no order; empty when it was never asked."""
        rows = self._connection.query(
            "SELECT latency_ms FROM calls FINAL WHERE judge_name = {name:String} AND judge_id = {id:String} "
            f"AND status = 'ok' ORDER BY started_at DESC LIMIT {int(limit)}",
            {"name": judge_id.partition("@")[0], "id": judge_id},
        )
        return [float(row[0]) for row in rows]

    def usual_tokens(self, judge_id: JudgeId) -> MeasuredTokens | None:
        """The mean tokens of a judge's latest answered calls, at most 2000; None when it was never asked."""
        rows = self._connection.query(
            "SELECT count(), avg(input_tokens), avg(output_tokens) FROM (SELECT input_tokens, output_tokens FROM calls "
            "FINAL WHERE judge_name = {name:String} AND judge_id = {id:String} AND status = 'ok' "
            "AND input_tokens > 0 ORDER BY started_at DESC LIMIT 2000)",
            {"name": judge_id.partition("@")[0], "id": judge_id},
        )
        calls, per_call_in, per_call_out = rows[0]
        if not calls:
            return None
        return MeasuredTokens(calls=int(calls), input_per_call=float(per_call_in), output_per_call=float(per_call_out))

    def cost(self, since: datetime, until: datetime | None = None) -> list[CostRow]:
        """The cost of each JudgeId for each app on each day (UTC), by run, in that order."""
        where = Where().add("started_at >= {since:DateTime64(6, 'UTC')}", since=bound_instant("since", since))
        if until is not None:
            where.add("started_at < {until:DateTime64(6, 'UTC')}", until=bound_instant("until", until))
        rows = self._connection.query(
            "SELECT toUnixTimestamp(toStartOfDay(started_at)) AS day, judge_name, judge_id, environment, app, run_id, "
            "count(), countIf(status != 'ok'), sum(input_tokens), sum(output_tokens), sum(ifNull(cost_usd, 0)), "
            f"countIf(cost_usd IS NULL) FROM calls FINAL {where} "
            "GROUP BY day, judge_name, judge_id, environment, app, run_id "
            "ORDER BY day, judge_name, judge_id, environment, app, run_id",
            where.parameters,
        )
        return [
            CostRow(
                day=EPOCH + timedelta(seconds=int(row[0])),
                judge_name=row[1],
                judge_id=JudgeId(row[2]),
                environment=row[3],
                app=row[4],
                run_id=row[5],
                calls=int(row[6]),
                failed_calls=int(row[7]),
                input_tokens=int(row[8]),
                output_tokens=int(row[9]),
                usd=float(row[10]),
                unpriced=int(row[11]),
            )
            for row in rows
        ]

    def _block(self, values: Sequence[JudgeCall]) -> Block:
        return call_block(values)

    def _encode(self, value: JudgeCall) -> Row:
        return (
            text("judge_name", value.judge_name),
            microseconds("started_at", value.started_at),
            text("call_id", value.call_id),
            text("judge_id", value.judge_id),
            text("environment", value.environment),
            text("app", value.app),
            text("trace_id", value.trace_id),
            text("run_id", value.run_id),
            text("status", value.status),
            whole("attempt", value.attempt, high=2**16 - 1),
            whole("input_tokens", value.input_tokens),
            whole("output_tokens", value.output_tokens),
            optional_real("cost_usd", value.cost_usd),
            real("latency_ms", value.latency_ms),
            text("model_reported", value.model_reported),
        )
