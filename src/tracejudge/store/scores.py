"""`scores`: one row for each (trace, JudgeId, run), whatever was delivered twice.

Which of several rows for one key counts is in `row_version`: a higher revision first, settled before invalid, and of
settled ones the first. `judged_at` is therefore never rewritten except by an explicit re-score.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from tracejudge.scores import LIVE_RUN, JudgeId, Outcome, Score, TraceKey
from tracejudge.store.blocks import Block
from tracejudge.store.connection import Connection, Row
from tracejudge.store.judges import Judges
from tracejudge.store.minutes import Minutes
from tracejudge.store.queries import RateQuery, ScoreFilter, TraceFilter
from tracejudge.store.rates import raw_buckets
from tracejudge.store.reported import ReportedModel, reported_models
from tracejudge.store.rows import BucketRow, Cursor, Inserted, Known, Pair
from tracejudge.store.score_blocks import score_block
from tracejudge.store.score_columns import scores_of, selected
from tracejudge.store.score_pairs import paired
from tracejudge.store.score_rows import MAX_REVISION, behind, row_version, score_conditions, sound
from tracejudge.store.strata_sizes import StratumSize, strata_sizes
from tracejudge.store.stretches import stretches
from tracejudge.store.table import Columns, RejectSink, Table, Where
from tracejudge.store.trace_index import KEYS_IN, key_parameters
from tracejudge.store.values import (
    bound_instant,
    from_microseconds,
    from_milliseconds,
    microseconds,
    milliseconds,
    optional_real,
    probability,
    real,
    text,
    whole,
)


class Scores(Table[Score]):
    """Verdicts of all runs; `run_id` "live" alone enters rates and alerts."""

    name = "scores"
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
        outcome="LowCardinality(String)",
        score="Nullable(Float64)",
        reason="LowCardinality(String)",
        feedback="String",
        raw_reply="String",
        stratum="LowCardinality(String)",
        inclusion_probability="Float64",
        content_hash="String",
        model_reported="LowCardinality(String)",
        fingerprint="LowCardinality(String)",
        flags="Array(LowCardinality(String))",
        usage_calls="UInt32",
        usage_input_tokens="UInt64",
        usage_output_tokens="UInt64",
        usage_cost_usd="Nullable(Float64)",
        usage_latency_ms="Float64",
        judged_at="DateTime64(6, 'UTC')",
        revision="UInt32",
        row_version="UInt64",
    )

    def __init__(self, connection: Connection, rejects: RejectSink, judges: Judges, minutes: Minutes) -> None:
        super().__init__(connection, rejects)
        self._judges = judges
        self._minutes = minutes

    def insert(self, scores: Sequence[Score]) -> Inserted:
        """Stores scores; safe to repeat in any split.

        A settled score whose number is missing, NaN, infinite or outside [0, 1] is stored as invalid / out_of_range:
        counted, never averaged. Rows that cannot be stored are in `rejected` and in `dead_letters`.
        """
        return self._insert(scores)

    def lookup(self, event_times: Mapping[TraceKey, datetime], run_id: str) -> dict[TraceKey, Known]:
        """Which judges have a settled or an invalid score for these traces. `event_times` (those of the trace index)
        make it a search by primary key."""
        settled: dict[TraceKey, set[JudgeId]] = {key: set() for key in event_times}
        invalid: dict[TraceKey, set[JudgeId]] = {key: set() for key in event_times}
        if event_times:
            instants = sorted(event_times.values())
            rows = self._connection.query(
                "SELECT environment, app, trace_id, judge_id, outcome FROM scores FINAL "
                "WHERE event_time >= {first:DateTime64(3, 'UTC')} AND event_time <= {last:DateTime64(3, 'UTC')} "
                "AND event_time IN {instants:Array(DateTime64(3, 'UTC'))} "
                f"AND run_id = {{run_id:String}} AND {KEYS_IN}",
                {
                    **key_parameters(event_times),
                    "first": bound_instant("event_time", instants[0]),
                    "last": bound_instant("event_time", instants[-1]),
                    "instants": sorted({bound_instant("event_time", at)[:-3] for at in instants}),
                    "run_id": run_id,
                },
            )
            for environment, app, trace_id, judge_id, outcome in rows:
                key = TraceKey(environment, app, trace_id)
                (settled if Outcome(outcome).settled else invalid)[key].add(JudgeId(judge_id))
        return {key: Known(at, frozenset(settled[key]), frozenset(invalid[key])) for key, at in event_times.items()}

    def since(self, cursor: Cursor | None, *, until: datetime, limit: int, words: bool = True) -> list[Score]:
        """Live scores judged after `cursor` and not after `until`, in (judged_at, trace_id) order.

        Without `words` what judges wrote (feedback, raw replies) stays in the store, and is empty here.

        About `limit` of them: rows that share the last one's place come along, so that a cursor set there skips none;
        empty only when there is nothing more. Costs what lies behind the cursor, not what is stored. A verdict that was
        replaced (invalid by settled, or by a re-score) appears again, at the place of its successor.
        """
        while True:
            end = self._end_of_page(cursor, until, limit)
            where = behind(cursor, end or Cursor(until, ""), inclusive=end is not None)
            # The index table knows the order, `scores FINAL` knows what is true. The instant is part of what must
            # agree: a replaced verdict has gone to a later place, and found here it would carry the cursor there.
            found = self._select(
                f"{where} AND run_id = {{run_id:String}} "
                f"AND ({_PLACE}) IN (SELECT {_PLACE} FROM scores_by_judged {where}) ORDER BY judged_at, trace_id",
                {**where.parameters, "run_id": LIVE_RUN},
                words=words,
            )
            if found or end is None:
                return found
            cursor = end  # all of these were replaced: go on after them

    def _end_of_page(self, cursor: Cursor | None, until: datetime, limit: int) -> Cursor | None:
        """The place of the `limit`-th row behind `cursor`; None when there are fewer."""
        where = behind(cursor, Cursor(until, ""), inclusive=False)
        # Not WITH TIES: that would read and sort all that lies behind the cursor, at every step of a long catching-up.
        rows = self._connection.query(
            f"SELECT judged_at, trace_id FROM scores_by_judged {where} "
            f"ORDER BY judged_at, trace_id LIMIT 1 OFFSET {max(0, int(limit) - 1)}",
            where.parameters,
        )
        return Cursor(from_microseconds(rows[0][0]), rows[0][1]) if rows else None

    def buckets(self, query: RateQuery, *, one_per_content: bool = False) -> list[BucketRow]:
        """Weighted counts per pane, judge, slice and stratum: what rates and their intervals are made of.

        From `minutes` where the window is long and made of whole minutes, else from the rows themselves; both give the
        same numbers. Panes without a score have no row. `one_per_content`: from the rows, with equal content within an
        hour as one observation.
        """
        if one_per_content:
            return raw_buckets(self._connection, self._judges, query, one_per_content=True)
        if (split := self._minutes.serves(query)) is not None:
            older = self._minutes.buckets(replace(query, end=split))
            return older + raw_buckets(self._connection, self._judges, replace(query, start=split))
        return raw_buckets(self._connection, self._judges, query)

    def strata_sizes(self, query: RateQuery) -> list[StratumSize] | None:
        """How many traces each stratum has for each judge; None where that cannot be known."""
        return strata_sizes(self._connection, query)

    def of_trace(self, trace_id: str, *, environment: str | None = None, app: str | None = None) -> list[Score]:
        """Every verdict on a trace, of all judges and runs, the latest first."""
        where = Where().add(
            "(environment, app, event_time, trace_id) IN (SELECT environment, app, event_time, trace_id "
            "FROM trace_index FINAL WHERE trace_id = {trace_id:String})",
            trace_id=trace_id,
        )
        where.equal("environment", environment).equal("app", app)
        return self._select(f"{where} ORDER BY judged_at DESC, judge_name, run_id", where.parameters)

    def worst(self, where: ScoreFilter, *, limit: int) -> list[Score]:
        """The lowest settled scores, the newest first among equals."""
        conditions = score_conditions(where).add("outcome != 'invalid'")
        order = f"ORDER BY score, event_time DESC, trace_id LIMIT {int(limit)}"
        return self._select(f"{conditions} {order}", conditions.parameters)

    def stream(
        self, where: ScoreFilter, beside: ScoreFilter | None = None, *, batch: int = 5000
    ) -> Iterator[list[Score]]:
        """The scores in (event time, trace id, ...) order, `batch` at a time, in constant memory.

        `beside`: only of traces that the judge and run of that filter scored in the same time, too.
        """
        order = ("event_time", "trace_id", "environment", "app", "judge_name", "judge_id", "run_id")
        types = ("DateTime64(3, 'UTC')", *("String",) * 6)
        after: Score | None = None
        bound = ", ".join(f"{{after_{name}:{kind}}}" for name, kind in zip(order, types, strict=True))
        for start, end in stretches(
            self._connection, "scores", where.start, where.end, environment=where.environment, app=where.app
        ):
            stretch = replace(where, start=start, end=end)
            while True:
                conditions = score_conditions(stretch)
                if beside is not None:
                    _scored_beside(conditions, beside, stretch)
                if after is not None:
                    cells = {f"after_{name}": getattr(after, name) for name in order[1:]}
                    cells["after_event_time"] = bound_instant("event_time", after.event_time)
                    conditions.add(f"({', '.join(order)}) > ({bound})", **cells)
                    conditions.add("event_time >= {after_event_time:DateTime64(3, 'UTC')}")
                tail = f"{conditions} ORDER BY {', '.join(order)} LIMIT {int(batch)}"
                page = self._select(tail, conditions.parameters)
                if page:
                    yield page
                    after = page[-1]
                if len(page) < batch:
                    break

    def count(self, where: ScoreFilter) -> int:
        """The number of scores."""
        conditions = score_conditions(where)
        return int(
            self._connection.query(f"SELECT count() FROM scores FINAL {conditions}", conditions.parameters)[0][0]
        )

    def outcomes(self, run_id: str) -> dict[Outcome, int]:
        """How many scores of a run have each outcome; none without a score."""
        rows = self._connection.query(
            "SELECT outcome, count() FROM scores FINAL WHERE run_id = {run_id:String} GROUP BY outcome",
            {"run_id": run_id},
        )
        return {Outcome(outcome): int(count) for outcome, count in rows}

    def span(self, where: ScoreFilter) -> tuple[datetime, datetime] | None:
        """The first and the last event time; None without a score."""
        conditions = score_conditions(where)
        sql = f"SELECT count(), min(event_time), max(event_time) FROM scores {conditions}"
        count, first, last = self._connection.query(sql, conditions.parameters)[0]
        return (from_milliseconds(first), from_milliseconds(last)) if count else None

    def judged_after(self, at: datetime) -> tuple[int, datetime | None]:
        """How many live scores were judged after `at`, and when the last of them was. Costs what lies behind `at`."""
        where = Where().add("judged_at > {at:DateTime64(6, 'UTC')}", at=bound_instant("at", at))
        count, last = self._connection.query(
            f"SELECT count(), max(judged_at) FROM scores FINAL {where} AND run_id = {{run_id:String}} "
            f"AND ({_PLACE}) IN (SELECT {_PLACE} FROM scores_by_judged {where})",
            {**where.parameters, "run_id": LIVE_RUN},
        )[0]
        return int(count), from_microseconds(last) if count else None

    def daily_spans(self, where: ScoreFilter) -> list[tuple[datetime, datetime]]:
        """The first and the last event time of each day (UTC) that has a score, in order."""
        conditions = score_conditions(where)
        sql = f"SELECT min(event_time), max(event_time) FROM scores {conditions} GROUP BY toDate(event_time, 'UTC')"
        rows = self._connection.query(sql, conditions.parameters)
        return sorted((from_milliseconds(first), from_milliseconds(last)) for first, last in rows)

    def judged_traces(self, where: ScoreFilter) -> int:
        """How many traces have a settled score; one that several judges judged counts once."""
        conditions = score_conditions(where)
        conditions.add("outcome != 'invalid'")
        sql = f"SELECT uniqExact(environment, app, event_time, trace_id) FROM scores FINAL {conditions}"
        return int(self._connection.query(sql, conditions.parameters)[0][0])

    def reported(self, since: datetime) -> list[ReportedModel]:
        """Models and fingerprints that came with live scores judged from `since` on, in order of first appearance."""
        return reported_models(self._connection, since)

    def judge_names(self, run_id: str) -> list[str]:
        """Names of the judges that have scores in a run, in order."""
        sql = "SELECT DISTINCT judge_name FROM scores WHERE run_id = {run_id:String} ORDER BY judge_name"
        return [str(row[0]) for row in self._connection.query(sql, {"run_id": run_id})]

    def run_ids(self) -> list[str]:
        """Every run that has scores, in order."""
        return [str(row[0]) for row in self._connection.query("SELECT DISTINCT run_id FROM scores ORDER BY run_id")]

    def pairs(
        self, run_a: str, run_b: str, *, judge_a: str, judge_b: str, where: TraceFilter | None = None
    ) -> Iterator[Pair]:
        """Traces judged in both runs, in event time order, each with both verdicts.

        `judge_*` is a judge name or a JudgeId. Under a name with several JudgeIds the latest verdict stands.
        """
        return paired(self.stream, run_a, run_b, judge_a=judge_a, judge_b=judge_b, where=where or TraceFilter())

    def _block(self, values: Sequence[Score]) -> Block:
        return score_block(values)

    def _encode(self, value: Score) -> Row:
        score = sound(value)
        usage = score.usage
        return (
            text("environment", score.environment),
            text("app", score.app),
            text("judge_name", score.judge_name),
            milliseconds("event_time", score.event_time),
            text("trace_id", score.trace_id),
            text("judge_id", score.judge_id),
            text("run_id", score.run_id),
            text("version", score.version),
            text("category", score.category),
            score.outcome.value,
            optional_real("score", score.score),
            text("reason", score.reason),
            text("feedback", score.feedback),
            text("raw_reply", score.raw_reply),
            text("stratum", score.stratum),
            probability("inclusion_probability", score.inclusion_probability),
            text("content_hash", score.content_hash),
            text("model_reported", score.model_reported),
            text("fingerprint", score.fingerprint),
            [text("flags", flag) for flag in score.flags],
            whole("usage.calls", usage.calls, high=2**32 - 1),
            whole("usage.input_tokens", usage.input_tokens),
            whole("usage.output_tokens", usage.output_tokens),
            optional_real("usage.cost_usd", usage.cost_usd),
            real("usage.latency_ms", usage.latency_ms),
            microseconds("judged_at", score.judged_at),
            whole("revision", score.revision, high=MAX_REVISION),
            row_version(score),
        )

    def _select(
        self,
        tail: str,
        parameters: Mapping[str, Any] | None = None,
        *,
        final: bool = True,
        binary: Sequence[str] = (),
        words: bool = True,
    ) -> list[Score]:
        sql = f"SELECT {selected(words=words)} FROM scores{' FINAL' if final else ''} {tail}"
        return scores_of(self._connection.query_columns(sql, parameters, binary=binary))


_PLACE: Final = "environment, app, judge_name, event_time, trace_id, judge_id, judged_at"


def _scored_beside(conditions: Where, beside: ScoreFilter, stretch: ScoreFilter) -> None:
    """Adds that the trace has a score by the judge and in the run of `beside`, in the time of `stretch`."""
    time = score_conditions(ScoreFilter(start=stretch.start, end=stretch.end, run_id=None))
    judge = "judge_id" if beside.judge is not None and "@" in beside.judge else "judge_name"
    for column, value in (("run_id", beside.run_id), (judge, beside.judge)):
        if value is not None:
            time.add(f"{column} = {{beside_{column}:String}}", **{f"beside_{column}": value})
    trace = "environment, app, event_time, trace_id"
    conditions.add(f"({trace}) IN (SELECT {trace} FROM scores {time})", **time.parameters)
