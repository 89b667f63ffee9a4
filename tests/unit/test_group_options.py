"""`tracejudge GROUP -c FILE VERB` and `tracejudge GROUP VERB -c FILE` are one command."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from tracejudge_consumer.cli import cli, run
from tracejudge_consumer.terminal.exit_status import EXIT_DONE, EXIT_USAGE


def verbs(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name in group.list_commands(click.Context(group)):
        found = group.get_command(click.Context(group), name)
        assert found is not None
        if isinstance(found, click.Group):
            yield from verbs(found, (*path, name))
        elif path:
            yield (*path, name), found


def test_every_group_takes_the_settings_file_where_a_verb_does() -> None:
    wanted = {path[:-1] for path, verb in verbs(cli) if any(one.name == "config" for one in verb.params)}
    for path in wanted:
        assert run([*path, "-c", "none.toml", "--help"]) == EXIT_DONE, path


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("one", "two"):
        (tmp_path / f"{name}.toml").write_text(f'queue = "sqlite:///q.db"\nstore = "chdb:///{name}"\n')
    return tmp_path


@pytest.mark.parametrize(
    "command",
    [
        "dead-letters -c one.toml",
        "dead-letters -c one.toml list",
        "dead-letters -c one.toml show 0.1234.9f86d081",
        "alerts -c one.toml list",
        "alerts -c one.toml accept rule=r",
        "alerts channels -c one.toml",
        "alerts -c one.toml channels",
        "judges -c one.toml adopt try-1",
        "anchors -c one.toml list",
        "sampling -c one.toml epochs",
        "release -c one.toml check a --against b",
        "dataset -c one.toml build d",
        "dataset -c two.toml build d -c one.toml",  # the last word counts
    ],
)
def test_the_file_that_was_typed_before_the_verb_is_read(
    here: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(command.split()) == EXIT_USAGE
    assert f"{here}/one: no store here yet" in capsys.readouterr().err


def test_what_is_typed_is_before_what_the_environment_says(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TRACEJUDGE_CONFIG", "two.toml")
    assert run(["anchors", "-c", "one.toml", "list"]) == EXIT_USAGE
    assert f"{here}/one: no store" in capsys.readouterr().err
    assert run(["anchors", "list"]) == EXIT_USAGE
    assert f"{here}/two: no store" in capsys.readouterr().err


def test_json_may_stand_before_the_verb_too(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    judge = '[[judges]]\nname = "lexical"\nkind = "lexical"\n'
    rule = '[[rules]]\nname = "m"\njudge = "lexical"\nminimum = 0.7\n'
    (here / "one.toml").write_text((here / "one.toml").read_text() + judge + rule)
    assert run(["alerts", "-c", "one.toml", "--json", "rules", "--rate", "0.95", "--per-hour", "60"]) == EXIT_DONE
    assert json.loads(capsys.readouterr().out)
