"""`runs`: what each run was, by its manifest; the latest saved stands."""

from __future__ import annotations

from tracejudge.store.connection import Row
from tracejudge.store.rows import RunManifest
from tracejudge.store.table import Columns, Table
from tracejudge.store.values import from_json, from_microseconds, microseconds, text, to_json


class Runs(Table[RunManifest]):
    """Keyed by run id. A finished manifest beats an unfinished one of the same start."""

    name = "runs"
    columns = Columns(
        run_id="String",
        kind="LowCardinality(String)",
        started_at="DateTime64(6, 'UTC')",
        finished_at="Nullable(DateTime64(6, 'UTC'))",
        manifest="String",
        row_version="UInt64",
    )

    def save(self, run: RunManifest) -> None:
        """Stores a manifest, in place of an earlier one of this run."""
        self._insert([run])

    def get(self, run_id: str) -> RunManifest | None:
        """The manifest of a run."""
        return next(iter(self._select("WHERE run_id = {run_id:String}", {"run_id": run_id})), None)

    def all(self) -> list[RunManifest]:
        """All runs, the latest first."""
        return self._select("ORDER BY started_at DESC, run_id")

    def _encode(self, value: RunManifest) -> Row:
        started_us = microseconds("started_at", value.started_at)
        finished_us = None if value.finished_at is None else microseconds("finished_at", value.finished_at)
        return (
            text("run_id", value.run_id),
            text("kind", value.kind),
            started_us,
            finished_us,
            to_json("manifest", value.manifest),
            finished_us if finished_us is not None else started_us,
        )

    def _decode(self, row: Row) -> RunManifest:
        return RunManifest(
            run_id=row[0],
            kind=row[1],
            started_at=from_microseconds(row[2]),
            finished_at=None if row[3] is None else from_microseconds(row[3]),
            manifest=from_json(row[4]),
        )
