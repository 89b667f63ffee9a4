"""`tracejudge forget`: a trace or a person taken out of the store for good."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Final

import click

from tracejudge.counted import counted
from tracejudge.store.tombstones import Kind
from tracejudge_consumer.settings import load_settings
from tracejudge_consumer.terminal.asking import require_consent
from tracejudge_consumer.terminal.options import config_option, json_option
from tracejudge_consumer.terminal.rendering import console, ident, to_json
from tracejudge_consumer.wiring import build_evidence, connect_store

OUT_OF_REACH: Final = (
    "the queue: its records expire by its own retention; if read again, they are skipped",
    "earlier exports and backups, and files that were ingested",
    "alerts already sent: they contain ids, not texts",
    "copies of alert pages; in its own folder `watch` removes pages that name the trace within minutes",
    "ids (no texts) of failing traces that a running alert loop names, until it restarts",
    "dead letters that are not JSON and do not contain the id",
    "ClickHouse's old parts: they leave the disk about ten minutes after this",
)


@click.command(
    name="forget",
    epilog="""\b
Examples:
  tracejudge forget --trace-id 01890a5d-ac96-774b-bcce-b302099a8057 --yes
  tracejudge forget --user-id 4711 --reason "request of 12 May" --yes

A tombstone (a hash) is written first and kept permanently: if the same records arrive again they are skipped, and the
ledger counts them as forgotten. Deletes from traces, scores, ledger, labels, feedback, parts, cached verdicts, alert
evidence and dead letters. On a server this needs the ALTER privilege.""",
)
@config_option
@json_option
@click.option("--trace-id", default=None, help="Forget this trace.")
@click.option("--user-id", default=None, help="Forget every trace of this user (the pseudonym as logged).")
@click.option("--environment", default=None, help="Only in this environment.  [default: all]")
@click.option("--app", default=None, help="Only in this app.  [default: all]")
@click.option("--reason", default="", help="Reason, kept with the tombstone. Do not name anyone in it.")
@click.option("--by", default="", help="Name of who decided it, kept with the tombstone.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
def command(
    config: str,
    as_json: bool,
    trace_id: str | None,
    user_id: str | None,
    environment: str | None,
    app: str | None,
    reason: str,
    by: str,
    yes: bool,
) -> None:
    """Delete a trace or all data of a user, permanently."""
    if (trace_id is None) == (user_id is None):
        raise click.UsageError("name one of --trace-id and --user-id")
    kind: Kind = "trace" if trace_id is not None else "user"
    value = trace_id if trace_id is not None else user_id or ""
    if not value:
        raise click.UsageError(f"--{kind}-id is empty: give an id")
    settings = load_settings(config, require_caps=False)
    if not yes:
        require_consent(f"delete everything of {kind} {ident(value)} for good?")
    with connect_store(settings) as store:
        done = store.forgetting.forget(
            kind, value, at=datetime.now(timezone.utc), environment=environment, app=app, reason=reason, by=by
        )
        build_evidence(settings, store).sweep_if_due()
    if as_json:
        click.echo(to_json({"kind": kind, "traces": done.traces, "rows": done.rows, "out_of_reach": OUT_OF_REACH}))
        return
    out = console()
    out.print(f"{counted(done.traces, 'trace')} forgotten; {counted(done.total, 'row')} deleted")
    for table, count in done.rows.items():
        out.print(f"  {count:>8} {table}")
    out.print("a tombstone keeps them out from now on. Not covered:")
    for line in OUT_OF_REACH:
        out.print(f"  - {line}")
