"""What is told of a judge whose endpoint names another model or fingerprint than before."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

from tracejudge.alerts import AlertEvent
from tracejudge.scores import JudgeId
from tracejudge.store import ReportedModel
from tracejudge.testing import ManualClock
from tracejudge_consumer.background.model_changes import MOST_TOLD, ModelChanges

JUDGE = JudgeId("f@0123456789ab")


class Reports:
    def __init__(self, clock: ManualClock) -> None:
        self.found: list[ReportedModel] = []
        self.scores = self
        self._clock = clock

    def now(self) -> datetime:
        return self._clock.now()

    def reported(self, since: datetime) -> list[ReportedModel]:
        return self.found


async def called(call: Callable[[], Any]) -> Any:
    return call()


async def test_an_endpoint_that_names_each_reply_anew_makes_few_tickets() -> None:
    clock, told = ManualClock(), list[AlertEvent]()
    store = Reports(clock)
    changes = ModelChanges(store=store, calls=called, clock=clock, announce=told.append)  # type: ignore[arg-type]
    for turn in range(3):
        store.found = [
            ReportedModel(JUDGE, "m", f"fp-{turn}-{n}", clock.now() - timedelta(minutes=1), 1) for n in range(200)
        ]
        await changes.work(SimpleNamespace())  # type: ignore[arg-type]
        assert len(told) == MOST_TOLD
    assert "the last that is told" in told[-1].summary
    assert not any("the last that is told" in event.summary for event in told[:-1])
