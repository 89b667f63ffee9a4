"""Counts of what was decided, for the governors: how many traces came, under which chance, and what became of them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final, NamedTuple

from tracejudge.scores import LIVE_RUN, SHADOW_RUN
from tracejudge.store.connection import Connection
from tracejudge.store.table import Where
from tracejudge.store.values import EPOCH, bound_instant, from_milliseconds

_KEY: Final = "environment, app, event_time, trace_id"
_RUNS: Final = (LIVE_RUN, SHADOW_RUN)


class DecidedRow(NamedTuple):
    """Traces of one minute with one stratum and one chance (of the tail alone; None: not decided yet).

    `scored` of them have a score, `not_applicable` were chosen and are nothing for the judge.
    """

    minute: datetime
    stratum: str
    tail: float | None
    traces: int
    scored: int
    not_applicable: int


class FirstSeen(NamedTuple):
    environment: str
    app: str
    version: str
    at: datetime


class SamplingCounts:
    """Reads `traces`, `scores` and `ledger` by event time."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def frontier(self, now: datetime) -> datetime | None:
        """The latest event time of a stored trace in the two hours up to `now`; None where there is none."""
        rows = self._connection.query(
            "SELECT count(), toUnixTimestamp64Milli(max(event_time)) FROM traces WHERE "
            "event_time > {since:DateTime64(6, 'UTC')} AND event_time <= {now:DateTime64(6, 'UTC')}",
            {"since": bound_instant("now", now - timedelta(hours=2)), "now": bound_instant("now", now)},
        )
        return from_milliseconds(int(rows[0][1])) if int(rows[0][0]) else None

    def decided(self, judge: str, since: datetime, until: datetime, *, app: str | None = None) -> list[DecidedRow]:
        """The decisions about the traces of [since, until) for one judge, by minute. Filtered ones have tail 0."""
        window = Where()
        window.add("event_time >= {since:DateTime64(6, 'UTC')}", since=bound_instant("since", since))
        window.add("event_time < {until:DateTime64(6, 'UTC')}", until=bound_instant("until", until))
        window.equal("app", app)
        of_judge = f"{window} AND judge_name = {{judge:String}} AND run_id IN {{runs:Array(String)}}"
        rows = self._connection.query(
            "SELECT toUnixTimestamp(toStartOfMinute(t.event_time)) * 1000 AS minute, d.stratum AS stratum, "
            "if(d.found = 1, round(d.chance / t.head, 12), -1) AS tail, count(), sum(d.scored), sum(d.not_applicable) "
            f"FROM (SELECT {_KEY}, head_probability AS head FROM traces FINAL {window}) AS t LEFT JOIN ("
            f"SELECT {_KEY}, any(of_stratum) AS stratum, any(p) AS chance, max(s) AS scored, max(n) AS not_applicable, "
            "1 AS found FROM ("
            f"SELECT {_KEY}, toString(stratum) AS of_stratum, inclusion_probability AS p, 1 AS s, 0 AS n "
            f"FROM scores FINAL {of_judge} UNION ALL "
            f"SELECT {_KEY}, toString(stratum) AS of_stratum, inclusion_probability AS p, 0 AS s, "
            f"toUInt8(decision = 'not_applicable') AS n FROM ledger FINAL {of_judge}) GROUP BY {_KEY}"
            f") AS d USING ({_KEY}) GROUP BY minute, stratum, tail ORDER BY minute, stratum, tail",
            {**window.parameters, "judge": judge, "runs": list(_RUNS)},
        )
        return [
            DecidedRow(
                minute=from_milliseconds(int(row[0])),
                stratum=str(row[1]),
                tail=None if row[2] < 0 else float(row[2]),
                traces=int(row[3]),
                scored=int(row[4]),
                not_applicable=int(row[5]),
            )
            for row in rows
        ]

    def by_hour(self, since: datetime, until: datetime, *, app: str | None = None) -> dict[datetime, int]:
        """Stored traces of each hour (UTC) of event time in [since, until)."""
        where = Where()
        where.add("event_time >= {since:DateTime64(6, 'UTC')}", since=bound_instant("since", since))
        where.add("event_time < {until:DateTime64(6, 'UTC')}", until=bound_instant("until", until))
        where.equal("app", app)
        rows = self._connection.query(
            f"SELECT toUnixTimestamp(toStartOfHour(event_time)) AS hour, count() FROM traces FINAL {where} "
            "GROUP BY hour ORDER BY hour",
            where.parameters,
        )
        return {EPOCH + timedelta(seconds=int(row[0])): int(row[1]) for row in rows}

    def judged(self, judge: str, since: datetime, until: datetime, *, app: str | None = None) -> int:
        """The number of traces of [since, until) of event time with a live score of the judge."""
        where = Where()
        where.add("event_time >= {since:DateTime64(6, 'UTC')}", since=bound_instant("since", since))
        where.add("event_time < {until:DateTime64(6, 'UTC')}", until=bound_instant("until", until))
        where.equal("judge_name", judge).equal("run_id", LIVE_RUN).equal("app", app)
        rows = self._connection.query(f"SELECT count() FROM scores FINAL {where}", where.parameters)
        return int(rows[0][0])

    def versions(self, since: datetime, until: datetime) -> list[FirstSeen]:
        """The versions of the traces of [since, until), each with its earliest event time in there."""
        rows = self._connection.query(
            "SELECT toString(environment), toString(app), toString(version), "
            "toUnixTimestamp64Milli(min(event_time)) FROM traces WHERE event_time >= {since:DateTime64(6, 'UTC')} "
            "AND event_time < {until:DateTime64(6, 'UTC')} GROUP BY environment, app, version "
            "ORDER BY environment, app, version",
            {"since": bound_instant("since", since), "until": bound_instant("until", until)},
        )
        return [FirstSeen(row[0], row[1], row[2], from_milliseconds(int(row[3]))) for row in rows]
