"""`traces`: every served answer, whole, so that replay never depends on the queue's retention."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from tracejudge.scores import TraceKey
from tracejudge.store.blocks import Block
from tracejudge.store.connection import Connection, Row
from tracejudge.store.queries import TraceFilter
from tracejudge.store.rows import Inserted, StoredTrace, TracePlace
from tracejudge.store.stretches import stretches
from tracejudge.store.table import Columns, RejectSink, Table, Where
from tracejudge.store.trace_blocks import trace_block, trace_version
from tracejudge.store.trace_filters import DRAWN, judged_conditions, trace_conditions
from tracejudge.store.trace_index import KEYS_IN, TraceIndex, key_parameters
from tracejudge.store.trace_rows import ASKED, SERVED, TEXTS, TraceColumns, TraceReader, text_chars
from tracejudge.store.values import (
    bound_instant,
    flag,
    milliseconds,
    optional_real,
    optional_text,
    real,
    text,
    to_json,
    whole,
)

_OPTIONAL_NAME: Final = "LowCardinality(Nullable(String))"


class Traces(Table[StoredTrace]):
    """Keyed by (environment, app, event time, trace id). A complete trace beats an incomplete one, then the first
    stored wins: what was judged stays what is shown."""

    name = "traces"
    columns = Columns(
        environment="LowCardinality(String)",
        app="LowCardinality(String)",
        event_time="DateTime64(3, 'UTC')",
        trace_id="String",
        version="LowCardinality(String)",
        query="String",
        response="Nullable(String)",
        status="LowCardinality(String)",
        error="Nullable(String)",
        node_ids="Array(String)",
        node_texts="Array(Nullable(String))",
        node_scores="Array(Nullable(Float64))",
        node_metadata="Array(String)",
        history_roles="Array(LowCardinality(String))",
        history_contents="Array(String)",
        reference="Nullable(String)",
        expected_ids="Array(String)",
        case_id="Nullable(String)",
        latency_ms="Nullable(Float64)",
        model=_OPTIONAL_NAME,
        prompt_version=_OPTIONAL_NAME,
        index_version=_OPTIONAL_NAME,
        category=_OPTIONAL_NAME,
        session_id="Nullable(String)",
        user_id="Nullable(String)",
        language=_OPTIONAL_NAME,
        tags="Map(String, String)",
        truncated="Bool",
        lossy="Bool",
        head_probability="Float64",
        sdk="LowCardinality(String)",
        signals="String",
        ingested_at="DateTime64(3, 'UTC')",
        source="LowCardinality(String)",
        partition="Int32",
        offset="Int64",
        text_chars="UInt64",
        row_version="UInt64",
    )
    _read = TraceReader(columns.names)

    def __init__(self, connection: Connection, rejects: RejectSink, index: TraceIndex) -> None:
        super().__init__(connection, rejects)
        self._index = index

    def insert(self, traces: Sequence[StoredTrace]) -> Inserted:
        """Stores traces; a trace already known keeps the event time that its first record fixed.

        Safe to repeat in any split. Rows that cannot be stored are in `rejected` and in `dead_letters`.
        """
        # The index first: once it holds the event time, a crash before the next line changes nothing.
        block = self._checked(traces)
        if block is not None:
            keys = [one.key for one in traces]
            wanted = zip(reversed(keys), reversed(block.columns["event_time"]), strict=True)
            fixed = self._index.fix(dict(wanted))
            block.columns["event_time"] = [fixed[key] for key in keys]
            if self._write_block(block):
                return Inserted(stored=len(traces))
        good, bad = self._encode_all(traces)
        at = self.columns.names.index("event_time")
        fixed = self._index.fix({traces[i].key: row[at] for i, row in reversed(good)})
        good = [(i, (*row[:at], fixed[traces[i].key], *row[at + 1 :])) for i, row in good]
        return self._write(traces, good, bad)

    def get(self, trace_id: str, *, environment: str | None = None, app: str | None = None) -> list[StoredTrace]:
        """The traces of this id (one for each environment and app that used it)."""
        places = self._index.places(trace_id, environment=environment, app=app)
        found: list[StoredTrace] = []
        for key, event_time in places:
            where = Where().equal("environment", key.environment).equal("app", key.app)
            where.add("event_time = {at:DateTime64(3, 'UTC')}", at=bound_instant("event_time", event_time))
            where.equal("trace_id", trace_id)
            found += self._select(f"{where}", where.parameters)
        return found

    def of(self, keys: Sequence[TraceKey]) -> dict[TraceKey, StoredTrace]:
        """The traces of these keys; unknown ones are absent. Two statements, whatever their number."""
        places = self._index.find(keys)
        if not places:
            return {}
        instants = sorted(places.values())
        where = (
            Where()
            .add("event_time >= {first:DateTime64(3, 'UTC')}", first=bound_instant("event_time", instants[0]))
            .add("event_time <= {last:DateTime64(3, 'UTC')}", last=bound_instant("event_time", instants[-1]))
            .add(
                "event_time IN {instants:Array(DateTime64(3, 'UTC'))}",
                instants=sorted({bound_instant("event_time", at)[:-3] for at in instants}),
            )
            .add(KEYS_IN, **key_parameters(places))
        )
        return {one.key: one for one in self._select(f"{where}", where.parameters)}

    def at(self, places: Mapping[TraceKey, datetime]) -> list[StoredTrace]:
        """The traces of these keys at these event times, in no order; one statement."""
        if not places:
            return []
        instants = sorted(set(places.values()))
        where = Where().add(
            "event_time >= {first:DateTime64(3, 'UTC')} AND event_time <= {last:DateTime64(3, 'UTC')} "
            "AND event_time IN {instants:Array(DateTime64(3, 'UTC'))} AND " + KEYS_IN,
            first=bound_instant("event_time", instants[0]),
            last=bound_instant("event_time", instants[-1]),
            instants=[bound_instant("event_time", one)[:-3] for one in instants],
            **key_parameters(places),
        )
        found = self._select(f"{where}", where.parameters)
        return [one for one in found if places.get(one.key) == one.trace.event_time]

    def stream(
        self,
        where: TraceFilter,
        *,
        batch: int = 500,
        outcome: str | None = None,
        judge: str | None = None,
        after: TracePlace | None = None,
    ) -> Iterator[list[StoredTrace]]:
        """The traces in (event time, trace id, environment, app) order, `batch` at a time, in constant memory.

        `outcome` and `judge` (a name or JudgeId): only those with such a live verdict. `after`: only those behind that
        place. Pages by key, so it goes on after a reconnect and sees each trace once. Between stretches of time a page
        may be shorter.
        """
        first = where.start
        if after is not None and (first is None or first < after.event_time):
            first = after.event_time
        for start, end in stretches(
            self._connection, "traces", first, where.end, environment=where.environment, app=where.app
        ):
            stretch = replace(where, start=start, end=end)
            while True:
                conditions = judged_conditions(stretch, outcome=outcome, judge=judge)
                page = self._select(_next(conditions, after, batch), conditions.parameters)
                if page:
                    yield page
                    after = page[-1].place
                if len(page) < batch:
                    break

    def served(
        self, where: TraceFilter, *, most: int, after: TracePlace | None = None, asked: bool = False
    ) -> TraceColumns:
        """The first `most` of them behind `after`, in the order of `stream`: what was served, and nothing beside.

        `asked`: of that only what a prompt can hold.
        """
        conditions, names = trace_conditions(where), ASKED if asked else SERVED
        sql = f"SELECT {', '.join(names)} FROM traces FINAL {_next(conditions, after, most)}"
        return TraceColumns(names, self._connection.query_columns(sql, conditions.parameters))

    def draw_line(self, where: TraceFilter, *, traces: int, seed: int) -> int | None:
        """The hash up to which a Draw with this seed takes `traces` of the selection; None where it has no more."""
        conditions = trace_conditions(where)
        conditions.parameters["draw_seed"] = str(seed)
        rows = self._connection.query(
            f"SELECT {DRAWN} AS drawn FROM traces FINAL {conditions} ORDER BY drawn LIMIT 1 OFFSET {int(traces) - 1}",
            conditions.parameters,
        )
        return int(rows[0][0]) if rows else None

    def count(self, where: TraceFilter) -> int:
        """The number of traces."""
        conditions = trace_conditions(where)
        sql = f"SELECT count() FROM traces FINAL {conditions}"
        return int(self._connection.query(sql, conditions.parameters)[0][0])

    def _block(self, values: Sequence[StoredTrace]) -> Block:
        return trace_block(values)

    def _encode(self, value: StoredTrace) -> Row:
        trace = value.trace
        ingested_ms = milliseconds("ingested_at", value.ingested_at)
        nodes, turns = trace.source_nodes, trace.history
        cells = (
            text("environment", trace.environment),
            text("app", trace.app),
            milliseconds("event_time", trace.event_time),
            text("trace_id", trace.trace_id),
            text("version", trace.version),
            text("query", trace.query),
            optional_text("response", trace.response),
            text("status", trace.status),
            optional_text("error", trace.error),
            [text("node_id", node.node_id) for node in nodes],
            [optional_text("source_nodes.text", node.text) for node in nodes],
            [optional_real("source_nodes.score", node.score) for node in nodes],
            [to_json("source_nodes.metadata", node.metadata) for node in nodes],
            [text("history.role", turn.role) for turn in turns],
            [text("history.content", turn.content) for turn in turns],
            optional_text("reference", trace.reference),
            [text("expected_ids", one) for one in trace.expected_ids],
            optional_text("case_id", trace.case_id),
            optional_real("latency_ms", trace.latency_ms),
            optional_text("model", trace.model),
            optional_text("prompt_version", trace.prompt_version),
            optional_text("index_version", trace.index_version),
            optional_text("category", trace.category),
            optional_text("session_id", trace.session_id),
            optional_text("user_id", trace.user_id),
            optional_text("language", trace.language),
            {text("tags", key): text("tags", one) for key, one in trace.tags.items()},
            flag("truncated", trace.truncated),
            flag("lossy", trace.lossy),
            real("head_probability", trace.head_probability),
            text("sdk", trace.sdk),
            to_json("signals", value.signals),
            ingested_ms,
            text("source", value.source),
            whole("partition", value.partition, low=-1, high=2**31 - 1),
            whole("offset", value.offset, low=-1),
        )
        by_name: dict[str, Any] = dict(zip(self.columns.names, cells, strict=False))
        complete = trace.status != "incomplete"
        return (
            *cells,
            text_chars(*(by_name[name] for name in TEXTS)),
            trace_version(complete=complete, ingested_ms=ingested_ms),
        )

    def _selected(self, sql: str, parameters: Mapping[str, Any] | None, *, binary: Sequence[str]) -> list[StoredTrace]:
        return self._read(self._connection.query_columns(sql, parameters, binary=binary))


def _next(conditions: Where, after: TracePlace | None, most: int) -> str:
    """What follows FROM for the first rows behind a place, which is added to the conditions."""
    if after is not None:
        conditions.add(
            "(event_time, trace_id, environment, app) > ({after_at:DateTime64(3, 'UTC')}, {after_id:String}, "
            "{after_environment:String}, {after_app:String})",
            after_at=bound_instant("event_time", after.event_time),
            after_id=after.trace_id,
            after_environment=after.environment,
            after_app=after.app,
        ).add("event_time >= {after_at:DateTime64(3, 'UTC')}")
    return f"{conditions} ORDER BY event_time, trace_id, environment, app LIMIT {int(most)}"
