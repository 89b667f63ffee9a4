"""Every command that opens a store, where there is none: a wrong setting is 64, an absent server 75, never 1."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.store_fixture import with_database
from tracejudge.store import open_store
from tracejudge.store.embedded.ownership import published
from tracejudge_consumer.cli import run
from tracejudge_consumer.terminal.exit_status import EXIT_DONE, EXIT_FAILED, EXIT_UNAVAILABLE, EXIT_USAGE
from tracejudge_consumer.wiring import store as wiring_store

pytest.importorskip("chdb", reason="the embedded store needs the extra 'embedded'")

LOOKING = (
    "rates",
    "ledger",
    "show t",
    "find foo",
    "worst",
    "tail",
    "compare live:lexical try-1",
    "compare v1 v2 --by version",
    "gate --run try-1",
    "report",
    "release check v2 --against v1",
    "dataset build d",
    "cost",
    "stats",
    "alerts",
    "alerts show e",
    "alerts explain",
    "alerts rules",
    "alerts silence app=shop --for 1h",
    "alerts accept rule=m",
    "alerts dismiss rule=m",
    "alerts acknowledge rule=m",
    "alerts backtest",
    "alerts channels",
    "watch --once",
    "export traces",
    "retry",
    "dead-letters",
    "dead-letters list",
    "dead-letters show 0.1234.9f86d081",
    "dead-letters drop 0.1234.9f86d081 --yes",
    "dead-letters replay 0.1234.9f86d081",
    "judges list --stored",
    "judges show lexical@000000000000",
    "judges noise lexical",
    "judges adopt try-1",
    "anchors list",
    "anchors show golden",
    "anchors build golden",
    "anchors run golden --judge lexical",
    "label t --criterion faithfulness --yes",
    "judge t",
    "forget --trace-id t --yes",
    "replay --judge new.toml --since 30d --run try-1",
    "sampling explain t",
    "sampling plan --per-hour 200",
    "sampling epochs",
)
JUDGE = '[[judges]]\nname = "lexical"\nkind = "lexical"\n'


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "new.toml").write_text(JUDGE)
    (tmp_path / "thresholds.toml").write_text('[[thresholds]]\njudge = "lexical"\nminimum = 0.8\n')
    return tmp_path


def settings(folder: Path, store: str) -> None:
    rule = '[[rules]]\nname = "m"\njudge = "lexical"\nminimum = 0.7\n'
    (folder / "tracejudge.toml").write_text(f'queue = "sqlite:///queue.db"\nstore = "{store}"\n{JUDGE}{rule}')


@pytest.mark.parametrize("command", LOOKING)
def test_a_folder_that_holds_no_store_is_a_wrong_setting_and_stays_as_it_is(
    here: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    settings(here, "chdb:///store")
    assert run(command.split()) == EXIT_USAGE
    assert "no store here yet: `tracejudge consume` creates one there, or correct `store`" in capsys.readouterr().err
    (here / "store").mkdir()
    assert run(command.split()) == EXIT_USAGE
    (here / "store" / "letter.txt").write_text("mine")
    assert run(command.split()) == EXIT_USAGE
    assert "(the folder contains something else): `tracejudge consume` creates one" in capsys.readouterr().err
    assert [path.name for path in (here / "store").iterdir()] == ["letter.txt"]


@pytest.mark.parametrize("command", LOOKING)
def test_a_server_that_is_not_there_is_tried_for_some_seconds(
    here: Path, command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings(here, "clickhouse://x@127.0.0.1:9/x")
    asked: list[float | None] = []
    real = wiring_store.open_unchecked_store

    def noting(settings: object, *, patience_s: float | None = None) -> object:
        asked.append(patience_s)
        return real(settings, patience_s=0.0)  # type: ignore[arg-type] # not even these seconds, in a test

    monkeypatch.setattr(wiring_store, "open_unchecked_store", noting)
    assert run(command.split()) == EXIT_UNAVAILABLE
    assert asked == [wiring_store.FIRST_LOOK_PATIENCE_S]
    said = capsys.readouterr().err
    assert (
        "127.0.0.1:9/x does not answer (Failed to establish a new connection: [Errno 111] Connection refused)" in said
    )
    assert "check that it runs and can be reached" in said


@pytest.mark.parametrize(
    ("command", "status"), [("rates", EXIT_USAGE), ("consume --until-idle", EXIT_USAGE), ("doctor", EXIT_FAILED)]
)
def test_a_file_where_the_folder_should_be_is_said_in_words(
    here: Path, command: str, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "store").write_text("mine")
    settings(here, "chdb:///store")
    assert run(command.split()) == status
    said = "".join(capsys.readouterr())
    assert "is a file, not a folder: name another" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("command", ["rates", "watch --once", "consume --until-idle"])
def test_a_server_that_refuses_us_until_somebody_mends_it_is_a_wrong_setting(
    here: Path, command: str, embedded_store_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    owner = published(Path(embedded_store_url.removeprefix("chdb:///")))
    assert owner is not None
    at = f"127.0.0.1:{owner.port}/nowhere"
    settings(here, f"clickhouse://{owner.user}:{owner.password}@{at}")
    assert run(command.split()) == EXIT_USAGE
    assert "there are no tables yet: run `tracejudge migrate`" in capsys.readouterr().err
    settings(here, f"clickhouse://{owner.user}:wrong@{at}")
    assert run(command.split()) == EXIT_USAGE
    assert "check user and password of the store's URL" in capsys.readouterr().err


def test_a_folder_of_somebody_else_is_said_in_words(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its mode is 0700. Python up to 3.13 raises where one may not even look into it; root may, so that is acted."""

    is_dir, access = Path.is_dir, os.access

    def looked_into(path: Path) -> bool:
        if path.parent.name == "theirs":
            raise PermissionError(13, "Permission denied", str(path))
        return is_dir(path)

    settings(here, "chdb:///theirs")
    (here / "theirs").mkdir()
    monkeypatch.setattr(Path, "is_dir", looked_into)
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != "theirs" and access(path, mode))
    assert run(["rates"]) == EXIT_USAGE
    assert "this user may not write there" in capsys.readouterr().err


def test_the_doctor_makes_no_store(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings(here, "chdb:///store")
    assert run(["doctor"]) == EXIT_DONE
    shown = capsys.readouterr().out
    assert "note" in shown
    assert "no store here yet" in shown
    assert not (here / "store").exists()


def test_an_embedded_store_that_was_never_migrated_is_migrated_by_a_look(here: Path, store_url: str) -> None:
    other = with_database(store_url, "never_migrated")
    settings(here, other)
    assert run(["stats"]) == EXIT_DONE
    with open_store(other) as store:
        store.command("DROP DATABASE never_migrated")
