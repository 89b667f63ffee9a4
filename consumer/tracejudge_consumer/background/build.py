"""Builds the background work of one run of the consumer."""

from __future__ import annotations

from collections.abc import Callable

from tracejudge.clock import Clock
from tracejudge.sampling import FeedbackTrigger
from tracejudge.store import Store
from tracejudge_consumer.background.again import Again
from tracejudge_consumer.background.complaints import Complaints
from tracejudge_consumer.background.model_changes import ModelChanges
from tracejudge_consumer.background.sweeper import Sweeper
from tracejudge_consumer.background.undecided import Announce, UndecidedTraces
from tracejudge_consumer.background.upkeep import Upkeep
from tracejudge_consumer.report import PipelineReport
from tracejudge_consumer.stages.build import Stages
from tracejudge_consumer.stages.needs import Judges

MakeUpkeep = Callable[[Stages, Callable[[PipelineReport], None]], Upkeep]
"""Given the stages of a run, and a callback for the report of each piece of work."""


def upkeep_of(
    store: Store,
    judges: Judges,
    *,
    clock: Clock,
    holder: str,
    announce: Announce,
    interval_s: float,
    parts_grace_s: float,
    feedback: FeedbackTrigger | None = None,
) -> MakeUpkeep:
    """Background work in rounds of `interval_s` seconds: undecided traces are judged again, old parts swept, model
    changes announced, and complaints judged where `feedback` says so."""

    def make(stages: Stages, count: Callable[[PipelineReport], None]) -> Upkeep:
        again = Again(
            store=store, judges=judges, judging=stages.judging, turns=stages.turns, calls=stages.calls, clock=clock
        )
        undecided = UndecidedTraces(
            store=store, judges=judges, again=again, calls=stages.calls, clock=clock, announce=announce, count=count
        )
        sweeper = Sweeper(
            store=store,
            processor=stages.processor,
            calls=stages.calls,
            clock=clock,
            grace_s=parts_grace_s,
            count=count,
        )
        changes = ModelChanges(store=store, calls=stages.calls, clock=clock, announce=announce)
        complaints = (
            []
            if feedback is None
            else [
                Complaints(
                    store=store,
                    judges=judges,
                    judging=stages.judging,
                    calls=stages.calls,
                    trigger=feedback,
                    clock=clock,
                    count=count,
                )
            ]
        )
        return Upkeep(
            leases=store.leases,
            holder=holder,
            chores=[sweeper, undecided, changes, *complaints],
            calls=stages.calls,
            interval_s=interval_s,
        )

    return make
