"""Taking a trace or a person out of the store, and keeping them out.

The tombstone comes first: from then on the consumer stores nothing more of them. What an earlier batch still had in its
hands is found by `sweep`, which looks at the rows stored since its last call. Every step may be repeated, and whatever
the keys are found by goes last, so that a deletion that was killed is finished by the next one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from tracejudge.scores import LIVE_RUN, Decision, JudgeId, LedgerRow, TraceKey
from tracejudge.store.connection import Connection
from tracejudge.store.ledger import Ledger
from tracejudge.store.mentions import Mentions
from tracejudge.store.minutes import Minutes
from tracejudge.store.mutations import Mutations
from tracejudge.store.places import Place, at_places, chunks, scope_of
from tracejudge.store.progress import Progress
from tracejudge.store.table import Where
from tracejudge.store.tombstones import ANY, PREFIX, Identity, Kind, Tombstone, Tombstones, hashed
from tracejudge.store.values import bound_instant, from_milliseconds

_CACHES: Final = ("cached_verdicts", "verdict_cache")  # the second is what releases before migration 8 write
_BY_TIME: Final = ("scores", "scores_by_judged", "ledger")  # found through their event time
_BY_ID: Final = ("labels", "feedback", "parts", "anchors")
_LOOSE: Final = (*_BY_ID, "calls")  # found by the trace's id alone
_SWEPT: Final = ("traces", "trace_index", "scores", "ledger", "parts", "labels", "feedback", "calls")

_RECENT: Final = {"calls": "started_at >= {since:DateTime64(6, 'UTC')} - INTERVAL 1 DAY"}
"""Instead of an index by `stored_at`: a call is stored when it has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    """What was deleted: how many traces, and how many rows of which table (versions not yet merged away included)."""

    traces: int
    rows: Mapping[str, int]

    @property
    def total(self) -> int:
        return sum(self.rows.values())


