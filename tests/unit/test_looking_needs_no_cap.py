"""Commands that ask no judge do not insist on a judge's budget: one must be able to look whatever is being set up."""

from __future__ import annotations

from pathlib import Path

import pytest

from tracejudge_consumer.cli import run
from tracejudge_consumer.terminal.exit_status import EXIT_USAGE

SETTINGS = """\
queue = "sqlite:///queue.db"
store = "chdb:///nothing-here"

[[judges]]
name = "faithfulness"
kind = "faithfulness"
base_url = "http://127.0.0.1:9/v1"
model = "judge"
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tracejudge.toml").write_text(SETTINGS, encoding="utf-8")


@pytest.mark.parametrize(
    "command",
    [
        ("rates",),
        ("cost",),
        ("ledger",),
        ("worst",),
        ("show", "t-1"),
        ("tail",),
        ("alerts",),
        ("find",),
        ("stats",),
        ("dead-letters", "list"),
        ("dead-letters", "show", "x"),
    ],
    ids=" ".join,
)
def test_looking_asks_for_a_store_and_not_for_a_budget(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(command) == EXIT_USAGE
    assert "no store here yet" in capsys.readouterr().err


def test_what_spends_does(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["consume", "--until-idle"]) == EXIT_USAGE
    assert "max_usd_per_day" in capsys.readouterr().err
