"""The consumer of the settings."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING

from tracejudge.store import Store
from tracejudge_consumer.settings import Settings
from tracejudge_consumer.wiring.alerts import announcer
from tracejudge_consumer.wiring.forms import build_record_form
from tracejudge_consumer.wiring.holder import process_holder
from tracejudge_consumer.wiring.judges import build_panel, register_judges, sampling_policy
from tracejudge_consumer.wiring.queue import build_intake

if TYPE_CHECKING:
    from tracejudge_consumer.flow.pipeline import Pipeline
    from tracejudge_consumer.report import PipelineReport
    from tracejudge_consumer.watching.health import Health
    from tracejudge_consumer.watching.metrics import Metrics


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
    from tracejudge_consumer.flow.pipeline import Pipeline
    from tracejudge_consumer.limits import PipelineLimits

    register_judges(settings.judges, store)
    consumer = settings.consumer
    clock = store.clock
    panel = build_panel(settings, store, settings.judges, patience_s=consumer.judge_patience_s)
    intake = build_intake(settings, metrics=metrics)
    if metrics is not None:
        metrics.watch_circuits(panel.availability)
    if health is not None:
        health.watch_circuits(panel.availability)
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
