"""`tracejudge doctor`: every service tried, each line ok or FAIL with its fix."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Literal

import click

from tracejudge.counted import counted
from tracejudge.errors import MissingExtra, NotFound, SchemaTooNew, SettingsError, TraceJudgeError
from tracejudge.judging import JudgeSpec
from tracejudge.store import Store
from tracejudge.store.target import EmbeddedTarget, parse_store_url
from tracejudge_consumer.settings import Settings, load_settings, without_password
from tracejudge_consumer.terminal.exit_status import EXIT_DONE, EXIT_FAILED
from tracejudge_consumer.terminal.options import config_option, json_option
from tracejudge_consumer.terminal.rendering import harmless, one_line, to_json
from tracejudge_consumer.wiring import build_resolver, embedded_store_missing, open_unchecked_store, queue_options
from tracejudge_sdk.codec import DEFAULT_MAX_RECORD_BYTES
from tracejudge_sdk.transports import HttpQueue, KafkaQueue, SqliteQueue, parse_queue_url
from tracejudge_sdk.transports.urls import HTTP_PATH

_MAX_SKEW_S: Final = 5.0
_PATIENCE_S: Final = 5.0
_LOW_DISK_BYTES: Final = 2_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was tried. `fix` says what to do, where it is not ok."""

    subject: str
    status: Literal["ok", "FAIL", "note"]
    detail: str
    fix: str = ""


@click.command(
    name="doctor",
    epilog="""\b
Examples:
  tracejudge doctor
  tracejudge doctor --json
Exit status 1 if a check fails. Judges are only asked for their list of models, so no verdict is paid for.""",
)
@config_option
@json_option
def command(config: str, as_json: bool) -> int:
    """Check queue, store, judges and clock; suggest fixes."""
    checks = []
    for check in run_checks(config):
        checks.append(check)
        if not as_json:
            colour = {"ok": "green", "FAIL": "red", "note": "yellow"}[check.status]
            label = click.style(f"{check.status:<4}", fg=colour)
            click.echo(f"{label}  {check.subject:<18} {harmless(check.detail)}")
            if check.fix:
                click.echo(f"      fix: {harmless(check.fix)}")
    if as_json:
        click.echo(to_json(checks))
    return EXIT_FAILED if any(check.status == "FAIL" for check in checks) else EXIT_DONE


def run_checks(config: str) -> Iterator[Check]:
    """Every check, in the order in which faults hide one another."""
    try:
        settings = load_settings(config)
    except SettingsError as error:
        for fault in error.faults:
            yield Check(
                subject="settings",
                status="FAIL",
                detail=fault,
                fix=f"edit {config}" if Path(config).exists() else "tracejudge init",
            )
        return
    yield Check(
        subject="settings",
        status="ok",
        detail=f"{config}: {counted(len(settings.judges), 'judge')}",
    )
    yield from _check_queue(settings)
    yield from _check_store(settings)
    for spec in settings.judges:
        yield from _check_judge(spec)
    yield from _check_edges(settings)
    for notifier in settings.notifiers:
        if notifier.secret_env and not os.environ.get(notifier.secret_env):
            yield Check(
                subject=f"notifier {notifier.channel}",
                status="FAIL",
                detail=f"the variable {notifier.secret_env} is not set",
                fix=f"export {notifier.secret_env}=... where `tracejudge watch` runs",
            )


def _check_queue(settings: Settings) -> Iterator[Check]:
    queue = parse_queue_url(settings.queue)
    if isinstance(queue, HttpQueue):
        from tracejudge_consumer.gateway.check import answering

        ready = queue.path.removesuffix(HTTP_PATH) + "/ready"
        found = answering(queue.host, queue.port, secure=queue.secure, path=ready, subject="queue")
        yield Check(subject=found.subject, status="ok" if found.passed else "FAIL", detail=found.detail, fix=found.fix)
    if isinstance(queue, SqliteQueue):
        yield from _check_sqlite(Path(queue.path))
    elif isinstance(queue, KafkaQueue):
        from tracejudge_consumer.intake.kafka_check import check_kafka

        options = queue_options(settings)
        for subject, passed, detail, fix in check_kafka(
            queue, options, group=settings.consumer.group, record_bytes=DEFAULT_MAX_RECORD_BYTES
        ):
            yield Check(subject=subject, status="ok" if passed else "FAIL", detail=detail, fix="" if passed else fix)