class Forgetting:
    """Deletes for good: the parts of the tables that held the rows are rewritten, and the old ones leave the disk some
    minutes later (ClickHouse's `old_parts_lifetime`, 8 minutes by default)."""

    def __init__(self, connection: Connection, *, tombstones: Tombstones, ledger: Ledger, minutes: Minutes) -> None:
        self._connection = connection
        self._tombstones = tombstones
        self._ledger = ledger
        self._minutes = minutes
        self._mutations = Mutations(connection)
        self._mentions = Mentions(connection, self._mutations)
        self._progress = Progress(connection, "swept")

    def forget(
        self,
        kind: Kind,
        value: str,
        *,
        at: datetime,
        environment: str | None = None,
        app: str | None = None,
        reason: str = "",
        by: str = "",
    ) -> Forgotten:
        """Forgets a trace id or a user id, in one environment or app or in all of them; safe to repeat.

        For each judge that had a live score or a decision about a trace, the ledger keeps that one was forgotten,
        under a hash, so that its equation still adds up.
        """
        stone = Tombstone(
            kind=kind,
            value=hashed(kind, value),
            environment=environment or ANY,
            app=app or ANY,
            reason=reason,
            by=by,
            at=at,
        )
        self._tombstones.insert([stone])
        places = self._places_of(kind, value, environment, app)
        if kind == "user":
            # Feedback and parts name their trace, not the person: a replay must know them by the trace.
            self._tombstones.insert([_stone(key, stone) for key in sorted({place.key for place in places})])
        rows = self._delete(places, at)
        if kind == "trace":
            rows += self._loose(scope_of(environment, app).equal("trace_id", value))
        rows += self._mentions.dead_letters(kind, [value])
        if kind == "user":
            rows += self._mentions.dead_letters("trace", sorted({place.key.trace_id for place in places}))
        rows += self._mentions.texts([value])
        return Forgotten(traces=len({place.key for place in places}), rows=_seen(rows))

    def sweep(self, *, at: datetime) -> Forgotten:
        """Deletes what any process has stored since the last sweep of traces that had been forgotten before.

        A batch that was read before the tombstone stood is stored after it. Costs what was stored since, and nothing
        where nothing was ever forgotten.
        """
        now = self._progress.now()
        if not self._connection.query("SELECT 1 FROM tombstones LIMIT 1"):
            self._progress.came_to(now)
            return Forgotten(traces=0, rows={})
        since = self._progress.until()
        recent: dict[TraceKey, set[datetime]] = {}
        identities: set[Identity] = set()
        for table in _SWEPT:
            time = "event_time" if table not in _LOOSE else "NULL"
            user, buried = "NULL", _buried("trace", "trace_id")
            if table == "traces":
                user, buried = "user_id", f"{buried} OR {_buried('user', 'user_id')}"
            found = self._connection.query(
                f"SELECT DISTINCT environment, app, trace_id, {user}, {time} FROM {table} "
                f"WHERE {_RECENT.get(table, '1')} AND stored_at >= {{since:DateTime64(6, 'UTC')}} AND ({buried})",
                {"since": bound_instant("since", since)},
            )
            for environment, app, trace_id, user_id, time_ms in found:
                key = TraceKey(environment, app, trace_id)
                identities.add(Identity(key, user_id))
                times = recent.setdefault(key, set())
                if time_ms is not None:
                    times.add(from_milliseconds(time_ms))
        buried_keys = sorted(self._tombstones.forgotten(identities))  # a tombstone may be of one app alone
        rows = self._delete([Place(key, time) for key in buried_keys for time in sorted(recent[key])], at)
        for key in buried_keys:
            rows += self._loose(scope_of(key.environment, key.app).equal("trace_id", key.trace_id))
        self._progress.came_to(now)
        return Forgotten(traces=len(buried_keys), rows=_seen(rows))

    # ------------------------------------------------------------------ finding

    def _places_of(self, kind: Kind, value: str, environment: str | None, app: str | None) -> list[Place]:
        scope = scope_of(environment, app)
        if kind == "trace":
            scope.equal("trace_id", value)
            sources = [f"{table} {scope}" for table in ("traces", "trace_index", "scores", "ledger", "anchors")]
        else:
            scope.add("user_id = {user_id:String}", user_id=value)
            owner = "JSONExtractString(record, 'user_id') = {user_id:String}"
            waiting = f"parts {scope_of(environment, app).add(owner)}"
            # A part's time is its own; that of its trace, where there is one, is in the index.
            indexed = (
                f"trace_index WHERE (environment, app, trace_id) IN (SELECT environment, app, trace_id FROM {waiting})"
            )
            sources = [f"traces {scope}", f"anchors {scope}", waiting, indexed]
        rows = self._connection.query(
            " UNION DISTINCT ".join(
                "SELECT toString(environment), toString(app), trace_id, event_time FROM " + source for source in sources
            ),
            scope.parameters,
        )
        return sorted(Place(TraceKey(*row[:3]), from_milliseconds(row[3])) for row in rows)

    # ------------------------------------------------------------------ deleting

    def _delete(self, places: Sequence[Place], at: datetime) -> Counter[str]:
        rows: Counter[str] = Counter()
        for chunk in chunks(places):
            chunk = self._with_other_times(chunk)
            by_id, by_time = at_places(chunk, timed=False), at_places(chunk, timed=True)
            self._remember(by_time, at)
            hashes = self._connection.query(
                f"SELECT DISTINCT content_hash FROM scores {by_time} AND content_hash != ''", by_time.parameters
            )
            if hashes:
                cached = Where().add("content_hash IN {hashes:Array(String)}", hashes=[row[0] for row in hashes])
                for table in _CACHES:
                    rows["cached_verdicts"] += self._mutations.remove(table, cached)
            for table in _BY_TIME:
                rows[table] += self._mutations.remove(table, by_time)
            rows += self._loose(by_id)
            self._minutes.recompute(sorted({place.event_time for place in chunk}))
            rows += self._mentions.texts(sorted({place.key.trace_id for place in chunk}))
            rows["traces"] += self._mutations.remove("traces", by_time)
            rows["trace_index"] += self._mutations.remove("trace_index", by_id)
        return rows

    def _with_other_times(self, chunk: list[Place]) -> list[Place]:
        """The places, and those where verdicts stand under another time than the trace's. Nothing of ours writes such
        rows; but what is forgotten must be gone whoever wrote it, and a look at every id costs less than a doubt."""
        by_id = at_places(chunk, timed=False)
        key = chunk[0].key
        rows = self._connection.query(
            " UNION DISTINCT ".join(
                f"SELECT DISTINCT trace_id, event_time FROM {table} {by_id}" for table in ("scores", "ledger")
            ),
            by_id.parameters,
        )
        found = {Place(key._replace(trace_id=row[0]), from_milliseconds(row[1])) for row in rows}
        return sorted({*chunk, *found})

    def _loose(self, chosen: Where) -> Counter[str]:
        """What may have come without its trace. Money that was spent stays spent; whose answer it was for goes."""
        rows = Counter({table: self._mutations.remove(table, chosen) for table in _BY_ID})
        rows["calls"] = self._mutations.change("calls", "trace_id = ''", chosen)
        return rows

    def _remember(self, chosen: Where, at: datetime) -> None:
        """Writes into the ledger that live traces were forgotten, by a hash, before anything else says nothing."""
        columns = "environment, app, version, category, trace_id, event_time, judge_name, judge_id, stratum"
        live = f"{chosen} AND run_id = '{LIVE_RUN}'"
        found = self._connection.query(
            f"SELECT {columns}, inclusion_probability FROM scores FINAL {live} UNION ALL "
            f"SELECT {columns}, inclusion_probability FROM ledger FINAL {live} AND decision != 'forgotten'",
            chosen.parameters,
        )
        self._ledger.insert(
            [
                forgotten_row(
                    TraceKey(row[0], row[1], row[4]),
                    version=row[2],
                    category=row[3],
                    event_time=from_milliseconds(row[5]),
                    judge_name=row[6],
                    judge_id=JudgeId(row[7]),
                    stratum=row[8],
                    inclusion_probability=row[9],
                    at=at,
                )
                for row in found
            ]
        )


