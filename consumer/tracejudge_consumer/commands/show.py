"""`tracejudge show`: everything known about one trace."""

from __future__ import annotations

import click

from tracejudge.errors import NotFound
from tracejudge_consumer.settings import load_settings
from tracejudge_consumer.terminal.options import config_option, json_option
from tracejudge_consumer.terminal.rendering import console, to_json
from tracejudge_consumer.views.trace import show_people, show_trace, show_verdicts
from tracejudge_consumer.wiring import connect_store


@click.command(
    name="show",
    epilog="""\b
Examples:
  tracejudge show 01890a5d-ac96-774b-bcce-b302099a8057
  tracejudge show t-17 --app shop --full --json""",
)
@click.argument("trace_id")
@config_option
@json_option
@click.option("--environment", default=None, help="Only this environment.")
@click.option("--app", default=None, help="Only this app.")
@click.option("--full", is_flag=True, help="Print full texts instead of excerpts.")
def command(trace_id: str, config: str, as_json: bool, environment: str | None, app: str | None, full: bool) -> None:
    """Show a trace: passages, signals, decisions, scores with raw verdict, labels, feedback."""
    with connect_store(load_settings(config, require_caps=False)) as store:
        found = store.traces.get(trace_id, environment=environment, app=app)
        scores = store.scores.of_trace(trace_id, environment=environment, app=app)
        rows = store.ledger.of_trace(trace_id, environment=environment, app=app)
        labels = store.labels.of_trace(trace_id, environment=environment, app=app)
        feedback = [
            item
            for item in store.feedback.of_trace(trace_id)
            if environment in (None, item.feedback.environment) and app in (None, item.feedback.app)
        ]
    if not found and not scores and not rows:
        raise NotFound(f"no trace {trace_id!r} in the store; `tracejudge worst` and `tracejudge tail` show ids")
    if as_json:
        facts = {"traces": found, "scores": scores, "ledger": rows, "labels": labels, "feedback": feedback}
        click.echo(to_json(facts))
        return
    out = console()
    places = [(one.trace.environment, one.trace.app) for one in found]
    places += [(score.environment, score.app) for score in scores]
    places += [(row.environment, row.app) for row in rows]
    places += [(label.environment, label.app) for label in labels]
    places += [(item.feedback.environment, item.feedback.app) for item in feedback]
    for place in dict.fromkeys(places):  # one id of several apps is several traces: what is said of each stays with it
        stored = [one for one in found if (one.trace.environment, one.trace.app) == place]
        for one in stored:
            show_trace(out, one, full=full)
        mine = [score for score in scores if (score.environment, score.app) == place]
        decided = [row for row in rows if (row.environment, row.app) == place]
        show_verdicts(out, mine, decided, full=full, stored=stored)
        show_people(
            out,
            [label for label in labels if (label.environment, label.app) == place],
            [item for item in feedback if (item.feedback.environment, item.feedback.app) == place],
        )
