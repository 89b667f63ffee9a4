"""`judges` and `adoptions`: which JudgeIds there are, and which one stands behind a judge name from when on."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from tracejudge.scores import JudgeId
from tracejudge.store.connection import Connection, Row
from tracejudge.store.rows import Adoption, RegisteredJudge
from tracejudge.store.table import Columns, RejectSink, Table
from tracejudge.store.values import (
    flag,
    from_json,
    from_microseconds,
    from_milliseconds,
    microseconds,
    milliseconds,
    text,
    to_json,
)


class _Adoptions(Table[Adoption]):
    name = "adoptions"
    columns = Columns(
        judge_name="LowCardinality(String)",
        live_from="DateTime64(3, 'UTC')",
        judge_id="String",
        adopted_by="String",
        note="String",
    )

    def _encode(self, value: Adoption) -> Row:
        return (
            text("judge_name", value.judge_name),
            milliseconds("live_from", value.live_from),
            text("judge_id", value.judge_id),
            text("adopted_by", value.adopted_by),
            text("note", value.note),
        )

    def _decode(self, row: Row) -> Adoption:
        return Adoption(
            judge_name=row[0],
            live_from=from_milliseconds(row[1]),
            judge_id=JudgeId(row[2]),
            adopted_by=row[3],
            note=row[4],
        )

    def add(self, adoption: Adoption) -> None:
        self._insert([adoption])

    def all(self, judge_name: str | None) -> list[Adoption]:
        where = "WHERE judge_name = {judge_name:String}" if judge_name is not None else ""
        return self._select(f"{where} ORDER BY judge_name, live_from", {"judge_name": judge_name} if where else None)


class Judges(Table[RegisteredJudge]):
    """Registered JudgeIds, the first registration of each kept."""

    name = "judges"
    columns = Columns(
        judge_name="LowCardinality(String)",
        judge_id="String",
        spec="String",
        heuristic="Bool",
        registered_at="DateTime64(6, 'UTC')",
        row_version="UInt64",
    )

    def __init__(self, connection: Connection, rejects: RejectSink) -> None:
        super().__init__(connection, rejects)
        self._adoptions = _Adoptions(connection, rejects)

    def register(self, judges: Sequence[RegisteredJudge]) -> None:
        """Makes JudgeIds known, with the spec behind each."""
        self._insert(judges)

    def all(self) -> list[RegisteredJudge]:
        """Every JudgeId, by name and age."""
        return self._select("ORDER BY judge_name, registered_at, judge_id")

    def adopt(self, adoption: Adoption) -> None:
        """From `live_from` (event time) on, the name's rates read this JudgeId."""
        self._adoptions.add(adoption)

    def adoptions(self, judge_name: str | None = None) -> list[Adoption]:
        """The adoptions in order: which JudgeId was live from which event time on."""
        return self._adoptions.all(judge_name)

    def live_at(self, judge_name: str, instant: datetime) -> JudgeId | None:
        """The JudgeId behind the name at an event time; the first one adopted also covers all that went before."""
        adopted = self.adoptions(judge_name)
        if not adopted:
            return None
        return [one for one in adopted if one.live_from <= instant or one is adopted[0]][-1].judge_id

    def _encode(self, value: RegisteredJudge) -> Row:
        registered_us = microseconds("registered_at", value.registered_at)
        return (
            text("judge_name", value.judge_name),
            text("judge_id", value.judge_id),
            to_json("spec", value.spec),
            flag("heuristic", value.heuristic),
            registered_us,
            2**63 - registered_us,
        )

    def _decode(self, row: Row) -> RegisteredJudge:
        return RegisteredJudge(
            judge_name=row[0],
            judge_id=JudgeId(row[1]),
            spec=from_json(row[2]),
            heuristic=row[3],
            registered_at=from_microseconds(row[4]),
        )
