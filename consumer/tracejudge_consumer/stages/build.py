"""The stages of one run, put together: what the pipeline and the work beside it share."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass, field

from tracejudge.clock import Clock
from tracejudge.sampling import SamplingPolicy
from tracejudge_consumer.dead_letter import DeadLetterGuard
from tracejudge_consumer.intake.form import RecordForm
from tracejudge_consumer.limits import PipelineLimits
from tracejudge_consumer.stages.checkpoints import Checkpoint
from tracejudge_consumer.stages.judge import Judging
from tracejudge_consumer.stages.judge_watch import JudgeWatch
from tracejudge_consumer.stages.needs import Judges, PipelineStore
from tracejudge_consumer.stages.process import BatchProcessor
from tracejudge_consumer.stages.results import ResultWriter
from tracejudge_consumer.stages.store_calls import StoreCalls
from tracejudge_consumer.stages.turns import Turns
from tracejudge_consumer.watching.health import Health
from tracejudge_consumer.watching.metrics import Metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """What the stages take from outside. For one event loop, whose blocking work goes to `pool`."""

    store: PipelineStore
    judges: Judges
    policy: SamplingPolicy
    guard: DeadLetterGuard
    limits: PipelineLimits
    clock: Clock
    health: Health
    metrics: Metrics
    checkpoint: Checkpoint
    pool: Executor
    form: RecordForm = field(default_factory=RecordForm)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stages:
    """The stages of one run."""

    calls: StoreCalls
    turns: Turns
    judging: Judging
    processor: BatchProcessor


def build_stages(around: Around) -> Stages:
    """Stages that share their turns, their store calls and one writer of results."""
    limits = around.limits
    calls = StoreCalls(
        around.pool, retry=limits.store_retry, health=around.health, metrics=around.metrics, clock=around.clock
    )
    writer = ResultWriter(
        store=around.store,
        calls=calls,
        metrics=around.metrics,
        clock=around.clock,
        checkpoint=around.checkpoint,
        interval_s=limits.result_interval_s,
        most_rows=limits.result_rows,
    )
    judging = Judging(
        judges=around.judges,
        writer=writer,
        calls=calls,
        watch=JudgeWatch(health=around.health, metrics=around.metrics),
        at_once=limits.judge_in_flight,
        past_patience=limits.past_patience,
    )
    turns = Turns()
    processor = BatchProcessor(
        store=around.store,
        judges=around.judges,
        judging=judging,
        policy=around.policy,
        guard=around.guard,
        turns=turns,
        calls=calls,
        pool=around.pool,
        clock=around.clock,
        metrics=around.metrics,
        checkpoint=around.checkpoint,
        form=around.form,
    )
    return Stages(calls=calls, turns=turns, judging=judging, processor=processor)
