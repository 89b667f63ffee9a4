"""`tracejudge tail`: scores as they are stored."""

from __future__ import annotations

import time
from datetime import timedelta

import click
from rich.text import Text

from tracejudge.reports import score_labels
from tracejudge.scores import JudgeId, Score
from tracejudge.store import Cursor
from tracejudge_consumer.settings import load_settings
from tracejudge_consumer.terminal.options import Span, config_option, json_option
from tracejudge_consumer.terminal.rendering import console, ident, instant, one_line, to_json
from tracejudge_consumer.wiring import connect_store

_STYLES = {"passed": "green", "failed": "red", "invalid": "yellow"}


@click.command(
    name="tail",
    epilog="""\b
Examples:
  tracejudge tail                       follow, starting with the last 10 minutes
  tracejudge tail --last 1h --once --json""",
)
@config_option
@json_option
@click.option("--last", type=Span(), default="10m", show_default=True, help="Start this long ago.")
@click.option("--once", is_flag=True, help="Print existing scores and exit.")
@click.option("--failed", is_flag=True, help="Only failed and invalid scores.")
def command(config: str, as_json: bool, last: timedelta, once: bool, failed: bool) -> None:
    """Follow new scores as they are stored (Ctrl-C stops)."""
    out = console()
    with connect_store(load_settings(config, require_caps=False)) as store:
        cursor: Cursor | None = Cursor(store.now() - last, "")
        judges: dict[JudgeId, Score] = {}  # one score of each: two of one name are told apart from then on
        while True:
            rows = store.scores.since(cursor, until=store.now() + timedelta(seconds=1), limit=1000)
            judges |= {score.judge_id: score for score in rows}
            names = score_labels(judges.values())
            for score in rows:
                if failed and score.outcome.value == "passed":
                    continue
                if as_json:
                    click.echo(to_json(score))
                else:
                    out.print(_line(score, names[score.judge_id]))
            if rows:
                cursor = Cursor(rows[-1].judged_at, rows[-1].trace_id)
                continue
            if once:
                return
            time.sleep(1.0)


def _line(score: Score, name: str) -> Text:
    value = "    –" if score.score is None else f"{score.score:5.2f}"
    text = Text(f"{instant(score.judged_at)}  ")
    text.append(f"{score.outcome.value:<8}", style=_STYLES[score.outcome.value])
    text.append(f"{value}  {ident(name)}  {ident(score.app)}  {ident(score.trace_id)}  ")
    text.append(one_line(score.reason or score.feedback, limit=80), style="dim")
    return text
