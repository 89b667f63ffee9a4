"""The schema moves forward, once, and the release before keeps working on it."""

from __future__ import annotations

import json
import re
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from tests.support.store_fixture import with_database
from tracejudge.errors import SchemaTooNew, StoreError
from tracejudge.store import Retention, Store, open_store
from tracejudge.store import migrate as migrating
from tracejudge.store.migrate import migrations
from tracejudge.store.retention import apply_retention

UTC = timezone.utc
START = datetime(2026, 1, 1, 12, tzinfo=UTC)
FIRST_RELEASE = Path(__file__).parents[1] / "data" / "schema" / "first_release.json"
"""What the first release writes and reads: each table's columns and their types, as it names them."""


def test_a_schema_from_the_future_is_refused_unless_it_says_it_is_compatible(contract_store: Store) -> None:
    known = migrations()[-1].version
    record = "INSERT INTO schema_migrations (version, name, oldest_reader, release) VALUES"
    try:
        contract_store.command(f"{record} ({known + 1}, 'additive', {known}, '9.9')")
        contract_store.check_schema()
        assert contract_store.migrate() == []
        contract_store.command(f"{record} ({known + 2}, 'breaking', {known + 2}, '9.9')")
        for call in (contract_store.check_schema, contract_store.migrate):
            with pytest.raises(SchemaTooNew, match="upgrade tracejudge"):
                call()
    finally:
        contract_store.command(
            f"ALTER TABLE schema_migrations DELETE WHERE version > {known} SETTINGS mutations_sync = 1"
        )


def test_an_empty_database_is_told_to_migrate_and_the_printed_ddl_does_it(contract_url: str) -> None:
    with open_store(with_database(contract_url, "ddl_test")) as store:
        with pytest.raises(StoreError, match="tracejudge migrate"):
            store.check_schema()
        with pytest.raises(StoreError, match="tracejudge migrate"):
            store.traces.get("t")
        for statement in re.split(r";\s*\n", store.ddl()):
            if statement.strip() and not statement.startswith("USE"):
                store._connection.command(statement, database=not statement.startswith("CREATE DATABASE"))
        store.check_schema()
        assert store.migrate() == []
        store.command("DROP DATABASE ddl_test")


def test_every_statement_of_a_migration_may_be_repeated() -> None:
    for migration in migrations():
        for statement in migration.statements:
            sql = "\n".join(line for line in statement.splitlines() if not line.startswith("--"))
            sql = sql.lstrip()
            assert re.match(
                r"CREATE (TABLE|MATERIALIZED VIEW) IF NOT EXISTS"
                r"|ALTER TABLE \w+ (ADD (COLUMN|INDEX) IF NOT EXISTS|MODIFY COLUMN)"
                r"|INSERT INTO cached_verdicts \(.*\)\nSELECT",  # of one key the engine keeps one row
                sql,
            ), sql


@pytest.fixture
def only_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process knows the migrations that the first release knows."""
    known = migrations()[:1]
    monkeypatch.setattr(migrating, "migrations", lambda: known)


def test_the_release_before_writes_and_reads_on_the_new_schema(contract_store: Store, only_the_first: None) -> None:
    contract_store.check_schema()
    assert contract_store.migrate() == []
    tables: dict[str, dict[str, str]] = json.loads(FIRST_RELEASE.read_text(encoding="utf-8"))
    connection = contract_store._connection
    for table, columns in tables.items():
        row = [_cell(kind) for kind in columns.values()]
        connection.insert(table, list(columns), list(columns.values()), [row])
        names = ", ".join(f"`{name}`" for name in columns)
        found = connection.query(f"SELECT {names} FROM {table} FINAL")
        assert len(found) == 1, table
        keys = connection.query(
            "SELECT sorting_key, primary_key FROM system.tables WHERE database = currentDatabase() "
            "AND name = {name:String}",
            {"name": table},
        )
        assert set(re.findall(r"\w+", keys[0][0])) <= set(columns), f"{table}: a key of a column it does not write"


def test_migrations_say_that_the_first_release_may_go_on() -> None:
    assert [one.oldest_reader for one in migrations()] == [1] * len(migrations())
    assert [one.version for one in migrations()] == list(range(1, len(migrations()) + 1))


def test_an_upgrade_takes_what_is_stored_along(contract_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from tracejudge.store import StoredTrace, TraceFilter, Wanted
    from tracejudge.testing import make_score, make_trace

    with open_store(with_database(contract_url, "upgrade_test")) as store:
        known = migrations()
        monkeypatch.setattr(migrating, "migrations", lambda: known[:1])
        assert store.migrate() == ["0001_foundation"]
        # The table's own columns are those of the first release.
        store.traces.insert(
            [StoredTrace(trace=make_trace(0, trace_id="old", query="an old question"), ingested_at=START)]
        )
        store.command("INSERT INTO verdict_cache (content_hash, judge_id, verdict) VALUES ('h', 'f@1', 'paid for')")
        monkeypatch.setattr(migrating, "migrations", lambda: known)
        assert len(store.migrate()) == len(known) - 1
        assert store.verdict_cache.get([("h", "f@1", 0), ("h", "f@1", 1)]) == {("h", "f@1", 0): "paid for"}
        store.traces.insert([StoredTrace(trace=make_trace(1, query="a new question"), ingested_at=START)])
        store.scores.insert([make_score(1)])
        assert store.traces.count(TraceFilter()) == 2
        # Parts from before the index are read whole, and found all the same.
        assert len(store.finder.find(Wanted(words=("question",)), limit=9)) == 2
        assert [one.trace.trace_id for one in store.finder.find(Wanted(words=("old",)), limit=9)] == ["old"]
        store.command("DROP DATABASE upgrade_test")


def test_retention_is_read_before_it_is_changed(contract_store: Store) -> None:
    connection = contract_store._connection
    try:
        changed = apply_retention(connection, Retention(texts_d=60, events_d=90))
        assert "traces.query: 30 -> 60 days" in changed
        assert "scores.feedback: 30 -> 60 days" in changed
        assert "alert_events: 400 -> 90 days" in changed
        assert not any(line.startswith(("scores:", "traces:", "ledger:", "labels")) for line in changed)
        assert apply_retention(connection, Retention(texts_d=60, events_d=90)) == []
    finally:
        apply_retention(connection, Retention())
    for wrong in ({"texts_d": 0}, {"texts_d": 500}, {"cache_d": 40_000}):
        with pytest.raises(ValueError, match="retention"):
            Retention(**wrong)


def _cell(kind: str) -> Any:
    """A value for a column of this type."""
    if kind.startswith("Array") or kind.startswith("Map"):
        return {} if kind.startswith("Map") else []
    if "Nullable" in kind:
        return None
    if "String" in kind:
        return "x"
    if kind == "Bool":
        return False
    if kind.startswith("DateTime64(3"):
        return 1_767_268_800_000
    if kind.startswith("DateTime64(6"):
        return 1_767_268_800_000_000
    return 1
