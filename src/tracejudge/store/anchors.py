"""`anchors` and `anchor_rounds`: frozen sets with their texts, and what judges said of them, round by round.

A set is a row for each anchor and one, without a case id, that lists them all; what is read is checked against the ids,
which are hashes. Texts stay as long as the set does, whatever becomes of the traces; `forget` takes them out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from tracejudge.anchors import Anchor, AnchorRound, AnchorsChanged, AnchorSet, Verdict
from tracejudge.anchors.anchor import check_set
from tracejudge.errors import NotFound, SettingsError
from tracejudge.scores import JudgeId
from tracejudge.store.connection import Connection, Row
from tracejudge.store.rows import Inserted
from tracejudge.store.table import Columns, RejectSink, Table, Where
from tracejudge.store.values import (
    bound_instant,
    flag,
    from_json,
    from_microseconds,
    microseconds,
    milliseconds,
    optional_text,
    text,
    to_json,
)
from tracejudge_sdk.trace import Trace

_INSTANT: Final = "DateTime64(6, 'UTC')"
_FINISHED: Final = 1 << 40  # above any number of verdicts
_LIST: Final = ""  # the case id of the row that lists the anchors


@dataclass(frozen=True, slots=True, kw_only=True)
class AnchorRow:
    """One row of `anchors`. The list of a set is nobody's trace."""

    set_id: str
    case_id: str
    record: str
    expected: str
    added_at: datetime
    trace: Trace | None = None


class Anchors(Table[AnchorRow]):
    """Frozen sets of anchors."""

    name = "anchors"
    columns = Columns(
        anchor_set="LowCardinality(String)",
        case_id="String",
        record="String",
        expected="String",
        added_at=_INSTANT,
        row_version="UInt64",
        environment="LowCardinality(String)",
        app="LowCardinality(String)",
        trace_id="String",
        event_time="DateTime64(3, 'UTC')",
        user_id="Nullable(String)",
    )

    def __init__(self, connection: Connection, rejects: RejectSink) -> None:
        super().__init__(connection, rejects)
        self.rounds = AnchorRounds(connection, rejects)

    def freeze(self, anchors: AnchorSet) -> Inserted:
        """Stores a set; safe to repeat. Raises SettingsError when another set has its name."""
        others = [one for one in self.names() if one.partition("@")[0] == anchors.name and one != anchors.set_id]
        if others:
            raise SettingsError(
                [f"anchors {anchors.name!r}: {others[0]} has this name and is frozen; choose another one"]
            )
        facts = {"name": anchors.name, "case_ids": list(anchors.case_ids), "origin": dict(anchors.origin)}
        rows = [
            AnchorRow(
                set_id=anchors.set_id,
                case_id=one.case_id,
                record=one.record,
                expected=to_json("labels", dict(one.labels)),
                added_at=anchors.built_at,
                trace=one.trace,
            )
            for one in anchors.anchors
        ]
        # The list last: without it there is no set.
        done = self._insert(rows)
        listed = AnchorRow(
            set_id=anchors.set_id, case_id=_LIST, record=to_json("facts", facts), expected="", added_at=anchors.built_at
        )
        self._insert([listed])
        return done

    def names(self) -> list[str]:
        """The ids of all sets, the oldest first."""
        rows = self._select("WHERE case_id = '' ORDER BY added_at, anchor_set")
        return [row.set_id for row in rows]

    def find(self, name: str) -> str:
        """The id of the set of this name, or of this id. Raises NotFound."""
        known = self.names()
        found = [one for one in known if one == name or one.partition("@")[0] == name]
        if not found:
            there = ", ".join(known) or "none"
            raise NotFound(f"there are no anchors {name!r}; sets: {there} (`tracejudge anchors build NAME` makes one)")
        return found[-1]

    def load(self, name: str) -> AnchorSet:
        """The set of this name or id. Raises NotFound, and AnchorsChanged when it is not what its id says."""
        set_id = self.find(name)
        rows = self._select("WHERE anchor_set = {set_id:String} ORDER BY case_id", {"set_id": set_id})
        facts = from_json(rows[0].record)
        anchors = []
        for row in rows[1:]:
            anchor = Anchor(record=row.record, labels={str(k): bool(v) for k, v in from_json(row.expected).items()})
            if anchor.case_id != row.case_id:
                raise AnchorsChanged(
                    f"anchors {set_id}: anchor {row.case_id} was changed in the store; build a new set"
                )
            anchors.append(anchor)
        found = AnchorSet(
            name=str(facts.get("name", "")),
            case_ids=tuple(facts.get("case_ids", ())),
            anchors=tuple(anchors),
            built_at=rows[0].added_at,
            origin=dict(facts.get("origin", {})),
        )
        return check_set(found, set_id=set_id)

    def _encode(self, value: AnchorRow) -> Row:
        trace = value.trace
        return (
            text("set_id", value.set_id),
            text("case_id", value.case_id),
            text("record", value.record),
            text("expected", value.expected),
            microseconds("added_at", value.added_at),
            0,
            "" if trace is None else text("environment", trace.environment),
            "" if trace is None else text("app", trace.app),
            "" if trace is None else text("trace_id", trace.trace_id),
            0 if trace is None else milliseconds("event_time", trace.event_time),
            None if trace is None else optional_text("user_id", trace.user_id),
        )

    def _decode(self, row: Row) -> AnchorRow:
        return AnchorRow(
            set_id=row[0], case_id=row[1], record=row[2], expected=row[3], added_at=from_microseconds(row[4])
        )


