"""The composition root: the only place where settings become concrete Kafka, ClickHouse, judge and notifier objects."""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import Any

from tracejudge.clock import Clock, SystemClock
from tracejudge.errors import SettingsError
from tracejudge.judging.spec import JudgeSpec
from tracejudge.store import Store, open_store
from tracejudge_consumer.settings import Settings
from tracejudge_sdk.transports import KafkaQueue, Transport, parse_queue_url, transport_for

STORE_PASSWORD_ENV = "TRACEJUDGE_STORE_PASSWORD"  # noqa: S105 - the name of a variable, not a password
QUEUE_PASSWORD_ENV = "TRACEJUDGE_QUEUE_PASSWORD"  # noqa: S105


def connect_store(settings: Settings) -> Store:
    """The store of the settings, ready to use. Close it.

    An embedded store is migrated on the way: nobody else looks after it. A server must have been migrated
    (`tracejudge migrate`), since a fleet should not change a shared schema by merely starting.
    """
    store = open_unchecked_store(settings)
    try:
        if settings.store.startswith("chdb:"):
            store.migrate()
        else:
            store.check_schema()
    except BaseException:
        store.close()
        raise
    return store


def open_unchecked_store(settings: Settings) -> Store:
    """The store of the settings, whatever state its schema is in. Close it."""
    return open_store(
        settings.store, password=os.environ.get(STORE_PASSWORD_ENV), settle_timeout_s=settings.store_timeout_s
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


def system_clock() -> Clock:
    return SystemClock()
