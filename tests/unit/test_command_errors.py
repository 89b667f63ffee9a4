"""What a command says when it fails."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest

from tracejudge.errors import CheckFailed
from tracejudge_consumer import cli
from tracejudge_consumer.terminal.exit_status import EXIT_FAILED, EXIT_USAGE


@pytest.mark.parametrize(("kind", "status"), [(CheckFailed, EXIT_FAILED), (click.UsageError, EXIT_USAGE)])
def test_an_error_that_quotes_a_trace_does_nothing_to_the_terminal(
    kind: type[Exception], status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(**_: object) -> None:
        raise kind("version '\x1b]0;owned\x07\x1b[2J\u202egpj' has no scores\nlook at `tracejudge rates`")

    monkeypatch.setattr(cli.cli, "main", fail)
    assert cli.run(["rates"]) == status
    said = capsys.readouterr().err
    assert "\x1b]" not in said
    assert "\x07" not in said
    assert "\u202e" not in said
    assert "\x1b[2J" not in said
    assert "look at `tracejudge rates`" in said


def test_a_reader_that_has_seen_enough_is_no_failure() -> None:
    """`tracejudge compare A B | head -1`: what is left unread breaks the pipe, and the status stays 0."""
    code = """
import sys
import click
from tracejudge_consumer import cli
from tracejudge_consumer.terminal.exit_status import EXIT_FAILED, EXIT_USAGE
from tracejudge_consumer.terminal.rendering import console
def flood(*_):
    for number in range(20_000):
        console().print("a row of a table " * 5)
click.Group.invoke = flood
sys.exit(cli.run(["rates"]))
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"a row")
        process.stdout.close()
        assert process.wait() == 0
