"""The composition root: the only place where settings become concrete Kafka, ClickHouse, judge and notifier objects."""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Callable, Collection
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tracejudge.clock import SystemClock
from tracejudge.errors import NotFound, SettingsError
from tracejudge.judging import JudgeSpec, RunCaps
from tracejudge.sampling import SamplingPolicy
from tracejudge.store import Adoption, RegisteredJudge, Store, open_store
from tracejudge.store.target import EmbeddedTarget, parse_store_url
from tracejudge_consumer.settings import Settings
from tracejudge_sdk.transports import HttpQueue, KafkaQueue, SqliteQueue, Transport, parse_queue_url, transport_for

if TYPE_CHECKING:
    from tracejudge.alerts import AlertEvent, Notifier, SeriesStatus
    from tracejudge.judging import Panel
    from tracejudge_consumer.alert_loop import AlertLoop
    from tracejudge_consumer.file_form import FileForm
    from tracejudge_consumer.gateway import Gateway
    from tracejudge_consumer.gateway.metrics import GatewayMetrics
    from tracejudge_consumer.health import Health
    from tracejudge_consumer.intake import Intake
    from tracejudge_consumer.intake.form import RecordForm
    from tracejudge_consumer.intake.mapping import ForeignForm
    from tracejudge_consumer.intake.resolve import NodeResolver
    from tracejudge_consumer.loop_health import LoopHealth
    from tracejudge_consumer.metrics import Metrics
    from tracejudge_consumer.pipeline import Pipeline
    from tracejudge_consumer.report import PipelineReport

# Every store has been there since the first trace: the first JudgeId of a name is live for all of the past.
_BEGINNING: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)

# The pipeline repeats what failed for ever; a call that waits long would only hold up its end.
CONSUMER_STORE_PATIENCE_S: Final = 10.0

STORE_PASSWORD_ENV = "TRACEJUDGE_STORE_PASSWORD"  # noqa: S105 - the name of a variable, not a password
QUEUE_PASSWORD_ENV = "TRACEJUDGE_QUEUE_PASSWORD"  # noqa: S105


def connect_store(settings: Settings, *, create: bool = False, patience_s: float | None = None) -> Store:
    """The store of the settings, ready to use. Close it.

    `create` says that an embedded store may be made where there is none; without it NotFound is raised, so that a look
    from the wrong folder does not leave an empty store behind and call it "no data".

    `patience_s` replaces `store_timeout_s` for those who try again by themselves.

    An embedded store is migrated on the way: nobody else looks after it. A server must have been migrated
    (`tracejudge migrate`), since a fleet should not change a shared schema by merely starting.
    """
    if settings.store.startswith("chdb:") and not create:
        target = parse_store_url(settings.store)
        if isinstance(target, EmbeddedTarget) and not (folder := target.directory).exists():
            raise NotFound(f"{folder}: no store here yet: `tracejudge consume` makes one, or correct `store`")
    store = open_unchecked_store(settings, patience_s=patience_s)
    try:
        if settings.store.startswith("chdb:"):
            store.migrate(settings.retention.times)
        else:
            store.check_schema()
    except BaseException:  # Ctrl-C too: an owner that is not closed keeps the directory
        store.close()
        raise
    return store


def open_unchecked_store(settings: Settings, *, patience_s: float | None = None) -> Store:
    """The store of the settings, whatever state its schema is in. Close it."""
    return open_store(
        settings.store,
        password=os.environ.get(STORE_PASSWORD_ENV),
        settle_timeout_s=settings.store_timeout_s if patience_s is None else patience_s,
    )


def queue_options(settings: Settings) -> dict[str, Any]:
    """The options of the queue's client, with the password from the environment."""
    options = dict(settings.queue_options)
    password = os.environ.get(QUEUE_PASSWORD_ENV)
    if password and isinstance(parse_queue_url(settings.queue), KafkaQueue):
        options.setdefault("sasl_plain_password", password)
    return options


def build_transport(settings: Settings) -> Transport:
    """A writer to the queue of the settings."""
    return transport_for(settings.queue, options=queue_options(settings))


def choose_judges(specs: Collection[JudgeSpec], names: Collection[str]) -> tuple[JudgeSpec, ...]:
    """Those of `specs` that are named. Raises SettingsError naming the ones that are not configured."""
    known = {spec.name: spec for spec in specs}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise SettingsError(
            [
                f"judge {name!r} is not in the settings; there are {', '.join(map(repr, known)) or 'none'}"
                for name in unknown
            ]
        )
    return tuple(known[name] for name in names)