class AnchorRounds(Table[AnchorRound]):
    """Keyed by (set, JudgeId, start). More verdicts beat fewer, a finished round beats all."""

    name = "anchor_rounds"
    columns = Columns(
        anchor_set="LowCardinality(String)",
        judge_name="LowCardinality(String)",
        judge_id="LowCardinality(String)",
        round_at=_INSTANT,
        cause="LowCardinality(String)",
        finished_at=f"Nullable({_INSTANT})",
        heuristic="Bool",
        model_reported="LowCardinality(String)",
        fingerprint="LowCardinality(String)",
        verdicts="String",
        row_version="UInt64",
    )

    def save(self, value: AnchorRound) -> None:
        """Stores the present state of a round; safe to repeat."""
        self._insert([value])

    def of(
        self, set_id: str, judge_id: JudgeId | None = None, *, since: datetime | None = None, limit: int = 1000
    ) -> list[AnchorRound]:
        """The latest rounds of a set (and judge), unfinished ones too, the oldest first."""
        where = Where().equal("anchor_set", set_id).equal("judge_id", judge_id)
        if since is not None:
            where.add("round_at >= {since:DateTime64(6, 'UTC')}", since=bound_instant("since", since))
        found = self._select(f"{where} ORDER BY round_at DESC, judge_id LIMIT {int(limit)}", where.parameters)
        return found[::-1]

    def first(self, set_id: str, judge_id: JudgeId, *, limit: int = 5) -> list[AnchorRound]:
        """The first finished rounds of a judge: what the later ones are compared with."""
        where = Where().equal("anchor_set", set_id).equal("judge_id", judge_id).add("finished_at IS NOT NULL")
        return self._select(f"{where} ORDER BY round_at LIMIT {int(limit)}", where.parameters)

    def finished(self, *, after: datetime | None, until: datetime) -> Iterator[AnchorRound]:
        """Rounds that were finished in (after, until], in that order."""
        where = Where().add("finished_at <= {until:DateTime64(6, 'UTC')}", until=bound_instant("until", until))
        if after is not None:
            where.add("finished_at > {after:DateTime64(6, 'UTC')}", after=bound_instant("after", after))
        yield from self._select(f"{where} ORDER BY finished_at, anchor_set, judge_id", where.parameters)

    def _encode(self, value: AnchorRound) -> Row:
        finished = value.finished_at
        said = {case: [one.passed, one.expected] for case, one in sorted(value.verdicts.items())}
        return (
            text("set_id", value.set_id),
            text("judge_name", value.judge_name),
            text("judge_id", value.judge_id),
            microseconds("round_at", value.round_at),
            text("cause", value.cause),
            None if finished is None else microseconds("finished_at", finished),
            flag("heuristic", value.heuristic),
            text("model_reported", value.model_reported),
            text("fingerprint", value.fingerprint),
            to_json("verdicts", said),
            len(said) + (0 if finished is None else _FINISHED),
        )

    def _decode(self, row: Row) -> AnchorRound:
        said = json.loads(row[9]) if row[9] else {}
        return AnchorRound(
            set_id=row[0],
            judge_name=row[1],
            judge_id=JudgeId(row[2]),
            round_at=from_microseconds(row[3]),
            cause=row[4],
            finished_at=None if row[5] is None else from_microseconds(row[5]),
            heuristic=row[6],
            model_reported=row[7],
            fingerprint=row[8],
            verdicts={case: Verdict(passed, expected) for case, (passed, expected) in said.items()},
        )
