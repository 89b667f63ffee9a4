"""Stages of the pipeline around a store in memory, on the running event loop."""

from __future__ import annotations

from concurrent.futures import Executor, Future
from typing import Any

from tests.support.memory_store import MemoryStore
from tests.support.running_pipeline import quick_limits
from tracejudge.clock import SystemClock
from tracejudge.sampling import SamplingPolicy
from tracejudge_consumer.dead_letter import DeadLetterGuard, DeadLetterLimit
from tracejudge_consumer.stages.build import StageContext, Stages, build_stages
from tracejudge_consumer.stages.needs import Judges
from tracejudge_consumer.watching.health import Health
from tracejudge_consumer.watching.metrics import Metrics


class AtOnce(Executor):
    """Does what it is given before it returns: no thread of its own."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - the caller's, as in a pool
            future.set_exception(error)
        return future


def make_stages(store: MemoryStore, judges: Judges, **limits: Any) -> Stages:
    """The stages of a run. `limits` as in PipelineLimits."""
    clock = SystemClock()
    return build_stages(
        StageContext(
            store=store,
            judges=judges,
            policy=SamplingPolicy(),
            guard=DeadLetterGuard(DeadLetterLimit()),
            limits=quick_limits(**limits),
            clock=clock,
            health=Health(clock),
            metrics=Metrics(),
            checkpoint=lambda _: None,
            pool=AtOnce(),
        )
    )