def build_intake(settings: Settings, *, metrics: Metrics | None = None) -> Intake:
    """A reader of the queue of the settings. Raises QueueUnavailable and SettingsError as its client does."""
    queue = parse_queue_url(settings.queue)
    group = settings.consumer.group
    if isinstance(queue, SqliteQueue):
        from tracejudge_consumer.intake.sqlite import SqliteIntake
        from tracejudge_sdk.transports.sqlite_log import SqliteLog
        from tracejudge_sdk.transports.sqlite_retention import Retention

        consumer = settings.consumer
        return SqliteIntake(
            SqliteLog(queue.path),
            group=group,
            retention=Retention(keep_s=consumer.queue_keep_s, max_bytes=consumer.queue_max_bytes),
            deleted_unread=(lambda _group, _records: None) if metrics is None else metrics.count_deleted_unread,
        )
    if isinstance(queue, KafkaQueue):
        from tracejudge_consumer.intake.kafka import KafkaIntake

        return KafkaIntake(queue.bootstrap_servers, queue.topic, group=group, options=queue_options(settings))
    if isinstance(queue, HttpQueue):
        raise SettingsError(
            ["queue: http:// is where apps write to; name here the kafka:// or sqlite:/// queue behind the gateway"]
        )
    raise SettingsError(["queue: a memory queue cannot be read by another process; use sqlite:///PATH"])


def build_gateway(
    settings: Settings, *, host: str | None = None, port: int | None = None, metrics: GatewayMetrics | None = None
) -> Gateway:
    """HTTP ingest in front of the queue of the settings. Raises SettingsError where it would not be safe to listen."""
    from dataclasses import fields

    from tracejudge_consumer.gateway import Gateway, GatewayLimits
    from tracejudge_consumer.gateway.admission import keys_from
    from tracejudge_consumer.gateway.tls import server_context

    section = settings.gateway
    if not isinstance(parse_queue_url(settings.queue), (KafkaQueue, SqliteQueue)):
        raise SettingsError(["queue: a gateway stands in front of a kafka:// or sqlite:/// queue"])
    host = section.host if host is None else host
    return Gateway(
        lambda: build_transport(settings),
        host=host,
        port=section.port if port is None else port,
        hosts=section.hosts,
        keys=keys_from(os.environ.get(section.key_env), variable=section.key_env, host=host),
        key_variable=section.key_env,
        limits=GatewayLimits(**{one.name: getattr(section, one.name) for one in fields(GatewayLimits)}),
        tls=server_context(section.tls_cert_file, section.tls_key_file),
        metrics=metrics,
    )


def build_line_form(settings: Settings) -> ForeignForm | None:
    """The mapping of the settings; None where records have our own form."""
    if settings.intake.mapping is None:
        return None
    from tracejudge_consumer.intake.mapping import ForeignForm

    return ForeignForm(settings.intake.mapping)


def build_resolver(settings: Settings, *, metrics: Metrics | None = None) -> NodeResolver | None:
    """The user's function that knows the texts of passages; None without one. Raises SettingsError."""
    name = settings.intake.resolve_nodes
    if name is None:
        return None
    from tracejudge_consumer.intake.resolve import NodeResolver, load_hook

    if metrics is None:
        return NodeResolver(load_hook(name), name=name)
    unresolved = metrics.unresolved
    return NodeResolver(
        load_hook(name), name=name, unresolved=lambda reason, count: unresolved.labels(reason).inc(count)
    )


def build_file_form(settings: Settings) -> FileForm:
    """How files are read that are judged here and now."""
    from tracejudge_consumer.file_form import FileForm

    return FileForm(form=build_line_form(settings), resolver=build_resolver(settings))


def build_record_form(settings: Settings, *, metrics: Metrics | None = None) -> RecordForm:
    """How records of the queue are read."""
    from tracejudge_consumer.intake.form import RecordForm, own_form

    read, form = own_form, build_line_form(settings)
    if form is not None:
        from tracejudge_consumer.intake.mapping import MappedReader

        queue = parse_queue_url(settings.queue)
        app = queue.topic if isinstance(queue, KafkaQueue) else getattr(queue, "path", Path("queue")).stem
        read = MappedReader(form, app=app)
    return RecordForm(read=read, resolver=build_resolver(settings, metrics=metrics))


def build_panel(
    settings: Settings,
    store: Store,
    specs: Collection[JudgeSpec],
    *,
    caps: RunCaps | None = None,
    patience_s: float = 0.0,
    cached: bool = True,
) -> Panel:
    """A panel of `specs` on an open store: budgets kept across the fleet, verdicts shared through the store.

    `cached` False is for what measures a judge.
    """
    from tracejudge.judging import Panel, VerdictCache
    from tracejudge.judging.cache import Memory

    cache = None
    if cached and settings.cache.enabled:
        memory = Memory(entries=settings.cache.entries, size_bytes=settings.cache.size_bytes)
        cache = VerdictCache(store=store.verdict_cache, memory=memory)
    return Panel(
        tuple(specs),
        clock=SystemClock(),
        spend=store.calls,
        caps=caps,
        total=settings.budget.caps,
        leases=store.budget_leases,
        cache=cache,
        patience_s=patience_s,
    )


