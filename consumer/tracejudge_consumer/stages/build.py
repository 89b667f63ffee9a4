"""Builds the stages of one run, which the pipeline and the background work share."""

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
class StageContext:
    """What all stages of a run are built from. For one event loop; blocking work goes to `pool`."""

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


def build_stages(context: StageContext) -> Stages:
    """The stages of one run; they share turns, store calls and one ResultWriter."""
    limits = context.limits
    calls = StoreCalls(
        context.pool, retry=limits.store_retry, health=context.health, metrics=context.metrics, clock=context.clock
    )
    writer = ResultWriter(
        store=context.store,
        calls=calls,
        metrics=context.metrics,
        clock=context.clock,
        checkpoint=context.checkpoint,
        interval_s=limits.result_interval_s,
        most_rows=limits.result_rows,
    )
    judging = Judging(
        judges=context.judges,
        writer=writer,
        calls=calls,
        watch=JudgeWatch(health=context.health, metrics=context.metrics),
        at_once=limits.judge_in_flight,
        past_patience=limits.past_patience,
    )
    turns = Turns()
    processor = BatchProcessor(
        store=context.store,
        judges=context.judges,
        judging=judging,
        policy=context.policy,
        guard=context.guard,
        turns=turns,
        calls=calls,
        pool=context.pool,
        clock=context.clock,
        metrics=context.metrics,
        checkpoint=context.checkpoint,
        form=context.form,
    )
    return Stages(calls=calls, turns=turns, judging=judging, processor=processor)
