"""Judged traces with what they say about themselves: a random choice of bounded size, for a closer look at a change."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple

from tracejudge.scores import LIVE_RUN, Bucket, JudgeId
from tracejudge.store.connection import Connection
from tracejudge.store.slice_filter import slice_of
from tracejudge.store.table import Where
from tracejudge.store.values import bound_instant, from_milliseconds

_LONGEST_S: Final = {"max_execution_time": "10"}
"""A look at evidence must not hold up the loop that asks for it."""

_OF_SCORE: Final = ("version", "category", "stratum")
_OF_TRACE: Final = ("model", "prompt_version", "index_version", "language", "status")


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedQuery:
    """Settled live rows of one JudgeId in one application: event time in [start, end), judged at `judged_until` at the
    latest. `group` holds values that fields of the score (version, category, stratum) or of its trace (`TRACE_FIELDS`,
    tags.NAME) must have."""

    start: datetime
    end: datetime
    judged_until: datetime
    environment: str
    app: str
    judge_id: JudgeId
    group: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedRow:
    """One settled verdict with the facts of its trace. `fields` holds what is said: no empty values, tags as
    "tags.NAME". `others` are verdicts of other judges on the same trace, by name."""

    trace_id: str
    event_time: datetime
    passed: bool
    score: float
    weight: float
    content_hash: str = ""
    fields: Mapping[str, str] = field(default_factory=dict)
    signals: Mapping[str, Any] = field(default_factory=dict)
    others: Mapping[str, bool] = field(default_factory=dict)

    @property
    def observation(self) -> tuple[int, str]:
        """Rows that share it are one observation: equal content within an hour."""
        return (int(self.event_time.timestamp()) // 3600, self.content_hash or f"trace {self.trace_id}")


class Verdict(NamedTuple):
    """A settled verdict, and nothing of its trace."""

    event_time: datetime
    passed: bool
    inclusion_probability: float
    content_hash: str


class Judged:
    """Reads `scores` beside `traces`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def sample(self, query: JudgedQuery, *, limit: int, others: Sequence[str] = ()) -> list[JudgedRow]:
        """At most `limit` of the rows, chosen by a hash of the trace id alone: the same ones each time, and no verdict,
        slice or weight has a say in it. In order of (event time, trace id). `others` names judges to look up as well.
        """
        chosen, where = self._chosen(query, limit)
        beside = ", ".join(f"ifNull({name}, '') AS t_{name}" for name in _OF_TRACE)
        rows = self._connection.query(
            f"SELECT s.event_time, s.trace_id, s.passed, s.score, s.p, s.content_hash, {_listed('s', _OF_SCORE)}, "
            f"{_listed('t', [f't_{name}' for name in _OF_TRACE])}, t.tags, t.signals FROM ({chosen}) AS s LEFT JOIN ("
            f"SELECT event_time, trace_id, {beside}, tags, signals FROM traces FINAL "
            "WHERE environment = {environment:String} AND app = {app:String} AND event_time >= "
            "{start:DateTime64(6, 'UTC')} AND event_time < {end:DateTime64(6, 'UTC')} "
            f"AND (event_time, trace_id) IN (SELECT event_time, trace_id FROM ({chosen}))"
            ") AS t USING (event_time, trace_id) ORDER BY s.event_time, s.trace_id",
            where.parameters,
            settings=_LONGEST_S,
        )
        verdicts = self._verdicts(chosen, where, others) if others else {}
        return [_row(row, verdicts.get((row[0], row[1]), {})) for row in rows]

    def verdicts(self, query: JudgedQuery, *, limit: int) -> list[Verdict]:
        """The last `limit` rows in order of (event time, trace id)."""
        where = _where(query)
        rows = self._connection.query(
            "SELECT event_time, outcome = 'passed', inclusion_probability, content_hash FROM scores FINAL "
            f"{where} ORDER BY event_time DESC, trace_id DESC LIMIT {int(limit)}",
            where.parameters,
        )
        return [
            Verdict(from_milliseconds(at), bool(passed), float(chance), content)
            for at, passed, chance, content in reversed(rows)
        ]

    def count(self, query: JudgedQuery) -> int:
        """How many rows there are to choose from."""
        where = _where(query)
        return int(self._connection.query(f"SELECT count() FROM scores FINAL {where}", where.parameters)[0][0])

    def without_passages(self, query: JudgedQuery) -> Bucket:
        """How much of the traffic the judge could not judge because no passage came with it, as the "passed" of a
        bucket of these and all settled ones. Such traces have no verdict: no pass rate shows them."""
        sums = "count(), sum(1 / inclusion_probability), sum(1 / (inclusion_probability * inclusion_probability))"
        where = _where(query)
        (settled,) = self._connection.query(f"SELECT {sums} FROM scores FINAL {where}", where.parameters)
        where = _where(query, at="decided_at", settled=False)
        where.add("decision = 'not_applicable' AND reason IN ('no_context', 'no_passage_text')")
        (without,) = self._connection.query(f"SELECT {sums} FROM ledger FINAL {where}", where.parameters)
        n, w, w2 = int(without[0]), float(without[1] or 0.0), float(without[2] or 0.0)
        return Bucket(
            n=n + int(settled[0]),
            passed=n,
            sum_w=w + float(settled[1] or 0.0),
            sum_w2=w2 + float(settled[2] or 0.0),
            sum_wx=w,
            sum_w2x=w2,
        )

    def _chosen(self, query: JudgedQuery, limit: int) -> tuple[str, Where]:
        where = _where(query)
        return (
            "SELECT event_time, trace_id, outcome = 'passed' AS passed, ifNull(score, 0) AS score, "
            f"inclusion_probability AS p, content_hash, {', '.join(_OF_SCORE)} FROM scores FINAL {where} "
            f"ORDER BY sipHash64(trace_id), event_time LIMIT {int(limit)}"
        ), where

    def _verdicts(self, chosen: str, where: Where, judges: Sequence[str]) -> dict[tuple[int, str], dict[str, bool]]:
        rows = self._connection.query(
            "SELECT event_time, trace_id, judge_name, outcome = 'passed' FROM scores FINAL "
            "WHERE environment = {environment:String} AND app = {app:String} AND event_time >= "
            "{start:DateTime64(6, 'UTC')} AND event_time < {end:DateTime64(6, 'UTC')} "
            "AND run_id = {run_id:String} AND outcome != 'invalid' AND judge_name IN {others:Array(String)} "
            f"AND (event_time, trace_id) IN (SELECT event_time, trace_id FROM ({chosen})) ORDER BY judged_at DESC",
            {**where.parameters, "others": list(judges)},
            settings=_LONGEST_S,
        )
        found: dict[tuple[int, str], dict[str, bool]] = {}
        for at, trace_id, judge, passed in rows:  # the first verdict of a name stands, whoever succeeded its judge
            found.setdefault((at, trace_id), {})[judge] = bool(passed)
        return found


