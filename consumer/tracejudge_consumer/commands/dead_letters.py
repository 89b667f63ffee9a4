"""`tracejudge dead-letters`: records nobody could read, and what to do about them."""

from __future__ import annotations

import shlex
import sys
from base64 import b64encode
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from typing import Any, Final, TypeVar

import click

from tracejudge.counted import counted
from tracejudge.errors import NotFound, SettingsError
from tracejudge.store import DeadLetterFilter, DeadLetterState, Store, StoredDeadLetter
from tracejudge_consumer.requeue import requeue
from tracejudge_consumer.settings import load_settings
from tracejudge_consumer.terminal.asking import require_consent
from tracejudge_consumer.terminal.exit_status import EXIT_DONE, EXIT_FAILED
from tracejudge_consumer.terminal.options import Moment, check_order, config_option, json_option
from tracejudge_consumer.terminal.rendering import console, harmless, ident, instant, one_line, table, to_json
from tracejudge_consumer.views.dead_letter import letter_facts, show_letter_in
from tracejudge_consumer.wiring import connect_store, queue_options

_Command = TypeVar("_Command", bound=Callable[..., Any])

_MOST_FILES: Final = 5
_PAGE: Final = 500  # records sent and marked together: after a kill at most these are sent twice, which changes nothing


@click.group(
    name="dead-letters",
    invoke_without_command=True,
    epilog="""\b
Examples:
  tracejudge dead-letters
  tracejudge dead-letters list --reason not_json --since 1d
  tracejudge dead-letters show 0.1234.9f86d081
  tracejudge dead-letters replay --reason schema_too_new      after upgrading this consumer
  tracejudge dead-letters drop 0.1234.9f86d081""",
)
@click.pass_context
@config_option
@json_option
def command(context: click.Context, config: str, as_json: bool) -> None:
    """List, show, resend or drop unreadable records. Without a command: list them."""
    if context.invoked_subcommand is None:
        context.invoke(list_letters, config=config, as_json=as_json)


def choice_options(words: _Command) -> _Command:
    """Which dead letters are meant."""
    for option in (
        click.option("--source", default=None, help="Only from this source, such as kafka:TOPIC."),
        click.option("--reason", default=None, help="Only with this reason, such as not_json."),
        click.option(
            "--until", type=Moment(), default=None, help="Only dead letters read before this time.  [default: now]"
        ),
        click.option(
            "--since", type=Moment(), default=None, help="Only dead letters read at or after this time.  [default: all]"
        ),
    ):
        words = option(words)
    return words


@command.command(
    "list",
    short_help="List the latest, without contents.",
    epilog="""\b
Examples:
  tracejudge dead-letters list
  tracejudge dead-letters list --reason not_json --since 1d
  tracejudge dead-letters list --state all -n 500 --json""",
)
@config_option
@json_option
@choice_options
@click.option(
    "--state",
    type=click.Choice(["open", "replayed", "dropped", "all"]),
    default="open",
    show_default=True,
    help="Only dead letters in this state.",
)
@click.option("-n", "--limit", type=click.IntRange(1, 100_000), default=50, show_default=True)
def list_letters(
    config: str,
    as_json: bool,
    since: datetime | None,
    until: datetime | None,
    reason: str | None,
    source: str | None,
    state: str,
    limit: int,
) -> None:
    """List the latest dead letters, without contents."""
    check_order(since, until)
    wanted: DeadLetterState | None = None if state == "all" else state  # type: ignore[assignment]  # click chose it
    where = DeadLetterFilter(since=since, until=until, source=source, reason=reason, state=wanted)
    with connect_store(load_settings(config, require_caps=False)) as store:
        found = store.dead_letters.find(where, limit=limit)
        hint = "" if found else _reasons(store, reason)
    if as_json:
        click.echo(to_json([letter_facts(row) for row in found]))
        return
    out = console()
    if not found:
        out.print(f"no {'' if state == 'all' else state + ' '}dead letters{hint}")
        return
    columns = [("id", "left"), ("read (UTC)", "left"), ("source", "left"), ("partition", "right"), ("offset", "right")]
    columns += [("bytes", "right"), ("state", "left"), ("reason", "left")]
    out.print(
        table(
            "Dead letters",
            columns,
            [
                [
                    row.letter_id,
                    instant(row.letter.at),
                    ident(row.letter.source),
                    str(row.letter.partition),
                    str(row.letter.offset),
                    str(len(row.letter.value)),
                    row.state,
                    f"{harmless(row.letter.reason)}: {one_line(row.letter.detail, limit=80)}",
                ]
                for row in found
            ],
        )
    )
    if len(found) == limit:
        out.print(f"the latest {limit}; use -n for more")


