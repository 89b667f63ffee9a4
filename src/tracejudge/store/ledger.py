"""`ledger`: why a (trace, judge) has no score; and the equation in which every trace is accounted for.

A row whose (trace, JudgeId, run) also has a score does not count: the trace was judged after all.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from tracejudge.scores import LIVE_RUN, Decision, JudgeId, LedgerRow
from tracejudge.store.connection import Row
from tracejudge.store.rows import Inserted, LedgerLine
from tracejudge.store.table import Columns, Table, Where
from tracejudge.store.values import (
    EPOCH,
    RowRefused,
    bound_instant,
    from_microseconds,
    from_milliseconds,
    microseconds,
    milliseconds,
    probability,
    text,
)

_KEY: Final = "environment, app, judge_name, event_time, trace_id, judge_id, run_id"


class Ledger(Table[LedgerRow]):
    """Keyed like `scores`. A final decision beats undecided, then the latest wins."""

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

    def insert(self, rows: Sequence[LedgerRow]) -> Inserted:
        """Stores decisions; safe to repeat in any split."""
        return self._insert(rows)

    def of_trace(self, trace_id: str, *, environment: str | None = None, app: str | None = None) -> list[LedgerRow]:
        """The decisions that stand for a trace, in all runs."""
        where = Where().add(
            "(environment, app, event_time, trace_id) IN (SELECT environment, app, event_time, trace_id "
            "FROM trace_index FINAL WHERE trace_id = {trace_id:String})",
            trace_id=trace_id,
        )
        where.equal("environment", environment).equal("app", app)
        unscored = f"({_KEY}) NOT IN (SELECT {_KEY} FROM scores {where})"
        return self._select(f"{where} AND {unscored} ORDER BY judge_name, run_id, decided_at", where.parameters)

    def undecided(self, *, judge: str | None = None, limit: int = 1000) -> list[LedgerRow]:
        """Live (trace, judge) pairs still to come, the oldest first. `judge` is a judge name or a JudgeId."""
        where = Where().add("decision = 'undecided'").equal("run_id", LIVE_RUN)
        where.equal("judge_id" if judge is not None and "@" in judge else "judge_name", judge)
        # Without FINAL the skip index finds the few rows that were ever undecided; FINAL then says which still are.
        candidates = f"({_KEY}) IN (SELECT {_KEY} FROM ledger {where})"
        unscored = f"({_KEY}) NOT IN (SELECT {_KEY} FROM scores WHERE ({_KEY}) IN (SELECT {_KEY} FROM ledger {where}))"
        return self._select(
            f"{where} AND {candidates} AND {unscored} ORDER BY event_time, trace_id, judge_name LIMIT {int(limit)}",
            where.parameters,
        )

    def equation(
        self, since: datetime, until: datetime, *, run_id: str = LIVE_RUN, hourly: bool = False
    ) -> list[LedgerLine]:
        """One line for each judge seen in [since, until) of event time, or for each of its hours (UTC).

        `traces` are all that were stored in that time; `unaccounted` must reach 0. Memory grows with a day's traces.
        """
        traces: Counter[datetime | None] = Counter()
        found: dict[tuple[str, datetime | None], Counter[str]] = defaultdict(Counter)
        ids: dict[tuple[str, datetime | None], Counter[JudgeId]] = defaultdict(Counter)
        for start, end in self._days(since, until):
            for hour_s, count in self._stored(start, end):
                traces[_hour(hour_s, hourly)] += count
            for hour_s, judge_name, judge_id, fate, count in self._fates(start, end, run_id):
                hour = _hour(hour_s, hourly)
                found[judge_name, hour][fate] += count
                ids[judge_name, hour][JudgeId(judge_id)] += count
        lines = []
        for name in sorted({name for name, _ in found}):
            seen: Counter[JudgeId] = sum((ids[key] for key in ids if key[0] == name), Counter())
            for hour in sorted(traces | Counter({h: 1 for n, h in found if n == name}), key=lambda h: h or EPOCH):
                fates = found.get((name, hour), Counter())
                here = ids.get((name, hour)) or seen
                lines.append(_line(name, here.most_common(1)[0][0], hour, traces[hour], fates))
        return lines

    def _days(self, since: datetime, until: datetime) -> Iterator[tuple[datetime, datetime]]:
        """The days (UTC) of [since, until) that hold anything, cut to it: no statement holds more than one's traces.

        A backlog read from a file may be years old; asking for every day since then would take minutes.
        """
        window = "WHERE event_time >= {start:DateTime64(6, 'UTC')} AND event_time < {end:DateTime64(6, 'UTC')}"
        day = "toUnixTimestamp(toStartOfDay(event_time, 'UTC'))"
        rows = self._connection.query(
            " UNION DISTINCT ".join(
                f"SELECT DISTINCT {day} AS day FROM {table} {window}" for table in ("traces", "scores", "ledger")
            ),
            _window(since, until),
        )
        for midnight in sorted(EPOCH + timedelta(seconds=int(row[0])) for row in rows):
            yield max(since, midnight), min(until, midnight + timedelta(days=1))

    def _stored(self, start: datetime, end: datetime) -> list[Row]:
        return self._connection.query(
            "SELECT toUnixTimestamp(toStartOfHour(event_time)) AS hour, count() FROM traces FINAL "
            "WHERE event_time >= {start:DateTime64(6, 'UTC')} AND event_time < {end:DateTime64(6, 'UTC')} "
            "GROUP BY hour",
            _window(start, end),
        )

    def _fates(self, start: datetime, end: datetime, run_id: str) -> list[Row]:
        where = (
            "WHERE run_id = {run_id:String} AND event_time >= {start:DateTime64(6, 'UTC')} "
            "AND event_time < {end:DateTime64(6, 'UTC')}"
        )
        trace = "judge_name, environment, app, event_time, trace_id"
        # A score beats a decision, a decision beats undecided; of several JudgeIds of one name the first counts.
        return self._connection.query(
            "SELECT toUnixTimestamp(toStartOfHour(event_time)) AS hour, judge_name, winner.2, winner.1, count() FROM ("
            f"SELECT {trace}, argMin((toString(fate), toString(judge_id)), (rank, at, judge_id)) AS winner FROM ("
            f"SELECT {trace}, judge_id, outcome AS fate, if(outcome = 'invalid', 1, 0) AS rank, judged_at AS at "
            f"FROM scores FINAL {where} UNION ALL "
            f"SELECT {trace}, judge_id, decision AS fate, if(decision = 'undecided', 3, 2) AS rank, decided_at AS at "
            f"FROM ledger FINAL {where}) GROUP BY {trace}) GROUP BY hour, judge_name, winner",
            {**_window(start, end), "run_id": run_id},
        )

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
            probability("inclusion_probability", value.inclusion_probability),
            decided_us,
            (decision is not Decision.UNDECIDED) << 62 | decided_us,
        )

    def _decode(self, row: Row) -> LedgerRow:
        cells: dict[str, Any] = dict(zip(self.columns.names, row, strict=True))
        del cells["row_version"]
        cells["event_time"] = from_milliseconds(cells["event_time"])
        cells["decided_at"] = from_microseconds(cells["decided_at"])
        cells["decision"] = Decision(cells["decision"])
        return LedgerRow(**cells)


def _line(name: str, judge_id: JudgeId, hour: datetime | None, traces: int, fates: Counter[str]) -> LedgerLine:
    decisions = {decision: fates[decision.value] for decision in Decision if fates[decision.value]}
    return LedgerLine(
        judge_name=name,
        judge_id=judge_id,
        hour=hour,
        traces=traces,
        passed=fates["passed"],
        failed=fates["failed"],
        invalid=fates["invalid"],
        decisions=decisions,
        unaccounted=traces - sum(fates.values()),
    )


def _window(start: datetime, end: datetime) -> dict[str, str]:
    return {"start": bound_instant("since", start), "end": bound_instant("until", end)}


def _hour(seconds: int, hourly: bool) -> datetime | None:
    return EPOCH + timedelta(seconds=int(seconds)) if hourly else None
