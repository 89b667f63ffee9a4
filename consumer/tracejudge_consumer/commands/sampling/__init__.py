"""`tracejudge sampling`: why a trace was judged or not, what another policy would bring, which rates were in force."""

from __future__ import annotations

import click

from tracejudge_consumer.commands.sampling.epochs import epochs
from tracejudge_consumer.commands.sampling.explain import explain
from tracejudge_consumer.commands.sampling.plan import plan
from tracejudge_consumer.terminal.options import group_config_option


@click.group(
    name="sampling",
    epilog="""\b
Examples:
  tracejudge sampling explain 01890a5d-ac96-774b-bcce-b302099a8057
  tracejudge sampling plan --judge faithfulness --per-hour 200
  tracejudge sampling epochs --since 6h""",
)
@group_config_option
def command() -> None:
    """Why a trace was judged or not, what a policy change would do, which rates applied."""


for _each in (explain, plan, epochs):
    command.add_command(_each)
