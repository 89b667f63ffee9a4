"""The ledger's equation: every trace is accounted for by a score, a decision, or as unaccounted."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from tracejudge.scores import LIVE_RUN, SHADOW_RUN, Decision, JudgeId
from tracejudge.store.connection import Connection, Row
from tracejudge.store.judges import Judges
from tracejudge.store.places import scope_of
from tracejudge.store.rows import LedgerLine, RegisteredJudge
from tracejudge.store.table import Where
from tracejudge.store.values import EPOCH, bound_instant, milliseconds

_ALWAYS_MS: Final = -(1 << 62)  # before every trace: a judge whose registration is not known answers for all


class Scope(NamedTuple):
    """The environment and app that the equation covers; None: any."""

    environment: str | None
    app: str | None

    def within(self, start: datetime, end: datetime) -> Where:
        return scope_of(self.environment, self.app).add(
            "event_time >= {start:DateTime64(6, 'UTC')} AND event_time < {end:DateTime64(6, 'UTC')}",
            start=bound_instant("since", start),
            end=bound_instant("until", end),
        )


def equation(
    connection: Connection,
    judges: Judges,
    since: datetime,
    until: datetime,
    *,
    run_id: str,
    hourly: bool,
    scope: Scope,
) -> list[LedgerLine]:
    """One line for each judge that has traces to answer for in [since, until) of event time, or for each of its
    hours (UTC); of the environment and app of `scope`.

    The judges are those seen in that time and, for live traces, those ever adopted: a consumer that died before it
    decided anything shows as unaccounted traces. Memory grows with a day's traces times the judges.
    """
    days = _days(connection, since, until, scope.within(since, until))
    names = _names(connection, judges, scope.within(since, until), run_id) if days else []
    registered = _registered(judges.all())
    # A replay is judged for what it was asked about; when its judges were registered says nothing there.
    as_it_comes = run_id in (LIVE_RUN, SHADOW_RUN)
    first = {name: registered[name].first for name in names if name in registered and as_it_comes}
    found: dict[tuple[str, datetime | None], Counter[str]] = defaultdict(Counter)
    ids: dict[tuple[str, datetime | None], Counter[JudgeId]] = defaultdict(Counter)
    reasons: dict[tuple[str, datetime | None], Counter[str]] = defaultdict(Counter)
    flagged: set[str] = set()
    for start, end in days:
        for hour_s, name, judge_id, fate, reason, heuristic, count in _fates(
            connection, scope.within(start, end), run_id, names, first
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
                min(seen, key=lambda one: (-seen[one], one)) if seen else judges.live_at(name, until) or JudgeId(name),
                hour,
                found[name, hour],
                reasons[name, hour],
                heuristic=name in flagged if known is None else known.heuristic,
            )
        )
    return lines


def _names(connection: Connection, judges: Judges, window: Where, run_id: str) -> list[str]:
    """Names of the judges that get a line."""
    window.equal("run_id", run_id)
    rows = connection.query(
        f"SELECT DISTINCT toString(judge_name) FROM scores {window} "
        f"UNION DISTINCT SELECT DISTINCT toString(judge_name) FROM ledger {window}",
        window.parameters,
    )
    adopted = judges.adoptions() if run_id == LIVE_RUN else []
    return sorted({str(row[0]) for row in rows} | {one.judge_name for one in adopted})


def _days(connection: Connection, since: datetime, until: datetime, window: Where) -> list[tuple[datetime, datetime]]:
    """The days (UTC) of [since, until) that hold any row, cut to it: a statement holds the traces of one day at most.

    A backlog read from a file may be years old; asking for every day since then would take minutes.
    """
    day = "toUnixTimestamp(toStartOfDay(event_time, 'UTC'))"
    rows = connection.query(
        " UNION DISTINCT ".join(
            f"SELECT DISTINCT {day} AS day FROM {table} {window}" for table in ("traces", "scores", "ledger")
        ),
        window.parameters,
    )
    midnights = sorted(EPOCH + timedelta(seconds=int(row[0])) for row in rows)
    return [(max(since, midnight), min(until, midnight + timedelta(days=1))) for midnight in midnights]


def _fates(
    connection: Connection, window: Where, run_id: str, names: Sequence[str], first: Mapping[str, datetime]
) -> list[Row]:
    """Counts of what became of each trace, by hour and judge: an outcome, a decision (with its reason where it is
    not applicable), or "unaccounted"."""
    where = f"{window} AND run_id = {{run_id:String}}"
    trace = "judge_name, environment, app, event_time, trace_id"
    plain = "toString(judge_name) AS judge_name, environment, app, event_time, trace_id"
    # A score beats a decision, those beat each other by _STRENGTH, anything beats having nothing; of several
    # JudgeIds of one name the first counts. As one text that sorts by (rank, at, judge_id): the least of tuples takes
    # the engine twice the time.
    order = "toString(rank), hex(toUInt64(toUnixTimestamp64Micro(at) + bitShiftLeft(toInt64(1), 62)))"
    return connection.query(
        "SELECT toUnixTimestamp(toStartOfHour(event_time)) AS hour, judge_name, said[1], said[2], said[3], "
        "max(flagged), count() FROM ("
        f"SELECT {trace}, min(concat({order}, judge_id, '\\0', fate, '\\0', why)) AS winner, "
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
        f") GROUP BY {trace}) "
        "GROUP BY hour, judge_name, splitByChar('\\0', substring(winner, 18)) AS said",
        {
            **window.parameters,
            "run_id": run_id,
            "names": list(names),
            "firsts_ms": [
                milliseconds("registered_at", first[name]) if name in first else _ALWAYS_MS for name in names
            ],
        },
    )


class _Registered(NamedTuple):
    """The registrations of one judge name taken together."""

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
