"""`tracejudge migrate`: the store's tables, created or upgraded."""

from __future__ import annotations

import click

from tracejudge_consumer.settings import load_settings, without_password
from tracejudge_consumer.terminal.options import config_option
from tracejudge_consumer.wiring import open_unchecked_store


@click.command(
    name="migrate",
    epilog="""\b
Examples:
  tracejudge migrate             safe to repeat, and to run concurrently
  tracejudge migrate --print     the DDL, for review by a database administrator""",
)
@config_option
@click.option("--print", "print_ddl", is_flag=True, help="Print the statements and change nothing.")
def command(config: str, print_ddl: bool) -> None:
    """Create or upgrade the store's tables, and apply [retention]."""
    settings = load_settings(config, require_caps=False)
    with open_unchecked_store(settings) as store:
        if print_ddl:
            click.echo(store.ddl())
            return
        applied = store.migrate(settings.retention.times)
    for name in applied:
        click.echo(f"applied {name}")
    click.echo(f"{without_password(settings.store)} is up to date")
