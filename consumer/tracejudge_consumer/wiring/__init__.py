"""The composition root: the only place where settings become concrete Kafka, ClickHouse, judge and notifier objects."""

from __future__ import annotations

from tracejudge_consumer.wiring.alerts import (
    announcer,
    build_alert_loop,
    build_evidence,
    build_notifiers,
    stored_held,
    stored_judges,
    stored_series,
)
from tracejudge_consumer.wiring.anchors import anchor_judges, build_anchor_watch
from tracejudge_consumer.wiring.forms import (
    build_file_form,
    build_line_form,
    build_record_form,
    build_resolver,
    queue_app,
)
from tracejudge_consumer.wiring.holder import process_holder
from tracejudge_consumer.wiring.judges import build_panel, choose_judges, register_judges, sampling_policy
from tracejudge_consumer.wiring.pipeline import build_pipeline
from tracejudge_consumer.wiring.queue import (
    QUEUE_PASSWORD_ENV,
    build_gateway,
    build_intake,
    build_transport,
    queue_options,
)
from tracejudge_consumer.wiring.store import (
    CONSUMER_STORE_PATIENCE_S,
    STORE_PASSWORD_ENV,
    connect_store,
    embedded_store_missing,
    open_unchecked_store,
)

__all__ = [
    "CONSUMER_STORE_PATIENCE_S",
    "QUEUE_PASSWORD_ENV",
    "STORE_PASSWORD_ENV",
    "anchor_judges",
    "announcer",
    "build_alert_loop",
    "build_anchor_watch",
    "build_evidence",
    "build_file_form",
    "build_gateway",
    "build_intake",
    "build_line_form",
    "build_notifiers",
    "build_panel",
    "build_pipeline",
    "build_record_form",
    "build_resolver",
    "build_transport",
    "choose_judges",
    "connect_store",
    "embedded_store_missing",
    "open_unchecked_store",
    "process_holder",
    "queue_app",
    "queue_options",
    "register_judges",
    "sampling_policy",
    "stored_held",
    "stored_judges",
    "stored_series",
]
