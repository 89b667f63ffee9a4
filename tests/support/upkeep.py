"""The work beside the queue, for tests that run it with a pipeline or alone."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from tests.support.running_pipeline import quick_limits
from tracejudge.alerts import AlertEvent
from tracejudge.clock import Clock, SystemClock
from tracejudge.sampling import FeedbackTrigger, SamplingPolicy
from tracejudge.store import Store
from tracejudge_consumer.background.build import MakeUpkeep, upkeep_of
from tracejudge_consumer.dead_letter import DeadLetterGuard, DeadLetterLimit
from tracejudge_consumer.report import PipelineReport
from tracejudge_consumer.stages.build import StageContext, build_stages
from tracejudge_consumer.stages.needs import Judges
from tracejudge_consumer.watching.health import Health
from tracejudge_consumer.watching.metrics import Metrics


def make_upkeep(
    store: Store,
    judges: Judges,
    *,
    clock: Clock | None = None,
    interval_s: float = 0.02,
    parts_grace_s: float = 900.0,
    announce: Callable[[AlertEvent], None] | None = None,
    feedback: FeedbackTrigger | None = None,
) -> MakeUpkeep:
    """Upkeep that comes round at once and stores its events."""
    return upkeep_of(
        store,
        judges,
        clock=clock or SystemClock(),
        holder=uuid.uuid4().hex,
        announce=announce or (lambda event: void(store.alert_events.insert([event]))),
        interval_s=interval_s,
        parts_grace_s=parts_grace_s,
        feedback=feedback,
    )


def one_round(
    store: Store,
    judges: Judges,
    *,
    clock: Clock | None = None,
    parts_grace_s: float = 900.0,
    feedback: FeedbackTrigger | None = None,
) -> PipelineReport:
    """One round without a pipeline; gives what it came to."""
    clock = clock or SystemClock()
    done: list[PipelineReport] = []

    async def work() -> None:
        with ThreadPoolExecutor(2) as pool:
            stages = build_stages(
                StageContext(
                    store=store,
                    judges=judges,
                    policy=SamplingPolicy(),
                    guard=DeadLetterGuard(DeadLetterLimit()),
                    limits=quick_limits(),
                    clock=clock,
                    health=Health(clock),
                    metrics=Metrics(),
                    checkpoint=lambda stage: None,
                    pool=pool,
                )
            )
            make = make_upkeep(store, judges, clock=clock, parts_grace_s=parts_grace_s, feedback=feedback)
            await make(stages, done.append).round()

    asyncio.run(work())
    return PipelineReport.total([PipelineReport(), *done])


def void(_value: object) -> None:
    """What is said is not needed."""
