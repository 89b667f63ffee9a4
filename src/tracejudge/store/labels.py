"""`labels`: what people said about traces, by criterion and source; the latest of each stands."""

from __future__ import annotations

from collections.abc import Sequence

from tracejudge.scores import Label
from tracejudge.store.connection import Row
from tracejudge.store.rows import Inserted
from tracejudge.store.table import Columns, Table, Where
from tracejudge.store.values import from_microseconds, microseconds, real, text


class Labels(Table[Label]):
    """Keyed by (environment, app, trace id, criterion, source)."""

    name = "labels"
    columns = Columns(
        environment="LowCardinality(String)",
        app="LowCardinality(String)",
        trace_id="String",
        criterion="LowCardinality(String)",
        source="LowCardinality(String)",
        value="Float64",
        note="String",
        labelled_at="DateTime64(6, 'UTC')",
    )

    def insert(self, labels: Sequence[Label]) -> Inserted:
        """Stores labels; safe to repeat."""
        return self._insert(labels)

    def of_trace(self, trace_id: str, *, environment: str | None = None, app: str | None = None) -> list[Label]:
        """The labels of a trace."""
        where = Where().equal("trace_id", trace_id).equal("environment", environment).equal("app", app)
        return self._select(f"{where} ORDER BY criterion, source", where.parameters)

    def all(self, *, criterion: str | None = None) -> list[Label]:
        """All labels, or those of one criterion."""
        where = Where().equal("criterion", criterion)
        return self._select(f"{where} ORDER BY environment, app, trace_id, criterion, source", where.parameters)

    def _encode(self, value: Label) -> Row:
        return (
            text("environment", value.environment),
            text("app", value.app),
            text("trace_id", value.trace_id),
            text("criterion", value.criterion),
            text("source", value.source),
            real("value", float(value.value) if isinstance(value.value, bool) else value.value),
            text("note", value.note),
            microseconds("labelled_at", value.labelled_at),
        )

    def _decode(self, row: Row) -> Label:
        return Label(
            environment=row[0],
            app=row[1],
            trace_id=row[2],
            criterion=row[3],
            source=row[4],
            value=row[5],
            note=row[6],
            labelled_at=from_microseconds(row[7]),
        )
