"""The store asks for its packages only when it needs them, and then says what to install."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tracejudge.errors import MissingExtra
from tracejudge.store import open_store
from tracejudge.store.embedded import engine


def test_importing_the_store_loads_neither_driver_nor_engine_nor_server() -> None:
    code = (
        "import sys, tracejudge.store; "
        "print([name for name in ('chdb', 'clickhouse_connect', 'aiohttp') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_without_the_driver_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "clickhouse_connect.driver.exceptions", None)
    with pytest.raises(MissingExtra, match=r"pip install 'tracejudge\[consumer\]'"):
        open_store(f"chdb:///{tmp_path}")


def test_without_the_engine_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "chdb", None)
    with pytest.raises(MissingExtra, match=r"pip install 'tracejudge\[embedded\]'"):
        engine._load_chdb()