def _check_edges(settings: Settings) -> Iterator[Check]:
    """What stands around the queue: the gateway, the function that knows texts, the switches."""
    if settings.gateway.port:
        from tracejudge_consumer.gateway.check import check_gateway

        for found in check_gateway(settings.gateway, environ=os.environ):
            # That it does not run on this machine is no fault where it runs on another.
            failed: Literal["FAIL", "note"] = "note" if found.subject == "gateway answers" else "FAIL"
            status = "ok" if found.passed else failed
            yield Check(subject=found.subject, status=status, detail=found.detail, fix=found.fix)
    if settings.intake.resolve_nodes is not None:
        try:
            build_resolver(settings)
        except SettingsError as error:
            fix = "try `python -c 'import MODULE'` in the consumer's environment and folder"
            yield Check(subject="intake", status="FAIL", detail=error.faults[0], fix=fix)
        else:
            yield Check(subject="intake", status="ok", detail=f"{settings.intake.resolve_nodes} can be loaded")
    switches = [name for name in ("consumer", "alert_loop") if getattr(settings.heartbeat, name) is not None]
    if switches:
        detail = f"{' and '.join(switches)}: set, not tested: only a working process sends a heartbeat"
        yield Check(subject="heartbeat", status="ok", detail=detail)


def _check_sqlite(path: Path) -> Iterator[Check]:
    from tracejudge_sdk.errors import TraceJudgeSdkError
    from tracejudge_sdk.transports.sqlite_log import SqliteLog

    if not path.exists():
        yield _no_queue_yet(path)
        return
    try:
        log = SqliteLog(path)
        try:
            records = log.end_offset() - log.begin_offset()
        finally:
            log.close()
    except (OSError, TraceJudgeSdkError) as error:
        yield Check(subject="queue", status="FAIL", detail=str(error), fix="fix the error shown, or correct `queue`")
    else:
        yield Check(subject="queue", status="ok", detail=f"{path}: {counted(records, 'record')}")
    yield _check_disk("queue", path.parent)


def _check_disk(what: str, folder: Path) -> Check:
    free = shutil.disk_usage(folder).free
    return Check(
        subject=f"{what} disk",
        status="ok" if free >= _LOW_DISK_BYTES else "FAIL",
        detail=f"{free / 1e9:.1f} GB free in {folder}",
        fix="" if free >= _LOW_DISK_BYTES else f"free up space, or put the {what} on another disk",
    )