def _where(query: JudgedQuery, *, at: str = "judged_at", settled: bool = True) -> Where:
    where = Where().equal("environment", query.environment).equal("app", query.app)
    where.equal("judge_name", query.judge_id.partition("@")[0]).equal("judge_id", query.judge_id)
    where.equal("run_id", LIVE_RUN)
    where.add("event_time >= {start:DateTime64(6, 'UTC')}", start=bound_instant("start", query.start))
    where.add("event_time < {end:DateTime64(6, 'UTC')}", end=bound_instant("end", query.end))
    where.add(f"{at} <= {{until:DateTime64(6, 'UTC')}}", until=bound_instant("until", query.judged_until))
    slice_of(
        where,
        query.group,
        since="event_time >= {start:DateTime64(6, 'UTC')} AND event_time < {end:DateTime64(6, 'UTC')}",
    )
    # Rarer ones are no observation to alerts either (alerts.state.SMALLEST_PROBABILITY), and 0 has no weight at all.
    where.add("inclusion_probability >= 1e-7")
    return where.add("outcome != 'invalid'") if settled else where


def _listed(table: str, names: Sequence[str]) -> str:
    return ", ".join(f"{table}.{name}" for name in names)


def _row(row: tuple[Any, ...], others: Mapping[str, bool]) -> JudgedRow:
    first = 6 + len(_OF_SCORE)
    said = dict(zip((*_OF_SCORE, *_OF_TRACE), row[6 : first + len(_OF_TRACE)], strict=True))
    tags, signals = row[first + len(_OF_TRACE) :]
    said |= {f"tags.{name}": value for name, value in tags.items()}
    return JudgedRow(
        trace_id=row[1],
        event_time=from_milliseconds(row[0]),
        passed=bool(row[2]),
        score=float(row[3]),
        weight=1.0 / float(row[4]),
        content_hash=row[5],
        fields={name: value for name, value in said.items() if value},
        signals=json.loads(signals) if signals else {},
        others=others,
    )
