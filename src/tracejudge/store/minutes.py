"""`minutes`: live scores summed per whole minute, for windows of weeks.

Recomputed from `scores FINAL` for the minutes that were touched, by one owner, never added to: an at-least-once insert
into a sum would count twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from tracejudge.scores import LIVE_RUN
from tracejudge.store.connection import Connection
from tracejudge.store.judges import Judges
from tracejudge.store.progress import Progress
from tracejudge.store.queries import RateQuery
from tracejudge.store.rates import SUMS, bucket_row, pane, window
from tracejudge.store.rows import BucketRow
from tracejudge.store.values import EPOCH, bound_instant, microseconds

_KEYS: Final = "environment, app, judge_name, judge_id, minute, version, category, stratum"
_FIELDS: Final = ("n", "passed", "invalid", "sum_w", "sum_w2", "sum_wx", "sum_w2x", "sum_ws")
_SLICES: Final = frozenset({"environment", "app", "version", "category"})
_ZEROS: Final = ", ".join(f"0 AS s{number}" for number in range(len(SUMS)))
_TOTALS: Final = ", ".join(f"sum(s{number})" for number in range(len(SUMS)))
_NUMBERED: Final = ", ".join(f"{expression} AS s{number}" for number, expression in enumerate(SUMS))
_LONG_S: Final = 6 * 3600


class Minutes:
    """The rollup. `recompute` is for the leader alone; two at once could leave the older numbers."""

    def __init__(self, connection: Connection, judges: Judges) -> None:
        self._connection = connection
        self._judges = judges
        self._progress = Progress(connection, "minutes")

    def touched(self, since: datetime) -> list[datetime]:
        """Whole minutes of event time in which live scores were stored after `since` (the store's clock)."""
        rows = self._connection.query(
            "SELECT DISTINCT toUnixTimestamp(toStartOfMinute(event_time)) AS minute FROM scores "
            "WHERE run_id = {run_id:String} AND stored_at >= {since:DateTime64(6, 'UTC')} ORDER BY minute",
            {"run_id": LIVE_RUN, "since": bound_instant("since", since)},
        )
        return [EPOCH + timedelta(seconds=int(row[0])) for row in rows]

    def recompute(self, minutes: Sequence[datetime]) -> int:
        """Sums these minutes anew and returns how many. Repeating it changes nothing.

        A minute from which every score has gone is written as zeros, so that its old numbers do not stay.
        """
        wanted = sorted({microseconds("minutes", minute) // 60_000_000 * 60 for minute in minutes})
        for first in range(0, len(wanted), 1000):
            seconds = wanted[first : first + 1000]
            self._connection.command(
                f"INSERT INTO minutes ({_KEYS}, heuristic, {', '.join(_FIELDS)}, computed_at) "
                f"SELECT {_KEYS}, max(h), {_TOTALS}, now64(6) FROM ("
                "SELECT environment, app, judge_name, judge_id, toStartOfMinute(event_time) AS minute, version, "
                f"category, stratum, toUInt8(has(flags, 'heuristic')) AS h, {_NUMBERED} "
                "FROM scores FINAL WHERE run_id = {run_id:String} "
                "AND event_time >= {first:DateTime64(6, 'UTC')} AND event_time < {last:DateTime64(6, 'UTC')} "
                f"AND toUnixTimestamp(toStartOfMinute(event_time)) IN {{seconds:Array(UInt32)}} GROUP BY {_KEYS}, h "
                f"UNION ALL SELECT {_KEYS}, toUInt8(heuristic) AS h, {_ZEROS} "
                "FROM minutes FINAL WHERE toUnixTimestamp(minute) IN {seconds:Array(UInt32)}) "
                f"GROUP BY {_KEYS}",
                {
                    "run_id": LIVE_RUN,
                    "first": bound_instant("minutes", EPOCH + timedelta(seconds=seconds[0])),
                    "last": bound_instant("minutes", EPOCH + timedelta(seconds=seconds[-1] + 60)),
                    "seconds": seconds,
                },
                settings={"max_partitions_per_insert_block": 0},
            )
        return len(wanted)

    def rollup(self) -> int:
        """Recomputes every minute touched since the last call, whoever made it; returns how many."""
        now = self._progress.now()
        done = self.recompute(self.touched(self._progress.until()))
        self._progress.came_to(now)
        return done

    def serves(self, query: RateQuery) -> datetime | None:
        """Up to which instant these sums answer the query; None when they do not (short, or sliced otherwise)."""
        whole = query.start.second == query.start.microsecond == 0 and (query.step_s or 60) % 60 == 0
        whole = whole and query.end.second == query.end.microsecond == 0
        long = (query.end - query.start).total_seconds() >= _LONG_S
        plain = _SLICES.issuperset(query.group_by) and not query.also
        if not (whole and long and plain and query.run_id == LIVE_RUN):
            return None
        if (query.judge is None or "@" not in query.judge) and len(self._judges.adoptions(query.judge)) > 1:
            return None  # which JudgeId counts is decided per trace
        rolled_until = self._progress.until()
        if rolled_until == EPOCH:
            return None
        stale = [minute for minute in self.touched(rolled_until) if query.start <= minute < query.end]
        split = min(stale, default=query.end)
        if query.step_s is not None:  # the raw part must begin with a pane
            panes = int((split - query.start).total_seconds()) // query.step_s
            split = query.start + timedelta(seconds=panes * query.step_s)
        elif split < query.end:
            return None  # one pane from two sources would be two rows
        return split if split > query.start else None

    def buckets(self, query: RateQuery) -> list[BucketRow]:
        """The query answered from the sums alone."""
        where = window(query, "minute")
        grouped = "".join(f", {name}" for name in query.group_by)
        rows = self._connection.query(
            f"SELECT {pane(query, 'toInt64(toUnixTimestamp(minute)) * 1000')} AS pane, judge_name, judge_id, stratum, "
            f"max(heuristic), {', '.join(f'sum({name})' for name in _FIELDS)}{grouped} FROM minutes FINAL {where} "
            f"GROUP BY pane, judge_name, judge_id, stratum{grouped} HAVING sum(n) + sum(invalid) > 0 "
            f"ORDER BY pane, judge_name, judge_id, stratum{grouped}",
            where.parameters,
        )
        return [bucket_row(query, row) for row in rows]
