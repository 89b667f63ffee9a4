"""`tracejudge init`: a first settings file."""

from __future__ import annotations

from pathlib import Path

import click

from tracejudge_consumer.terminal.exit_status import EXIT_USAGE

_TEMPLATE = """\
# tracejudge settings. Every key with unit and default: deploy/settings.example.toml.
# `tracejudge config check` says all faults at once; `tracejudge doctor` tries every service.

# Where the apps log their traces to, and where everything is kept. After the three slashes of sqlite:/// and chdb:///
# comes a path beside this file; a fourth slash begins an absolute one: sqlite:////var/lib/tracejudge/queue.db
queue = {queue}
store = {store}

# A judge without a model: it sees whether the words of the answer stand in the passages. A heuristic.
[[judges]]
name = "lexical"
kind = "lexical"

# A judge by a model behind any OpenAI-compatible endpoint. It costs money, so it needs a cap.
# [[judges]]
# name = "faithfulness"
# kind = "faithfulness"
# base_url = "https://api.openai.com/v1"
# model = "gpt-4o-mini-2024-07-18"
# api_key_env = "OPENAI_API_KEY"          # the environment variable that holds the key, never the key itself
# max_calls_per_h = 200
# max_usd_per_day = 5.0
# usd_per_million_input_tokens = 0.15
# usd_per_million_output_tokens = 0.60

# How much of the traffic each judge sees. Kept traces carry their chance, so that rates stay unbiased.
[sampling]
rate = 1.0
# [sampling.judges]
# faithfulness = 0.1

# All rules of an (environment, app) together raise at most one false alarm in 30 days.
[alerts]
false_alarms = "1 per 30d"

# Opens a ticket when the pass rate is below the minimum.
[[rules]]
name = "lexical-minimum"
type = "minimum"
judge = "lexical"
minimum = 0.80

[[notifiers]]
type = "terminal"
# [[notifiers]]
# type = "webhook"
# url = "https://hooks.example.com/tracejudge"
# secret_env = "TRACEJUDGE_WEBHOOK_SECRET"
"""


@click.command(
    name="init",
    epilog="""\b
Examples:
  tracejudge init                                     one machine: SQLite log and embedded store
  tracejudge init --queue kafka://localhost:9092/rag-traces \\
                  --store clickhouse://tracejudge@localhost:8123/tracejudge""",
)
@click.option("--queue", default="sqlite:///tracejudge-data/queue.db", show_default=True, help="The queue's URL.")
@click.option("--store", default="chdb:///tracejudge-data/store", show_default=True, help="The store's URL.")
@click.option("--output", "-o", type=click.Path(dir_okay=False), default="tracejudge.toml", show_default=True)
@click.option("--force", is_flag=True, help="Write over an existing file.")
def command(queue: str, store: str, output: str, force: bool) -> int:
    """Write a short commented tracejudge.toml."""
    path = Path(output)
    if path.exists() and not force:
        click.echo(f"error: {path} exists; --force writes over it, --output names another", err=True)
        return EXIT_USAGE
    path.write_text(settings_text(queue=queue, store=store), encoding="utf-8")
    click.echo(f"wrote {path}")
    # An embedded store makes itself; the tables of a server are made by who may.
    first, then = ("doctor", "up") if store.startswith("chdb:") else ("migrate", "doctor")
    click.echo(f"next: tracejudge {first}, then tracejudge {then}")
    return 0


def settings_text(*, queue: str, store: str) -> str:
    """The first settings file, for these two URLs."""
    return _TEMPLATE.format(queue=_toml_string(queue), store=_toml_string(store))


def _toml_string(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
