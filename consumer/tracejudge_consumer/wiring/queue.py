"""Both ends of the queue of the settings, and the gateway in front of it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from tracejudge.errors import SettingsError
from tracejudge_consumer.settings import Settings
from tracejudge_sdk.transports import HttpQueue, KafkaQueue, SqliteQueue, Transport, parse_queue_url, transport_for

if TYPE_CHECKING:
    from tracejudge_consumer.gateway import Gateway
    from tracejudge_consumer.gateway.metrics import GatewayMetrics
    from tracejudge_consumer.intake import Intake
    from tracejudge_consumer.watching.metrics import Metrics

QUEUE_PASSWORD_ENV = "TRACEJUDGE_QUEUE_PASSWORD"  # noqa: S105 - the name of a variable, not a password


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
            ["queue: http:// is where apps write to; give the kafka:// or sqlite:/// queue behind the gateway here"]
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
