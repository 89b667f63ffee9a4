"""Every reader of the store agrees with plain dictionaries, whatever was delivered, merged, forgotten or killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.store_model.driver import run, shrink
from tests.support.store_model.operations import Operation, operations
from tests.support.store_model.readers import READERS
from tracejudge.store import Store, open_store

ROOT = Path(__file__).parents[2]


class _World:
    """The fixture's store, which can be closed and opened; nobody is killed here."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.store: Store = open_store(url, settle_timeout_s=20.0)

    def reopen(self) -> None:
        self.store.close()
        self.store = open_store(self._url, settle_timeout_s=20.0)

    # The random operations of these worlds leave both out: the store's engine lives in this very process.
    def let_another_own(self) -> None:
        raise NotImplementedError("one process owns this store throughout")

    def kill(self) -> None:
        raise NotImplementedError("a kill of this store's owner would be one of the tests")


def test_the_readers_are_named() -> None:
    assert set(READERS) == {
        "rates", "long_windows", "minutes", "count", "worst", "export", "trace_export", "alerts", "show", "ledger",
        "undecided", "pairs", "known", "money", "tombstones", "dead_letters",
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", range(20260131, 20260135))
def test_five_hundred_operations_with_kills_and_every_reader_agrees(seed: int) -> None:
    """On the embedded owner, in a process that may take over from the owner it kills.

    Four histories instead of one four times as long: an operation's cost grows with the parts before it.
    """
    pytest.importorskip("chdb", reason="the embedded store needs tracejudge[embedded]")
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.store_model", "--steps", "500", "--kill-every", "125",
         "--seed", str(seed)],
        capture_output=True, text=True, cwd=ROOT, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert "every reader agreed" in done.stdout
    assert ", 0 kills," not in done.stdout


def test_a_hundred_and_fifty_operations_on_each_kind_of_store(contract_url: str) -> None:
    world = _World(contract_url)
    try:
        assert run(world, list(operations(7, 150))) is None
    finally:
        world.store.close()


@pytest.mark.parametrize("table", ["scores", "traces", "ledger", "minutes", "labels", "calls"])
def test_a_reader_without_final_is_found_out_and_the_run_cut_down(
    store: Store, store_url: str, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tracejudge.store.connection import Connection

    real = Connection.query

    def without_final(self: Connection, sql: str, *args: Any, **options: Any) -> list[tuple[Any, ...]]:
        return real(self, sql.replace(f"FROM {table} FINAL", f"FROM {table}"), *args, **options)

    monkeypatch.setattr(Connection, "query", without_final)
    world = _World(store_url)
    store.command(f"SYSTEM STOP MERGES {table}")  # a merge at the wrong moment would make the fault right again
    try:
        steps = _repeating(table)
        failure = run(world, steps)
        assert failure is not None
        assert failure.reader in READERS
        if table == "scores":  # cut down to two deliveries, and perhaps one thing between them
            shortest, again = shrink(world, steps[: failure.step])
            assert len(shortest) <= 3
            assert again.reader in READERS
    finally:
        store.command(f"SYSTEM START MERGES {table}")
        world.store.close()


def _repeating(table: str) -> list[Operation]:
    """Deliveries to one table, each made twice, between which the rollup may run."""
    kind = {"trace_index": "traces", "minutes": "scores"}.get(table, table)
    found = [one for one in operations(3, 400) if one.kind == kind][:12]
    between = [Operation("rollup")] if table == "minutes" else []
    return [step for one in found for step in (one, *between, one)]
