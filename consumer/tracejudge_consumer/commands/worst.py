"""`tracejudge worst`: the answers one should read first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

import click
from rich.console import Console
from rich.text import Text

from tracejudge.reports import score_labels
from tracejudge.scores import LIVE_RUN, Label, Score, TraceKey
from tracejudge.store import ScoreFilter, Store
from tracejudge_consumer.choosing.named_run import require_run
from tracejudge_consumer.choosing.named_slice import require_judge, require_slice
from tracejudge_consumer.settings import load_settings
from tracejudge_consumer.terminal.options import (
    DEFAULT_CONFIG,
    Moment,
    check_order,
    config_option,
    json_option,
    slice_options,
)
from tracejudge_consumer.terminal.rendering import console, ident, instant, one_line, to_json
from tracejudge_consumer.wiring import connect_store
from tracejudge_sdk.trace import Trace


@click.command(
    name="worst",
    epilog="""\b
Examples:
  tracejudge worst                       the ten lowest scores of the last 24 hours
  tracejudge worst --judge faithfulness --version v42 -n 3""",
)
@config_option
@json_option
@slice_options
@click.option(
    "--since", type=Moment(), default="24h", show_default=True, help="Start of the time range, by event time."
)
@click.option("--until", type=Moment(), default=None, help="End of the time range (exclusive).  [default: now]")
@click.option("--judge", default=None, help="Only this judge (name or JudgeId).")
@click.option("--run", "run_id", default=LIVE_RUN, show_default=True, help="Run whose scores are read.")
@click.option("-n", "--limit", type=click.IntRange(1, 1000), default=10, show_default=True)
def command(
    config: str,
    as_json: bool,
    environment: str,
    app: str | None,
    version: str | None,
    category: str | None,
    since: datetime,
    until: datetime | None,
    judge: str | None,
    run_id: str,
    limit: int,
) -> None:
    """The worst answers, each with passage and reason."""
    check_order(since, until)
    where = ScoreFilter(
        start=since,
        end=until,
        environment=environment,
        app=app,
        version=version,
        category=category,
        judge=judge,
        run_id=run_id,
        outcome="failed",
    )
    settings = load_settings(config, require_caps=False)
    with connect_store(settings) as store:
        found = with_traces(store, store.scores.worst(where, limit=limit))
        if not found:
            require_run(store, run_id)
            require_judge(store, judge, run_id=run_id, configured={spec.name for spec in settings.judges})
            require_slice(store, environment=environment, app=app)
        labels = {
            score.key: store.labels.of_trace(score.trace_id, environment=score.environment, app=score.app)
            for score, _ in found
        }
    if as_json:
        click.echo(to_json([{"score": score, "trace": trace, "labels": labels[score.key]} for score, trace in found]))
        return
    out = console()
    if not found:
        out.print("no failed scores in this slice; `tracejudge rates` says how many were judged at all")
        return
    show_worst(out, found, labels)
    out.print("next: tracejudge show TRACE_ID" + ("" if config == DEFAULT_CONFIG else f" -c {config}"))


def with_traces(store: Store, scores: Sequence[Score]) -> list[tuple[Score, Trace | None]]:
    """Each score with its trace, or None where the text is past its retention."""
    found = []
    for score in scores:
        stored = store.traces.get(score.trace_id, environment=score.environment, app=score.app)
        found.append((score, stored[0].trace if stored and not stored[0].texts_expired else None))
    return found


def show_worst(
    out: Console,
    found: Sequence[tuple[Score, Trace | None]],
    labels: Mapping[TraceKey, Sequence[Label]] | None = None,
) -> None:
    """Prints each with question, answer, best passage, the judge's reason, and what people said."""
    names = score_labels(score for score, _ in found)
    for number, (score, trace) in enumerate(found, start=1):
        value = "–" if score.score is None else f"{score.score:.2f}"
        head = f"{number}. {ident(score.trace_id)}  {ident(score.app)}  {instant(score.event_time)}  "
        out.print(Text(head + f"{ident(names[score.judge_id])} {value}", style="bold"))
        if trace is None:
            out.print("   (the text of this trace is past its retention)")
        else:
            out.print(f"   question  {one_line(trace.query, limit=140)}")
            out.print(f"   answer    {one_line(trace.response or '', limit=200)}")
            texts = [node.text for node in trace.source_nodes if node.text]
            out.print(f"   passage   {one_line(texts[0], limit=200) if texts else '–'}")
        out.print(f"   reason    {one_line(score.feedback or score.reason, limit=200)}")
        for label in (labels or {}).get(score.key, ()):
            said = f"{ident(label.criterion)} = {label.value:g}  ({one_line(label.source)}) {one_line(label.note)}"
            out.print(f"   label     {said.rstrip()}")
