"""What a command says when it fails."""

from __future__ import annotations

import click
import pytest

from tracejudge.errors import CheckFailed
from tracejudge_consumer import cli


@pytest.mark.parametrize(("kind", "status"), [(CheckFailed, cli.EXIT_FAILED), (click.UsageError, cli.EXIT_USAGE)])
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
