"""`tracejudge find`: one answer among millions."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime
from typing import Literal

import click

from tracejudge.counted import counted
from tracejudge.scores import LIVE_RUN
from tracejudge.store import TraceFilter, Wanted, words_of
from tracejudge_consumer.choosing.named_slice import require_judge, require_slice
from tracejudge_consumer.settings import load_settings
from tracejudge_consumer.terminal.options import DEFAULT_CONFIG, Moment, check_order, config_option, json_option
from tracejudge_consumer.terminal.rendering import console, ident, instant, one_line, table, to_json
from tracejudge_consumer.wiring import connect_store


@click.command(
    name="find",
    epilog="""\b
Examples:
  tracejudge find --user 4711
  tracejudge find refund deadline --since 7d
  tracejudge find --contains "退款" --app shop --outcome failed

WORDS are whole words of question or answer; all must occur, in any order, and are looked up in an index. --contains
finds any substring by scanning the whole time range. Texts are deleted after their retention.""",
)
@click.argument("words", nargs=-1)
@config_option
@json_option
@click.option("--user", "user_id", default=None, help="Only this user (the pseudonym as logged).")
@click.option("--session", "session_id", default=None, help="Only this session.")
@click.option("--since", type=Moment(), default=None, help="Start of the time range, by event time.  [default: all]")
@click.option("--until", type=Moment(), default=None, help="End of the time range (exclusive).  [default: now]")
@click.option("--environment", default=None, help="Only this environment.")
@click.option("--app", default=None, help="Only this app.")
@click.option("--version", default=None, help="Only this release of the app.")
@click.option("--category", default=None, help="Only this category.")
@click.option("--contains", default=None, help="Only with this substring in question or answer; slower than WORDS.")
@click.option(
    "--outcome",
    type=click.Choice(["passed", "failed", "invalid"]),
    default=None,
    help="Only with this outcome of a live verdict.",
)
@click.option("--judge", default=None, help="Verdicts of this judge (name or JudgeId).  [default: any]")
@click.option("-n", "--limit", type=click.IntRange(1, 1000), default=20, show_default=True)
def command(
    words: tuple[str, ...],
    config: str,
    as_json: bool,
    user_id: str | None,
    session_id: str | None,
    since: datetime | None,
    until: datetime | None,
    environment: str | None,
    app: str | None,
    version: str | None,
    category: str | None,
    contains: str | None,
    outcome: Literal["passed", "failed", "invalid"] | None,
    judge: str | None,
    limit: int,
) -> None:
    """Find answers by user, words, time, app and outcome, newest first."""
    check_order(since, until)
    where = TraceFilter(
        start=since, end=until, environment=environment, app=app, version=version, category=category,
        user_id=user_id, session_id=session_id, contains=contains,
    )  # fmt: skip
    known = words_of(" ".join(words))
    if words and not known:
        raise click.UsageError(f"{' '.join(words)!r} contains no word; use --contains for punctuation")
    settings = load_settings(config, require_caps=False)
    with connect_store(settings) as store:
        found = store.finder.find(Wanted(where=where, words=known, outcome=outcome, judge=judge), limit=limit)
        if not found:
            require_judge(store, judge, run_id=LIVE_RUN, configured={spec.name for spec in settings.judges})
            require_slice(store, environment=environment, app=app)
    if as_json:
        click.echo(to_json(found))
        return
    out = console()
    if not found:
        out.print("no answer matches" + "".join(f"; {text}" for text in _advice(known, where)))
        return
    columns = [("served (UTC)", "left"), ("trace", "left"), ("app", "left"), ("user", "left"), ("question", "left")]
    rows = [
        [
            instant(one.trace.event_time),
            ident(one.trace.trace_id),
            ident(one.trace.app),
            one_line(one.trace.user_id or "–", limit=20),
            "(past its retention)" if one.texts_expired else one_line(one.trace.query, limit=60),
        ]
        for one in found
    ]
    out.print(table(f"{counted(len(found), 'answer')}, newest first", columns, rows))
    out.print("next: tracejudge show TRACE_ID" + ("" if config == DEFAULT_CONFIG else f" -c {config}"))


def _advice(words: Collection[str], where: TraceFilter) -> Iterator[str]:
    """What may be the matter, by what was asked for."""
    if words:
        yield "only whole words match (try --contains)"
    if words or where.contains is not None:
        yield "texts are deleted after their retention"
    if where.user_id is not None:
        yield "--user takes the full pseudonym, as logged"
    if where.session_id is not None:
        yield "--session takes the full id, as logged"
    if where.start is not None:
        yield "try a longer --since"
