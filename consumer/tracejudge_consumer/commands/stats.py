"""`tracejudge stats`: how large the store is and how fast it grows."""

from __future__ import annotations

import click

from tracejudge.store import Growth
from tracejudge_consumer.settings import load_settings
from tracejudge_consumer.terminal.options import config_option, json_option
from tracejudge_consumer.terminal.rendering import console, table, to_json
from tracejudge_consumer.wiring import connect_store


@click.command(
    name="stats",
    epilog="""\b
Examples:
  tracejudge stats
  tracejudge stats --days 30 --json""",
)
@config_option
@json_option
@click.option(
    "--days", type=click.IntRange(1, 400), default=7, show_default=True, help="Number of whole days to look back."
)
def command(config: str, as_json: bool, days: int) -> None:
    """Show table sizes, rows per day and growth."""
    with connect_store(load_settings(config, require_caps=False)) as store:
        growth = store.growth(days=days)
    if as_json:
        facts = {
            "tables": growth.tables,
            "bytes": growth.bytes,
            "rows_by_day": {day.isoformat(): counts for day, counts in growth.rows_by_day.items()},
            "bytes_per_day": growth.bytes_per_day,
        }
        click.echo(to_json(facts))
        return
    _show(growth)


def _show(growth: Growth) -> None:
    out = console()
    columns = [("table", "left"), ("rows", "right"), ("size", "right"), ("packed", "right"), ("bytes/row", "right")]
    rows = [
        [
            one.name,
            f"{one.rows:,}",
            _size(one.bytes),
            f"{one.unpacked_bytes / one.bytes:.1f}x" if one.bytes else "–",
            f"{one.bytes_per_row:.0f}",
        ]
        for one in sorted(growth.tables, key=lambda one: -one.bytes)
        if one.rows
    ]
    out.print(table(f"Store: {_size(growth.bytes)}", columns, rows))
    names = sorted({name for counts in growth.rows_by_day.values() for name in counts})
    days = [
        [day.isoformat(), *(f"{counts.get(name, 0):,}" for name in names)] for day, counts in growth.rows_by_day.items()
    ]
    if names:
        out.print()
        out.print(table("Rows stored per day (UTC)", [("day", "left"), *((name, "right") for name in names)], days))
    out.print()
    if growth.bytes_per_day is None:
        out.print("growth: unknown until the first whole day has passed")
    else:
        out.print(
            f"growth: about {_size(growth.bytes_per_day)} a day, {_size(30 * growth.bytes_per_day)} in 30 days; "
            "texts are deleted after their retention"
        )


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    raise AssertionError
