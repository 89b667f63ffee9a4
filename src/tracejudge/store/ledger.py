"""`ledger`: why a (trace, judge) has no score; and the equation in which every trace is accounted for.

A row whose (trace, JudgeId, run) also has a score does not count: the trace was judged after all.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from tracejudge.scores import LIVE_RUN, Decision, JudgeId, LedgerRow
from tracejudge.store.connection import Connection, Row
from tracejudge.store.coverage import cut_off
from tracejudge.store.judges import Judges
from tracejudge.store.places import scope_of
from tracejudge.store.queries import RateQuery
from tracejudge.store.rows import CutOff, Inserted, LedgerLine, RegisteredJudge
from tracejudge.store.table import Columns, RejectSink, Table, Where
from tracejudge.store.values import (
    EPOCH,
    RowRefused,
    bound_instant,
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
_ALWAYS_MS: Final = -(1 << 62)  # before every trace: a judge whose registration is not known answers for all


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
        """Live (trace, judge) pairs still to come, the oldest first. `judge` is a judge name or a JudgeId.

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
        """What hard caps kept from being judged, by judge name, window and slice of the query."""
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
        """One line for each judge that has traces to answer for in [since, until) of event time, or for each of its
        hours (UTC); of one environment and app, or of any.

        The judges are those seen in that time and, for live traces, those ever adopted: a consumer that died before it
        decided anything shows as unaccounted traces. Memory grows with a day's traces times the judges.
        """
        scope = _Scope(environment, app)
        days = self._days(since, until, scope.within(since, until))
        names = self._names(scope.within(since, until), run_id) if days else []
        registered = _registered(self._judges.all())
        # A replay is judged for what it was asked about; when its judges were registered says nothing there.
        first = {name: registered[name].first for name in names if name in registered and run_id == LIVE_RUN}
        found: dict[tuple[str, datetime | None], Counter[str]] = defaultdict(Counter)
        ids: dict[tuple[str, datetime | None], Counter[JudgeId]] = defaultdict(Counter)
        reasons: dict[tuple[str, datetime | None], Counter[str]] = defaultdict(Counter)
        flagged: set[str] = set()
        for start, end in days:
            for hour_s, name, judge_id, fate, reason, heuristic, count in self._fates(
                scope.within(start, end), run_id, names, first
            ):
                hour = _hour(hour_s, hourly)
                found[name, hour][fate] += count
                if fate == Decision.NOT_APPLICABLE.value:
                    reasons[name, hour][reason] += count
                if judge_id:
                    ids[name, hour][JudgeId(judge_id)] += count
                if heuristic:
                    flagged.add(name)
        lines = []
        for name, hour in sorted(found, key=lambda key: (key[0], key[1] or EPOCH)):
            known = registered.get(name)
            seen = ids.get((name, hour)) or sum((ids[key] for key in ids if key[0] == name), Counter())
            lines.append(
                _line(
                    name,
                    seen.most_common(1)[0][0] if seen else self._judges.live_at(name, until) or JudgeId(name),
                    hour,
                    found[name, hour],
                    reasons[name, hour],
                    heuristic=name in flagged if known is None else known.heuristic,
                )
            )
        return lines

    def _names(self, window: Where, run_id: str) -> list[str]:
        """The judges to draw lines for."""
        window.equal("run_id", run_id)
        rows = self._connection.query(
            f"SELECT DISTINCT toString(judge_name) FROM scores {window} "
            f"UNION DISTINCT SELECT DISTINCT toString(judge_name) FROM ledger {window}",
            window.parameters,
        )
        adopted = self._judges.adoptions() if run_id == LIVE_RUN else []
        return sorted({str(row[0]) for row in rows} | {one.judge_name for one in adopted})

    def _days(self, since: datetime, until: datetime, window: Where) -> list[tuple[datetime, datetime]]:
        """The days (UTC) of [since, until) that hold anything, cut to it: no statement holds more than one's traces.

        A backlog read from a file may be years old; asking for every day since then would take minutes.
        """
        day = "toUnixTimestamp(toStartOfDay(event_time, 'UTC'))"
        rows = self._connection.query(
            " UNION DISTINCT ".join(
                f"SELECT DISTINCT {day} AS day FROM {table} {window}" for table in ("traces", "scores", "ledger")
            ),
            window.parameters,
        )
        midnights = sorted(EPOCH + timedelta(seconds=int(row[0])) for row in rows)
        return [(max(since, midnight), min(until, midnight + timedelta(days=1))) for midnight in midnights]

    def _fates(self, window: Where, run_id: str, names: Sequence[str], first: Mapping[str, datetime]) -> list[Row]:
        """Counts of what became of each trace, by hour and judge: an outcome, a decision (with its reason where it is
        not applicable), or "unaccounted"."""
        where = f"{window} AND run_id = {{run_id:String}}"
        trace = "judge_name, environment, app, event_time, trace_id"
        plain = "toString(judge_name) AS judge_name, environment, app, event_time, trace_id"
        # A score beats a decision, those beat each other by _STRENGTH, anything beats having nothing; of several
        # JudgeIds of one name the first counts.
        return self._connection.query(
            "SELECT toUnixTimestamp(toStartOfHour(event_time)) AS hour, judge_name, winner.2, winner.1, winner.3, "
            "max(flagged), count() FROM ("
            f"SELECT {trace}, argMin((fate, judge_id, why), (rank, at, judge_id)) AS winner, "
            "max(flag) AS flagged FROM ("
            f"SELECT {plain}, toString(judge_id) AS judge_id, toString(outcome) AS fate, '' AS why, "
            "if(outcome = 'invalid', 1, 0) AS rank, judged_at AS at, toUInt8(has(flags, 'heuristic')) AS flag "
            f"FROM scores FINAL {where} UNION ALL "
            f"SELECT {plain}, toString(judge_id) AS judge_id, toString(decision) AS fate, "
            "if(decision = 'not_applicable', toString(reason), '') AS why, "
            "multiIf(decision = 'incomplete', 4, decision = 'undecided', 3, 2) AS rank, decided_at AS at, "
            "toUInt8(0) AS flag "
            f"FROM ledger FINAL {where} UNION ALL "
            "SELECT judge.1 AS judge_name, environment, app, event_time, trace_id, '' AS judge_id, "
            "'unaccounted' AS fate, '' AS why, 5 AS rank, toDateTime64(0, 6, 'UTC') AS at, toUInt8(0) AS flag "
            f"FROM (SELECT environment, app, event_time, trace_id, ingested_at FROM traces FINAL {window}) "
            "ARRAY JOIN arrayZip({names:Array(String)}, {firsts_ms:Array(Int64)}) AS judge "
            "WHERE toUnixTimestamp64Milli(ingested_at) >= judge.2"
            f") GROUP BY {trace}) GROUP BY hour, judge_name, winner",
            {
                **window.parameters,
                "run_id": run_id,
                "names": list(names),
                "firsts_ms": [
                    milliseconds("registered_at", first[name]) if name in first else _ALWAYS_MS for name in names
                ],
            },
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


class _Scope(NamedTuple):
    """What the equation is of."""

    environment: str | None
    app: str | None

    def within(self, start: datetime, end: datetime) -> Where:
        return scope_of(self.environment, self.app).add(
            "event_time >= {start:DateTime64(6, 'UTC')} AND event_time < {end:DateTime64(6, 'UTC')}",
            start=bound_instant("since", start),
            end=bound_instant("until", end),
        )


class _Registered(NamedTuple):
    """What the registrations of one judge name say together."""

    first: datetime
    heuristic: bool  # of the latest


def _registered(judges: Sequence[RegisteredJudge]) -> dict[str, _Registered]:
    found: dict[str, _Registered] = {}
    for judge in judges:  # the oldest of a name first
        before = found.get(judge.judge_name)
        first = judge.registered_at if before is None else before.first
        found[judge.judge_name] = _Registered(first, judge.heuristic)
    return found


def _line(
    name: str, judge_id: JudgeId, hour: datetime | None, fates: Counter[str], reasons: Counter[str], *, heuristic: bool
) -> LedgerLine:
    return LedgerLine(
        judge_name=name,
        judge_id=judge_id,
        hour=hour,
        traces=fates.total(),
        passed=fates["passed"],
        failed=fates["failed"],
        invalid=fates["invalid"],
        decisions={decision: fates[decision.value] for decision in Decision if fates[decision.value]},
        unaccounted=fates["unaccounted"],
        heuristic=heuristic,
        not_applicable=dict(reasons.most_common()),
    )


def _hour(seconds: int, hourly: bool) -> datetime | None:
    return EPOCH + timedelta(seconds=int(seconds)) if hourly else None
