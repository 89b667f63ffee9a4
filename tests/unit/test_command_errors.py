"""What a command says when it fails."""

from __future__ import annotations

import pytest

from tracejudge.errors import CheckFailed
from tracejudge_consumer import cli


def test_an_error_that_quotes_a_trace_does_nothing_to_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(**_: object) -> None:
        raise CheckFailed("version '\x1b]0;owned\x07\x1b[2J\u202egpj' has no scores\nlook at `tracejudge rates`")

    monkeypatch.setattr(cli.cli, "main", fail)
    assert cli.run(["rates"]) == cli.EXIT_FAILED
    said = capsys.readouterr().err
    assert "\x1b]" not in said
    assert "\x07" not in said
    assert "\u202e" not in said
    assert "\x1b[2J" not in said
    assert said.count("error") == 2, "one line of ours for each of its lines"