def build_pipeline(
    settings: Settings,
    store: Store,
    *,
    metrics: Metrics | None = None,
    health: Health | None = None,
    progress: Callable[[PipelineReport], None] | None = None,
) -> Pipeline:
    """The consumer of the settings on an open store; its judges are registered there."""
    from tracejudge_consumer.background.build import upkeep_of
    from tracejudge_consumer.dead_letter import DeadLetterLimit
    from tracejudge_consumer.limits import PipelineLimits
    from tracejudge_consumer.pipeline import Pipeline

    register_judges(settings.judges, store)
    consumer = settings.consumer
    clock = SystemClock()
    panel = build_panel(settings, store, settings.judges, patience_s=consumer.judge_patience_s)
    intake = build_intake(settings, metrics=metrics)
    if metrics is not None:
        metrics.watch_circuits(panel.availability)
    return Pipeline(
        intake=intake,
        store=store,
        panel=panel,
        policy=sampling_policy(settings),
        clock=clock,
        limits=PipelineLimits(
            max_in_flight_records=consumer.max_in_flight_records,
            max_in_flight_bytes=consumer.max_in_flight_bytes,
            batch_records=consumer.batch_records,
            batch_wait_s=consumer.batch_wait_s,
            commit_interval_s=consumer.commit_interval_s,
            drain_timeout_s=consumer.drain_timeout_s,
            past_patience=consumer.past_patience,
        ),
        dead_letter_limit=DeadLetterLimit(max_share=consumer.max_dead_share),
        read_before=store.dead_letters.shares(intake.source, clock.now() - timedelta(days=1)),
        metrics=metrics,
        health=health,
        progress=progress or (lambda _: None),
        form=build_record_form(settings, metrics=metrics),
        upkeep=upkeep_of(
            store,
            panel,
            clock=clock,
            holder=process_holder(),
            announce=announcer(settings, store),
            interval_s=consumer.upkeep_interval_s,
            parts_grace_s=consumer.parts_grace_s,
            feedback=settings.sampling.feedback,
        ),
    )


def process_holder() -> str:
    """A name for leases; its random end tells a holder from its predecessor with the same name and process id."""
    return f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"


def announcer(settings: Settings, store: Store) -> Callable[[AlertEvent], None]:
    """Stores an event and leaves its notifications to the alert loop; repeating it changes nothing."""
    from tracejudge_consumer.deliveries import Deliveries

    notifiers = build_notifiers(settings)
    deliveries = Deliveries(store=store, notifiers=notifiers, clock=SystemClock())

    def announce(event: AlertEvent) -> None:
        store.alert_events.insert([event])
        deliveries.enqueue([event], still_open=frozenset())

    return announce


def sampling_policy(settings: Settings) -> SamplingPolicy:
    """The policy in force: a judge that calls no model sees everything, unless the settings name it."""
    return settings.sampling.with_full_rate(spec.name for spec in settings.judges if not spec.calls_model)


def register_judges(specs: Collection[JudgeSpec], store: Store) -> None:
    """Writes down what each JudgeId stands for, and which is live for its name from now on.

    The first JudgeId of a name is live for all of the past, so that a backlog read on the first day shows under it.
    """
    now = store.now()
    known = {judge.judge_id for judge in store.judges.all()}
    store.judges.register([registered(spec, now) for spec in specs if spec.judge_id() not in known])
    for spec in specs:
        if spec.shadow:
            continue  # on trial: known, and live for nothing
        adoptions = sorted(store.judges.adoptions(spec.name), key=lambda adoption: adoption.live_from)
        if adoptions and adoptions[-1].judge_id == spec.judge_id():
            continue
        live_from = now if adoptions else _BEGINNING
        store.judges.adopt(Adoption(judge_name=spec.name, judge_id=spec.judge_id(), live_from=live_from))


def registered(spec: JudgeSpec, at: datetime) -> RegisteredJudge:
    """What stands behind a JudgeId, as the store keeps it."""
    return RegisteredJudge(
        judge_name=spec.name,
        judge_id=spec.judge_id(),
        spec=spec.model_dump(mode="json"),
        heuristic=spec.heuristic,
        registered_at=at,
    )


def build_notifiers(settings: Settings) -> list[Notifier]:
    """The channels of the settings."""
    from tracejudge.alerts import build_notifiers as build

    return list(build(settings.notifiers, environ=os.environ))


def build_alert_loop(
    settings: Settings, store: Store, *, settle_s: float | None = None, health: LoopHealth | None = None
) -> AlertLoop:
    """The alert loop of the settings on an open store; its steps are signs of life for `health`. Close it."""
    from tracejudge_consumer.alert_loop import AlertLoop

    return AlertLoop(
        store=store,
        rules=settings.rules,
        notifiers=build_notifiers(settings),
        clock=SystemClock(),
        holder=process_holder(),
        settle_s=settings.alert_loop.settle_s if settle_s is None else settle_s,
        checkpoint=(lambda _: None) if health is None else health.sign,
        policy=sampling_policy(settings),
    )


def stored_series(settings: Settings, store: Store) -> list[SeriesStatus]:
    """Where every series stood when the alert loop last saved it."""
    from tracejudge_consumer.alert_loop import load_series

    return load_series(store, settings.rules)