def forgotten_row(
    key: TraceKey,
    *,
    version: str,
    category: str,
    event_time: datetime,
    judge_name: str,
    judge_id: JudgeId,
    at: datetime,
    stratum: str = "",
    inclusion_probability: float = 1.0,
) -> LedgerRow:
    """What the ledger keeps of a trace that was forgotten: that there was one, under a hash instead of its id."""
    return LedgerRow(
        environment=key.environment,
        app=key.app,
        version=version,
        category=category,
        trace_id=hashed("trace", key.trace_id)[:32],
        event_time=event_time,
        judge_name=judge_name,
        judge_id=judge_id,
        decision=Decision.FORGOTTEN,
        reason="forgotten on request",
        stratum=stratum,
        inclusion_probability=inclusion_probability,
        decided_at=at,
    )


def _stone(key: TraceKey, cause: Tombstone) -> Tombstone:
    return Tombstone(
        kind="trace",
        value=hashed("trace", key.trace_id),
        environment=key.environment,
        app=key.app,
        reason=cause.reason,
        by=cause.by,
        at=cause.at,
    )


def _buried(kind: Kind, column: str) -> str:
    """SQL that is true where a tombstone somewhere names the column's id."""
    hash_of = f"lower(hex(SHA256(concat('{PREFIX}:{kind}:', ifNull({column}, '')))))"
    return f"{hash_of} IN (SELECT value FROM tombstones WHERE kind = '{kind}')"


def _seen(rows: Mapping[str, Any]) -> dict[str, int]:
    return {table: count for table, count in sorted(rows.items()) if count}
