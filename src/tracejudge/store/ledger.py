"""`ledger`: why a (trace, judge) has no score.

A row whose (trace, JudgeId, run) also has a score does not count: the trace was judged after all.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from tracejudge.scores import LIVE_RUN, Decision, LedgerRow
from tracejudge.store.connection import Connection, Row
from tracejudge.store.coverage import cut_off
from tracejudge.store.judges import Judges
from tracejudge.store.ledger_equation import Scope, equation
from tracejudge.store.queries import RateQuery
from tracejudge.store.rows import CutOff, Inserted, LedgerLine
from tracejudge.store.table import Columns, RejectSink, Table, Where
from tracejudge.store.values import (
    RowRefused,
    from_microseconds,
    from_milliseconds,
    microseconds,
    milliseconds,
    share,
    text,
)

_KEY: Final = "environment, app, judge_name, event_time, trace_id, judge_id, run_id"
_NAMED: Final = "environment, app, judge_name, event_time, trace_id, run_id"
_STRENGTH: Final = {Decision.INCOMPLETE: 0, Decision.UNDECIDED: 1}  # any other decision is final: 2


class Ledger(Table[LedgerRow]):
    """Keyed like `scores`. Of two rows the stronger decision wins, then the latest.

    A final decision beats undecided, and both beat incomplete: the rest of a broken-off answer may still come, in any
    order, and is then what the decision is about.
    """

    name = "ledger"
    columns = Columns(
        environment="LowCardinality(String)",
        app="LowCardinality(String)",
        judge_name="LowCardinality(String)",
        event_time="DateTime64(3, 'UTC')",
        trace_id="String",
        judge_id="LowCardinality(String)",
        run_id="LowCardinality(String)",
        version="LowCardinality(String)",
        category="LowCardinality(String)",
        decision="LowCardinality(String)",
        reason="LowCardinality(String)",
        stratum="LowCardinality(String)",
        inclusion_probability="Float64",
        decided_at="DateTime64(6, 'UTC')",
        row_version="UInt64",
    )

    def __init__(self, connection: Connection, rejects: RejectSink, judges: Judges) -> None:
        super().__init__(connection, rejects)
        self._judges = judges

    def insert(self, rows: Sequence[LedgerRow]) -> Inserted:
        """Stores decisions; safe to repeat in any split."""
        return self._insert(rows)

    def of_trace(self, trace_id: str, *, environment: str | None = None, app: str | None = None) -> list[LedgerRow]:
        """The decisions that count for a trace, in all runs."""
        where = Where().add(
            "(environment, app, event_time, trace_id) IN (SELECT environment, app, event_time, trace_id "
            "FROM trace_index FINAL WHERE trace_id = {trace_id:String})",
            trace_id=trace_id,
        )
        where.equal("environment", environment).equal("app", app)
        unscored = f"({_KEY}) NOT IN (SELECT {_KEY} FROM scores {where})"
        return self._select(f"{where} AND {unscored} ORDER BY judge_name, run_id, decided_at", where.parameters)

    def undecided(self, *, judge: str | None = None, limit: int = 1000) -> list[LedgerRow]:
        """Live (trace, judge) pairs that are still undecided, the oldest first. `judge` is a judge name or a JudgeId.

        A pair is decided as soon as any JudgeId of the name has a score or a final decision: a judge that was adopted
        in the place of one that is gone decides for it.
        """
        where = Where().add("decision = 'undecided'").equal("run_id", LIVE_RUN)
        where.equal("judge_id" if judge is not None and "@" in judge else "judge_name", judge)
        # Without FINAL the skip index finds the few rows that were ever undecided; FINAL then says which still are.
        candidates = f"({_NAMED}) IN (SELECT {_NAMED} FROM ledger {where})"
        decided = (
            f"SELECT {_NAMED} FROM scores WHERE {candidates} UNION ALL SELECT {_NAMED} FROM ledger FINAL "
            f"WHERE {candidates} AND decision NOT IN ('undecided', 'incomplete')"
        )
        return self._select(
            f"{where} AND {candidates} AND ({_NAMED}) NOT IN ({decided}) "
            f"ORDER BY event_time, trace_id, judge_name LIMIT {int(limit)}",
            where.parameters,
        )

    def cut_off(self, query: RateQuery) -> list[CutOff]:
        """The traces that hard caps kept from being judged, by judge name, window and slice of the query."""
        return cut_off(self._connection, query)

    def equation(
        self,
        since: datetime,
        until: datetime,
        *,
        run_id: str = LIVE_RUN,
        hourly: bool = False,
        environment: str | None = None,
        app: str | None = None,
    ) -> list[LedgerLine]:
        """What became of every trace, by judge (`ledger_equation.equation`)."""
        scope = Scope(environment, app)
        return equation(self._connection, self._judges, since, until, run_id=run_id, hourly=hourly, scope=scope)

    def _encode(self, value: LedgerRow) -> Row:
        try:
            decision = Decision(value.decision)
        except ValueError as error:
            raise RowRefused("ill_typed", f"decision: {value.decision!r} is not a known one") from error
        decided_us = microseconds("decided_at", value.decided_at)
        return (
            text("environment", value.environment),
            text("app", value.app),
            text("judge_name", value.judge_name),
            milliseconds("event_time", value.event_time),
            text("trace_id", value.trace_id),
            text("judge_id", value.judge_id),
            text("run_id", value.run_id),
            text("version", value.version),
            text("category", value.category),
            decision.value,
            text("reason", value.reason),
            text("stratum", value.stratum),
            share("inclusion_probability", value.inclusion_probability),
            decided_us,
            _STRENGTH.get(decision, 2) << 61 | decided_us,
        )

    def _decode(self, row: Row) -> LedgerRow:
        cells: dict[str, Any] = dict(zip(self.columns.names, row, strict=True))
        del cells["row_version"]
        cells["event_time"] = from_milliseconds(cells["event_time"])
        cells["decided_at"] = from_microseconds(cells["decided_at"])
        cells["decision"] = Decision(cells["decision"])
        return LedgerRow(**cells)
