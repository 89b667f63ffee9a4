"""`tracejudge judges`: which judges there are, what each asks, whether it works, how steady it is."""

from __future__ import annotations

import click

from tracejudge_consumer.commands.judges.adopt import adopt
from tracejudge_consumer.commands.judges.check import check
from tracejudge_consumer.commands.judges.list import list_judges
from tracejudge_consumer.commands.judges.noise import noise
from tracejudge_consumer.commands.judges.show import show
from tracejudge_consumer.terminal.options import group_config_option


@click.group(
    name="judges",
    epilog="""\b
Examples:
  tracejudge judges list --kinds
  tracejudge judges show faithfulness
  tracejudge judges check my-judge.toml
  tracejudge judges noise faithfulness --dry-run
  tracejudge judges adopt try-1""",
)
@group_config_option
def command() -> None:
    """List, inspect and test judges, measure their noise, make one live."""


for _each in (list_judges, show, check, noise, adopt):
    command.add_command(_each)
