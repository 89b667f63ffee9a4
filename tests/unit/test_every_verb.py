"""What every command and every verb of a group answers to a typing error: what is wrong, status 64, no traceback."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click
import pytest

from tracejudge_consumer.cli import cli, run
from tracejudge_consumer.terminal.exit_status import EXIT_FAILED, EXIT_USAGE
from tracejudge_consumer.terminal.options import Moment, Span


def verbs(group: click.Group = cli, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name in group.list_commands(click.Context(group)):
        found = group.get_command(click.Context(group), name)
        assert found is not None
        yield (*path, name), found
        if isinstance(found, click.Group):
            yield from verbs(found, (*path, name))


VERBS: Final = [pytest.param(path, verb, id="-".join(path)) for path, verb in verbs()]
FAR: Final = [
    "1969-12-31T23:59:59Z",
    "2200-01-01T00:00:00Z",
    "0001-01-01T00:00:00Z",
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59-14:00",
    "9" * 20 + "d",
]


def reads_settings_first(verb: click.Command) -> bool:
    """Where nothing else has to be named before."""
    named = any(isinstance(one, click.Argument) or one.required for one in verb.params)
    return any(one.name == "config" for one in verb.params) and not isinstance(verb, click.Group) and not named


_WITHOUT: Final = (("judges", "list"), ("forget",))  # one shows what there is without settings; one asks for whom
READING: Final = [path for path, verb in verbs() if reads_settings_first(verb) and path not in _WITHOUT]


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def refused(capsys: pytest.CaptureFixture[str], *args: str, status: int = EXIT_USAGE) -> str:
    capsys.readouterr()
    found = run(args)
    shown = capsys.readouterr()
    said = shown.out + shown.err
    assert found == status, said
    assert "Traceback" not in said
    return " ".join(said.split())


@pytest.mark.parametrize(("path", "verb"), VERBS)
def test_its_help_has_an_example_of_itself(path: tuple[str, ...], verb: click.Command) -> None:
    assert "Example" in (verb.epilog or "")
    assert f"tracejudge {' '.join(path)}" in (verb.epilog or "")


@pytest.mark.parametrize(("path", "verb"), VERBS)
def test_a_misspelt_option_or_verb_is_named(
    path: tuple[str, ...], verb: click.Command, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "--sinse" in refused(capsys, *path, "--sinse", "7d")
    if isinstance(verb, click.Group):
        assert "No such command 'lisst'" in refused(capsys, *path, "lisst")


@pytest.mark.parametrize(("path", "verb"), VERBS)
def test_an_option_without_its_value_is_named(
    path: tuple[str, ...], verb: click.Command, capsys: pytest.CaptureFixture[str]
) -> None:
    for option in verb.params:
        if isinstance(option, click.Option) and not option.is_flag and option.nargs == 1 and not option.count:
            said = refused(capsys, *path, option.opts[-1])
            assert f"'{option.opts[-1]}' requires an argument" in said


@pytest.mark.parametrize(("path", "verb"), VERBS)
def test_a_time_that_no_store_knows_is_refused_with_what_there_is(
    path: tuple[str, ...], verb: click.Command, capsys: pytest.CaptureFixture[str]
) -> None:
    for option in verb.params:
        if isinstance(option.type, Moment | Span):
            for far in FAR:
                said = refused(capsys, *path, option.opts[-1], far)
                assert option.opts[-1] in said
                assert far in said
                known = ("is outside the years 1970 to 2199", "longer than 36500d", "is not a length of time such as")
                assert any(word in said for word in known), said


@pytest.mark.parametrize("step", ["9" * 20 + "d", "9000000d"])
def test_a_window_longer_than_any_time_is_refused(step: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "36500d" in refused(capsys, "rates", "--step", step)


@pytest.mark.parametrize(
    "command",
    [
        "worst", "find", "cost", "export", "compare a b", "replay --judge lexical --run r", "dataset build d", "rates",
        "dead-letters list", "dead-letters replay", "dead-letters drop", "ledger", "report", "retry", "sampling plan",
        "release check a --against b",
    ],
)  # fmt: skip
def test_a_time_that_ends_before_it_begins_is_refused(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(capsys, *command.split(), "--since", "1d", "--until", "2d")
    assert "--since" in said
    assert "is not before --until" in said


def test_a_number_that_is_none_or_below_zero_is_no_effective_size(capsys: pytest.CaptureFixture[str]) -> None:
    for number in ("-5", "nan"):
        assert "--min-effective" in refused(capsys, "sampling", "plan", "--min-effective", number)


@pytest.mark.parametrize("path", READING, ids="-".join)
@pytest.mark.parametrize("text", ['queue = "sqlite:///q.db\n', "store = 3\n[nonsense]\na = 1\n", None])
def test_settings_that_cannot_be_read_are_named(
    path: tuple[str, ...], text: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if text is not None:
        (tmp_path / "x.toml").write_text(text, encoding="utf-8")
    # `doctor` is the one whose work it is to find that.
    said = refused(capsys, *path, "-c", "x.toml", status=EXIT_FAILED if path == ("doctor",) else EXIT_USAGE)
    assert "x.toml: " in said
    assert text is None or "is not TOML: " in said or "store: is not a string: write it in quotes" in said
