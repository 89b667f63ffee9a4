"""`feedback`: what users said about answers later, once for each feedback id."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from tracejudge.store.connection import Row
from tracejudge.store.rows import Inserted, StoredFeedback
from tracejudge.store.table import Columns, Table, Where
from tracejudge.store.values import bound_instant, from_milliseconds, milliseconds, optional_real, optional_text, text
from tracejudge_sdk.trace import Feedback


class FeedbackTable(Table[StoredFeedback]):
    """Keyed by (environment, app, trace id, feedback id); the first stored stands."""

    name = "feedback"
    columns = Columns(
        environment="LowCardinality(String)",
        app="LowCardinality(String)",
        trace_id="String",
        feedback_id="String",
        value="Nullable(Float64)",
        comment="Nullable(String)",
        event_time="DateTime64(3, 'UTC')",
        sdk="LowCardinality(String)",
        ingested_at="DateTime64(3, 'UTC')",
        row_version="UInt64",
    )

    def insert(self, rows: Sequence[StoredFeedback]) -> Inserted:
        """Stores feedback; safe to repeat."""
        return self._insert(rows)

    def below(self, value: float, *, since: datetime, limit: int) -> list[StoredFeedback]:
        """Feedback below `value` that was ingested from `since` on, the oldest first."""
        return self._select(
            "WHERE value < {value:Float64} AND ingested_at >= {since:DateTime64(6, 'UTC')} "
            f"ORDER BY ingested_at, environment, app, trace_id, feedback_id LIMIT {int(limit)}",
            {"value": value, "since": bound_instant("since", since)},
        )

    def of_trace(
        self, trace_id: str, *, environment: str | None = None, app: str | None = None
    ) -> list[StoredFeedback]:
        """The feedback on a trace, the oldest first."""
        where = Where().equal("trace_id", trace_id).equal("environment", environment).equal("app", app)
        return self._select(f"{where} ORDER BY event_time, feedback_id", where.parameters)

    def _encode(self, value: StoredFeedback) -> Row:
        said = value.feedback
        ingested_ms = milliseconds("ingested_at", value.ingested_at)
        return (
            text("environment", said.environment),
            text("app", said.app),
            text("trace_id", said.trace_id),
            text("feedback_id", said.feedback_id),
            optional_real("value", said.value),
            optional_text("comment", said.comment),
            milliseconds("event_time", said.event_time),
            text("sdk", said.sdk),
            ingested_ms,
            2**63 - ingested_ms,
        )

    def _decode(self, row: Row) -> StoredFeedback:
        return StoredFeedback(
            feedback=Feedback(
                environment=row[0],
                app=row[1],
                trace_id=row[2],
                feedback_id=row[3],
                value=row[4],
                comment=row[5],
                event_time=from_milliseconds(row[6]),
                sdk=row[7],
            ),
            ingested_at=from_milliseconds(row[8]),
        )
