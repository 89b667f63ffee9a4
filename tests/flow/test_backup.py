"""The embedded side of deploy/BACKUP.md: a copied folder, stopped or frozen, is the store."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.store_process import StoreProcess
from tracejudge.store.embedded.ownership import FILE_NAME, LOCK_NAME

pytest.importorskip("chdb", reason="the embedded store needs tracejudge[embedded]")

pytestmark = pytest.mark.timeout(180)

PAGE = Path(__file__).parents[2] / "deploy" / "BACKUP.md"


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


def test_a_backup_made_while_everything_goes_on_as_the_page_says_is_the_store(tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed here")
    (commands,) = re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    store, copy = tmp_path / "store", tmp_path / "restored"
    with StoreProcess(_url(store)) as owner:
        assert owner.hear() == "open"
        owner.ask("migrate")
        owner.ask("insert", 0, 30)
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", commands], cwd=tmp_path, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        assert owner.ask("insert", 30, 40) == 10
        assert owner.ask("count") == 40
    copy.mkdir()
    subprocess.run(["tar", "-xzf", tmp_path / "store-monday.tar.gz", "-C", copy], check=True, timeout=60)
    with StoreProcess(_url(copy)) as restored:
        assert restored.hear() == "open"
        assert restored.ask("migrate") == []
        assert restored.ask("count") == 30
        assert restored.ask("insert", 20, 40) == 20