def _no_queue_yet(path: Path) -> Check:
    # Not made here: who only looks leaves nothing behind, least of all where the path is mistyped.
    there = next(one for one in path.absolute().parents if one.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        return Check(
            subject="queue",
            status="FAIL",
            detail=f"{path}: cannot be created in {there}",
            fix="grant this user write permission there, or correct `queue`",
        )
    return Check(
        subject="queue",
        status="note",
        detail=f"{path}: no queue yet",
        fix="the first trace or `tracejudge consume` creates it; or correct `queue`",
    )


def _check_store(settings: Settings) -> Iterator[Check]:
    shown = without_password(settings.store)
    if nothing := embedded_store_missing(settings):
        yield _nothing_yet(nothing)
        if settings.anchors.set is not None:
            yield _no_anchors(settings.anchors.set)
        return
    target = parse_store_url(settings.store)
    embedded = isinstance(target, EmbeddedTarget)
    if isinstance(target, EmbeddedTarget):
        yield _check_disk("store", target.directory)  # first: what comes after it fails where there is no room
    try:
        # A person waits for the answer. An embedded store may be changing its owner, which takes its time.
        store = open_unchecked_store(settings, patience_s=None if embedded else _PATIENCE_S)
    except MissingExtra as error:
        yield Check(subject="store", status="FAIL", detail=str(error), fix=str(error).rpartition(": ")[2])
        return
    except TraceJudgeError as error:
        yield Check(
            subject="store",
            status="FAIL",
            detail=one_line(f"{shown}: {error}", limit=300),
            fix="fix the error shown, or correct `store`"
            if embedded
            else "start it, or correct `store` and TRACEJUDGE_STORE_PASSWORD",
        )
        return
    with store:
        yield Check(subject="store", status="ok", detail=f"{shown}: ClickHouse {store.version()}")
        try:
            if embedded:
                store.migrate(settings.retention.times)
            store.check_schema()
        except TraceJudgeError as error:
            # What a newer release has migrated says its remedy itself, and `migrate` would be refused.
            fix = "" if isinstance(error, SchemaTooNew) else "tracejudge migrate"
            yield Check(subject="store schema", status="FAIL", detail=str(error), fix=fix)
        else:
            yield Check(subject="store schema", status="ok", detail="up to date")
            missing = store.missing_grants()
            yield Check(
                subject="store grants",
                status="FAIL" if missing else "ok",
                detail=f"missing: {', '.join(missing)}" if missing else "read and write",
                fix="GRANT them to this user; `tracejudge migrate --print` shows the tables" if missing else "",
            )
        skew_s = (store.now() - datetime.now(timezone.utc)).total_seconds()
        fine = abs(skew_s) <= _MAX_SKEW_S
        yield Check(
            subject="clock",
            status="ok" if fine else "FAIL",
            detail=f"{abs(skew_s):.1f} s {'ahead of' if skew_s < 0 else 'behind'} the store's",
            fix=""
            if fine
            else "run NTP on both machines: answers count in the windows that the clocks of their apps name",
        )
        if settings.anchors.set is not None:
            yield _anchors(settings.anchors.set, store)


def _anchors(name: str, store: Store) -> Check:
    try:
        found = store.anchors.find(name)
    except NotFound:
        return _no_anchors(name)
    except TraceJudgeError as error:  # a schema that is behind has been told already
        return Check(
            subject="anchors", status="FAIL", detail=one_line(str(error), limit=300), fix="see the store check above"
        )
    return Check(subject="anchors", status="ok", detail=f"{found} is built")


def _no_anchors(name: str) -> Check:
    detail = f"[anchors] set = {name!r} is not built: no rounds are run and no judge is checked against it"
    return Check(subject="anchors", status="note", detail=detail, fix=f"tracejudge anchors build {shlex.quote(name)}")


def _nothing_yet(nothing: str) -> Check:
    # Not made here: an empty store where nobody wants one would answer every look with "no data".
    if find_spec("chdb") is None:
        error = str(MissingExtra("an embedded store (chdb://)", extra="embedded"))
        return Check(subject="store", status="FAIL", detail=error, fix=error.rpartition(": ")[2])
    return Check(
        subject="store", status="note", detail=nothing, fix="`tracejudge consume` creates it; or correct `store`"
    )


def _check_judge(spec: JudgeSpec) -> Iterator[Check]:
    subject = f"judge {spec.name}"
    if not spec.calls_model:
        kind = "heuristic, no model" if spec.heuristic else "no model"
        yield Check(subject=subject, status="ok", detail=f"{spec.judge_id()}: {kind}")
        return
    from tracejudge.judging.calls.endpoint_check import check_endpoint

    result = asyncio.run(check_endpoint(spec))
    yield Check(subject=subject, status=result.status, detail=f"{spec.judge_id()}: {result.detail}", fix=result.fix)
