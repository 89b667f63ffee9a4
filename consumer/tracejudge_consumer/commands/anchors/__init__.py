"""`tracejudge anchors`: frozen traces that tell a judge that moved from a product that did."""

from __future__ import annotations

import click

from tracejudge_consumer.commands.anchors.build import build
from tracejudge_consumer.commands.anchors.run import run_anchors
from tracejudge_consumer.commands.anchors.show import list_anchors, show
from tracejudge_consumer.terminal.options import group_config_option


@click.group(
    name="anchors",
    epilog="""\b
Examples:
  tracejudge anchors build golden --judge faithfulness --since 30d --size 100
  tracejudge anchors run golden --dry-run
  tracejudge anchors show golden

With set = "golden" under [anchors] in the settings, `tracejudge watch` and `up` rejudge them daily and alert when a
judge's verdicts have moved.""",
)
@group_config_option
def command() -> None:
    """Monitor the judges: freeze traces, judge them again, see which verdicts moved."""


for _each in (build, run_anchors, list_anchors, show):
    command.add_command(_each)
