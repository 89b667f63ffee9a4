"""What judges stored traces again: the stages of the pipeline without a queue. Importing it loads LlamaIndex."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tracejudge.store import Store
from tracejudge_consumer.background.again import Again
from tracejudge_consumer.dead_letter import DeadLetterGuard, DeadLetterLimit
from tracejudge_consumer.limits import PipelineLimits
from tracejudge_consumer.process.worker import Worker
from tracejudge_consumer.settings import Settings
from tracejudge_consumer.stages.build import StageContext, build_stages
from tracejudge_consumer.watching.health import Health
from tracejudge_consumer.watching.metrics import Metrics
from tracejudge_consumer.wiring.judges import build_panel, sampling_policy


@contextmanager
def running_again(settings: Settings, store: Store) -> Iterator[tuple[Again, Worker]]:
    """What judges stored traces again with the judges of the settings, on a worker of its own."""
    clock, limits = store.clock, PipelineLimits()
    panel = build_panel(settings, store, settings.judges)
    worker = Worker(threads=limits.store_threads)
    try:
        stages = build_stages(
            StageContext(
                store=store,
                judges=panel,
                policy=sampling_policy(settings),
                guard=DeadLetterGuard(DeadLetterLimit()),
                limits=limits,
                clock=clock,
                health=Health(clock),
                metrics=Metrics(),
                checkpoint=lambda _stage: None,
                pool=worker.pool,
            )
        )
        again = Again(
            store=store, judges=panel, judging=stages.judging, turns=stages.turns, calls=stages.calls, clock=clock
        )
        yield again, worker
        worker.submit(panel.close()).result()
    finally:
        worker.close()
