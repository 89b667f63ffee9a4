"""The embedded side of deploy/BACKUP.md: a copied folder, stopped or frozen, is the store."""

from __future__ import annotations

import json
import shutil
from http.client import HTTPConnection
from pathlib import Path

import pytest

from tests.support.store_process import StoreProcess
from tracejudge.store.embedded.ownership import FILE_NAME, LOCK_NAME, published

pytest.importorskip("chdb", reason="the embedded store needs tracejudge[embedded]")

pytestmark = pytest.mark.timeout(180)


def _url(folder: Path) -> str:
    return f"chdb:///{folder}"


def test_a_copy_of_the_stopped_folder_is_the_store(tmp_path: Path) -> None:
    store, copy = tmp_path / "store", tmp_path / "restored"
    with StoreProcess(_url(store)) as owner:
        assert owner.hear() == "open"
        owner.ask("migrate")
        assert owner.ask("insert", 0, 30) == 30
        assert owner.quit() == 0
    shutil.copytree(store, copy, ignore=shutil.ignore_patterns(FILE_NAME, LOCK_NAME), symlinks=True)
    with StoreProcess(_url(store)) as owner:  # what comes after the backup is not in it
        assert owner.hear() == "open"
        assert owner.ask("insert", 30, 40) == 10
    shutil.rmtree(store)
    with StoreProcess(_url(copy)) as restored:
        assert restored.hear() == "open"
        assert restored.ask("migrate") == []
        assert restored.ask("count") == 30
        assert restored.ask("insert", 20, 40) == 20  # read again from the queue, with an overlap
        assert restored.ask("count") == 40


def test_tables_are_frozen_while_everything_goes_on(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with StoreProcess(_url(store)) as owner:
        assert owner.hear() == "open"
        owner.ask("migrate")
        owner.ask("insert", 0, 30)
        endpoint = published(store)
        assert endpoint is not None
        told = json.loads((store / FILE_NAME).read_text(encoding="utf-8"))
        connection = HTTPConnection("127.0.0.1", told["port"], timeout=60)
        headers = {"X-ClickHouse-User": told["user"], "X-ClickHouse-Key": told["password"]}
        connection.request("POST", "/", body="ALTER TABLE scores FREEZE WITH NAME 'monday'", headers=headers)
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        connection.close()
        assert owner.ask("insert", 30, 40) == 10
        frozen = [path for path in (store / "chdb" / "shadow" / "monday").rglob("*") if path.is_file()]
        assert any(path.name == "checksums.txt" for path in frozen)
        assert owner.ask("count") == 40