@command.command(
    "show",
    short_help="Show one with its record.",
    epilog="""\b
Examples:
  tracejudge dead-letters show 0.1234.9f86d081
  tracejudge dead-letters show 0.1234.9f86d081 --raw > record.bin""",
)
@config_option
@json_option
@click.option("--raw", is_flag=True, help="Write only the raw bytes of the record to stdout.")
@click.argument("letter_id")
def show_letter(config: str, as_json: bool, raw: bool, letter_id: str) -> None:
    """Show one dead letter with its record, with control characters escaped."""
    with connect_store(load_settings(config, require_caps=False)) as store:
        found = _named(store, [letter_id], state=None)
    if raw:
        sys.stdout.buffer.write(found[0].letter.value)
        sys.stdout.buffer.flush()
        return
    for row in found:
        if as_json:
            click.echo(to_json({**letter_facts(row), "value_base64": b64encode(row.letter.value).decode()}))
        else:
            show_letter_in(console(), row)


@command.command(
    "replay",
    short_help="Resend the original bytes to the queue.",
    epilog="""\b
Examples:
  tracejudge dead-letters replay --reason schema_too_new      after upgrading this consumer
  tracejudge dead-letters replay 0.1234.9f86d081""",
)
@config_option
@json_option
@choice_options
@click.option("--all", "everything", is_flag=True, help="Every open dead letter of the queue.")
@click.argument("letter_ids", nargs=-1)
def replay_letters(
    config: str,
    as_json: bool,
    since: datetime | None,
    until: datetime | None,
    reason: str | None,
    source: str | None,
    everything: bool,
    letter_ids: tuple[str, ...],
) -> int:
    """Resend the original bytes to the queue and mark the dead letters as replayed.

    A record that is still unreadable becomes a new dead letter. Resending twice changes nothing.
    """
    where = DeadLetterFilter(since=since, until=until, source=source, reason=reason, letter_ids=letter_ids)
    _require_choice(where, everything=everything)
    settings = load_settings(config, require_caps=False)
    sent = elsewhere = 0
    with (
        connect_store(settings) as store,
        requeue(settings.queue, options=queue_options(settings)) as (ours, send),
    ):
        _check_ids(store, where)
        found = _all(store, where)
        mine = [row for row in found if row.letter.source == ours]
        elsewhere = len(found) - len(mine)
        hint = "" if found else _reasons(store, reason)
        for first in range(0, len(mine), _PAGE):
            page = mine[first : first + _PAGE]
            send([row.letter for row in page])
            store.dead_letters.mark(page, "replayed", at=datetime.now(timezone.utc))
            sent += len(page)
    if as_json:
        click.echo(to_json({"replayed": sent, "of_another_source": elsewhere}))
    else:
        click.echo(f"{counted(sent, 'record')} sent to {ours} again{hint}")
        if elsewhere:
            click.echo(
                f"{elsewhere} skipped: they came from a source other than {ours} (rows the store refused, files "
                "and other queues cannot be sent there)"
            )
            files = sorted({row.letter.source for row in found if row.letter.source.startswith("file:")})
            for name in files[:_MOST_FILES]:
                click.echo(f"  of {ident(name)}: {_of_file(name)}")
            if len(files) > _MOST_FILES:
                click.echo(f"  and of {counted(len(files) - _MOST_FILES, 'file')} more, in the same way")
    return EXIT_FAILED if elsewhere and not sent else EXIT_DONE


