"""`tracejudge label`: what a person says about an answer, for one trace or along a list."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Final, Literal

import click
from rich.console import Console
from rich.text import Text

from tracejudge.counted import counted
from tracejudge.errors import NotFound
from tracejudge.scores import Label
from tracejudge.store import ScoreFilter, Store, StoredTrace, TraceFilter, Wanted
from tracejudge_consumer.choosing.named_slice import require_slice
from tracejudge_consumer.settings import load_settings
from tracejudge_consumer.terminal.options import Moment, config_option, json_option
from tracejudge_consumer.terminal.person import this_person
from tracejudge_consumer.terminal.rendering import console, ident, to_json
from tracejudge_consumer.views.trace import show_trace
from tracejudge_consumer.wiring import connect_store

_ANSWERS: Final = {"y": 1.0, "n": 0.0}
Queue = Literal["worst", "disagree", "random"]


@click.command(
    name="label",
    epilog="""\b
Examples:
  tracejudge label t-17 --criterion faithfulness --no --note "the second sentence is made up"
  tracejudge label --queue worst --criterion faithfulness -n 20
  tracejudge label --queue random --criterion faithfulness --app shop

A queue shows answers one by one and asks y (yes), n (no), s (skip) or q (quit). It omits answers you have already
labelled by this criterion. `disagree` shows answers on which two judges differ. Use `random` to measure a judge: the
other two queues are biased. Labels appear in show, worst and compare.""",
)
@click.argument("trace_id", required=False)
@config_option
@json_option
@click.option("--criterion", required=True, help="Criterion: faithfulness ... (what a judge measures).")
@click.option("--yes/--no", "value", default=None, help="Whether the answer meets the criterion.")
@click.option("--note", default="", help="Reason, recorded with the label.")
@click.option(
    "--by", "source", default=None, help="Your name, recorded with the label.  [default: the user of this terminal]"
)
@click.option(
    "--queue",
    type=click.Choice(["worst", "disagree", "random"]),
    default=None,
    help="Label a list of answers one by one.",
)
@click.option("--since", type=Moment(), default="7d", show_default=True, help="Start of the queue's time range.")
@click.option("--environment", default=None, help="Only this environment.")
@click.option("--app", default=None, help="Only this app.")
@click.option(
    "-n", "--limit", type=click.IntRange(1, 500), default=20, show_default=True, help="Maximum answers in the queue."
)
def command(
    trace_id: str | None,
    config: str,
    as_json: bool,
    criterion: str,
    value: bool | None,
    note: str,
    source: str | None,
    queue: Queue | None,
    since: datetime,
    environment: str | None,
    app: str | None,
    limit: int,
) -> None:
    """Label one answer, or a list of answers, as good or bad."""
    if (trace_id is None) == (queue is None):
        raise click.UsageError("name a TRACE_ID, or a --queue")
    if queue is None and value is None:
        raise click.UsageError("give --yes or --no")
    who = source or this_person()
    settings = load_settings(config, require_caps=False)
    measured = sorted({spec.criterion for spec in settings.judges})
    if measured and criterion not in measured:
        click.echo(
            f"note: no judge of {config} measures {ident(criterion)!r}, so nothing is compared with this label; "
            f"they measure {', '.join(map(ident, measured))}",
            err=True,
        )
    with connect_store(settings) as store:
        if trace_id is not None:
            label = _make(_one(store, trace_id, environment, app), criterion, float(bool(value)), note, who)
            store.labels.insert([label])
            given = [label]
        else:
            where = TraceFilter(start=since, environment=environment, app=app)
            given = _walk(store, queue or "worst", where, criterion=criterion, note=note, who=who, limit=limit)
    if as_json:
        click.echo(to_json(given))
    else:
        click.echo(f"{counted(len(given), 'label')} by {ident(who)}", err=True)


def _one(store: Store, trace_id: str, environment: str | None, app: str | None) -> StoredTrace:
    found = store.traces.get(trace_id, environment=environment, app=app)
    if not found:
        raise NotFound(f"no trace {trace_id!r} in the store; `tracejudge find` searches for traces")
    if len(found) > 1:
        places = ", ".join(f"{one.trace.app} / {one.trace.environment}" for one in found)
        raise click.UsageError(f"trace {trace_id!r} is in {places}: name one with --app and --environment")
    return found[0]


def _walk(
    store: Store, queue: Queue, where: TraceFilter, *, criterion: str, note: str, who: str, limit: int
) -> list[Label]:
    given: list[Label] = []
    out = console(stderr=True)  # what is asked is no output
    seen = 0
    for stored in _unlabelled(store, _queue(store, queue, where, limit=limit), criterion, who):
        if seen == limit:
            break
        seen += 1
        _ask_about(out, stored, number=seen)
        answer = click.prompt(
            f"{criterion}?  y yes, n no, s skip, q quit", type=click.Choice(["y", "n", "s", "q"]),
            show_choices=False, err=True,
        )  # fmt: skip
        if answer == "q":
            break
        if answer in _ANSWERS:
            label = _make(stored, criterion, _ANSWERS[answer], note, who)
            store.labels.insert([label])  # at once: who quits, or is cut off, loses nothing
            given.append(label)
    if not seen:
        require_slice(store, environment=where.environment, app=where.app)
        out.print("nothing to label here: try another --queue or a longer --since")
    return given


def _queue(store: Store, queue: Queue, where: TraceFilter, *, limit: int) -> Iterator[StoredTrace]:
    wide = 5 * limit  # some will have a label already
    if queue == "worst":
        chosen = ScoreFilter(start=where.start, environment=where.environment, app=where.app, outcome="failed")
        seen = set()
        for score in store.scores.worst(chosen, limit=wide):
            if score.key not in seen:
                seen.add(score.key)
                yield from store.traces.get(score.trace_id, environment=score.environment, app=score.app)
    elif queue == "disagree":
        yield from store.finder.disagreed(where, limit=wide)
    else:
        yield from store.finder.random(Wanted(where=where), limit=wide, salt="label")


def _unlabelled(store: Store, found: Iterator[StoredTrace], criterion: str, who: str) -> Iterator[StoredTrace]:
    for stored in found:
        trace = stored.trace
        labels = store.labels.of_trace(trace.trace_id, environment=trace.environment, app=trace.app)
        if not stored.texts_expired and not any((one.criterion, one.source) == (criterion, who) for one in labels):
            yield stored


def _ask_about(out: Console, stored: StoredTrace, *, number: int) -> None:
    out.print()
    out.print(Text(f"— {number} —", style="bold"))
    show_trace(out, stored, full=False)


def _make(stored: StoredTrace, criterion: str, value: float, note: str, who: str) -> Label:
    trace = stored.trace
    return Label(
        environment=trace.environment,
        app=trace.app,
        trace_id=trace.trace_id,
        criterion=criterion,
        value=value,
        source=who,
        note=note,
        labelled_at=datetime.now(timezone.utc),
    )
