"""`tracejudge init`: a first settings file."""

from __future__ import annotations

from pathlib import Path

import click

from tracejudge_consumer.terminal.exit_status import EXIT_USAGE

_TEMPLATE = """\
# tracejudge settings. All keys, units and defaults: deploy/settings.example.toml.
# `tracejudge config check` reports all errors at once; `tracejudge doctor` tests every service.

# Queue: where the apps log their traces. Store: where everything is kept. Three slashes (sqlite:///, chdb:///) start
# a path relative to this file, four an absolute path: sqlite:////var/lib/tracejudge/queue.db
queue = {queue}
store = {store}

# A heuristic judge without a model: checks whether the words of the answer occur in the passages.
[[judges]]
name = "lexical"
kind = "lexical"

# A judge that calls a model on any OpenAI-compatible endpoint. It costs money, so it needs a cap.
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

# Share of the traffic that each judge sees. Sampled traces carry their inclusion probability, so rates stay unbiased.
[sampling]
rate = 1.0
# [sampling.judges]
# faithfulness = 0.1

# All rules of an (environment, app) together raise at most one false alarm per 30 days.
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
@click.option("--queue", default="sqlite:///tracejudge-data/queue.db", show_default=True, help="URL of the queue.")
@click.option("--store", default="chdb:///tracejudge-data/store", show_default=True, help="URL of the store.")
@click.option("--output", "-o", type=click.Path(dir_okay=False), default="tracejudge.toml", show_default=True)
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
def command(queue: str, store: str, output: str, force: bool) -> int:
    """Write a short, commented tracejudge.toml."""
    path = Path(output)
    if path.exists() and not force:
        click.echo(
            f"error: {path} already exists; use --force to overwrite it, or --output to choose another file", err=True
        )
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