@command.command(
    "drop",
    short_help="Drop dead letters.",
    epilog="""\b
Examples:
  tracejudge dead-letters drop 0.1234.9f86d081
  tracejudge dead-letters drop --reason not_json --until 7d --yes""",
)
@config_option
@json_option
@choice_options
@click.option("--all", "everything", is_flag=True, help="Every open dead letter.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.argument("letter_ids", nargs=-1)
def drop_letters(
    config: str,
    as_json: bool,
    since: datetime | None,
    until: datetime | None,
    reason: str | None,
    source: str | None,
    everything: bool,
    yes: bool,
    letter_ids: tuple[str, ...],
) -> None:
    """Drop dead letters: their bytes are deleted, their counts are kept."""
    where = DeadLetterFilter(since=since, until=until, source=source, reason=reason, letter_ids=letter_ids)
    _require_choice(where, everything=everything)
    with connect_store(load_settings(config, require_caps=False)) as store:
        _check_ids(store, where)
        found = _all(store, where)
        hint = "" if found else _reasons(store, reason)
        if found and not yes:
            require_consent(f"drop {counted(len(found), 'dead letter')}? Their records cannot be recovered")
        for first in range(0, len(found), _PAGE):
            store.dead_letters.mark(found[first : first + _PAGE], "dropped", at=datetime.now(timezone.utc))
    told = f"{counted(len(found), 'dead letter')} dropped{hint}"
    click.echo(to_json({"dropped": len(found)}) if as_json else told)


def _of_file(source: str) -> str:
    """What to do about lines of a file, which no queue has."""
    path, chosen = source.removeprefix("file:"), shlex.quote(source)
    return (
        f"fix [intake.mapping] or the lines, `tracejudge ingest {shlex.quote(harmless(path))}` again (lines that were "
        f"read change nothing), then `tracejudge dead-letters drop --source {harmless(chosen)}`"
    )


def _require_choice(where: DeadLetterFilter, *, everything: bool) -> None:
    check_order(where.since, where.until)
    chosen = where.letter_ids or where.since or where.until or where.source or where.reason
    if not chosen and not everything:
        raise click.UsageError("give ids, a filter such as --reason or --since, or --all")


def _check_ids(store: Store, where: DeadLetterFilter) -> None:
    if where.letter_ids:
        _named(store, where.letter_ids, state=where.state)


def _named(store: Store, letter_ids: Sequence[str], *, state: DeadLetterState | None) -> list[StoredDeadLetter]:
    try:
        found = store.dead_letters.find(DeadLetterFilter(letter_ids=tuple(letter_ids), state=state))
    except ValueError as error:
        raise SettingsError([str(error)]) from error
    missing = [name for name in letter_ids if name not in {row.letter_id for row in found}]
    if missing:
        what = "dead letter" if state is None else f"{state} dead letter"
        raise NotFound(f"no {what} {', '.join(missing)}; `tracejudge dead-letters list --state all` shows their ids")
    return found


def _all(store: Store, where: DeadLetterFilter) -> list[StoredDeadLetter]:
    # With the oldest last: they are sent in the order in which they came.
    found = store.dead_letters.find(where, limit=1_000_000)
    return sorted(found, key=lambda row: (row.letter.source, row.letter.partition, row.letter.offset))


def _reasons(store: Store, asked: str | None) -> str:
    """What to say where no dead letter was found, for a reason that none has: a typing error, or good news."""
    if asked is None:
        return ""
    there = {
        place.reason
        for place in store.dead_letters.by_partition(
            datetime.fromtimestamp(0, timezone.utc), datetime.now(timezone.utc)
        )
    }
    if asked in there:
        return ""
    listed = ", ".join(harmless(name) for name in sorted(there)) or "none"
    return f": none has the reason {ident(asked)}; existing reasons: {listed}"
