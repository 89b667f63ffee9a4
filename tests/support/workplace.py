"""A folder with settings, in which a test types commands."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tracejudge_consumer.cli import run
from tracejudge_consumer.terminal.exit_status import EXIT_DONE


@dataclass
class Workplace:
    """A folder with settings, and how to call commands in it."""

    folder: Path
    capsys: pytest.CaptureFixture[str]
    settings: str

    def __call__(self, *args: str, expect: int = EXIT_DONE) -> str:
        """Runs a command and gives what it printed. Fails when the status is another than `expect`."""
        self.capsys.readouterr()
        status = run([*args])
        shown = self.capsys.readouterr()
        assert status == expect, shown.out + shown.err
        return shown.out + shown.err

    def json(self, *args: str, expect: int = EXIT_DONE) -> Any:
        self.capsys.readouterr()
        status = run([*args, "--json"])
        shown = self.capsys.readouterr()
        assert status == expect, shown.out + shown.err
        return json.loads(shown.out)
