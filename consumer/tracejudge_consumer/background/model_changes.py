"""A provider that answers with another model or fingerprint than before: said once, since verdicts may differ then.

The JudgeId stays, because nothing that we sent has changed. The first model seen in the last day is taken for the usual
one; each other one is told once, whichever process finds it.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Final, Protocol

from tracejudge.alerts import HEALTH_RULE, AlertEvent, SeriesKey
from tracejudge.clock import Clock
from tracejudge.scores import JudgeId
from tracejudge.store import ReportedModel
from tracejudge_consumer.background.needs import StillOurs
from tracejudge_consumer.background.undecided import Announce
from tracejudge_consumer.stages.store_calls import StoreCalls

_LOG = logging.getLogger(__name__)

LOOK_EVERY_S: Final = 300.0
MOST_TOLD: Final = 10
"""New variants of a judge that one process tells. An endpoint that names each of its replies anew makes a ticket of
each."""

_FIRST_LOOK: Final = timedelta(days=1)
_OVERLAP: Final = timedelta(minutes=15)  # scores of slower writers


class ReportedScores(Protocol):
    def reported(self, since: datetime, /) -> list[ReportedModel]: ...


class ReportedStore(Protocol):
    @property
    def scores(self) -> ReportedScores: ...
    def now(self) -> datetime: ...


class ModelChanges:
    """Announces models and fingerprints not seen before. For one event loop."""

    def __init__(self, *, store: ReportedStore, calls: StoreCalls, clock: Clock, announce: Announce) -> None:
        self._store = store
        self._calls = calls
        self._clock = clock
        self._announce = announce
        self._usual: dict[JudgeId, ReportedModel] = {}
        self._known: defaultdict[JudgeId, set[tuple[str, str]]] = defaultdict(set)
        self._looked_until: datetime | None = None
        self._looked_at = 0.0

    async def due(self) -> bool:
        return self._looked_until is None or self._clock.monotonic() - self._looked_at >= LOOK_EVERY_S

    async def work(self, still_ours: StillOurs) -> None:
        now: datetime = await self._calls(self._store.now)
        since = now - _FIRST_LOOK if self._looked_until is None else self._looked_until - _OVERLAP
        found: Sequence[ReportedModel] = await self._calls(partial(self._store.scores.reported, since))
        for event in self._changes(found):
            _LOG.warning("%s", event.summary)
            await asyncio.shield(self._calls(partial(self._announce, event)))
        self._looked_until = now
        self._looked_at = self._clock.monotonic()

    def _changes(self, found: Sequence[ReportedModel]) -> list[AlertEvent]:
        events = []
        for one in found:
            usual = self._usual.setdefault(one.judge_id, one)
            known = self._known[one.judge_id]
            variant = (one.model, one.fingerprint)
            if variant in known or len(known) > MOST_TOLD:
                continue
            known.add(variant)
            if usual is not one:
                events.append(model_changed(usual, one, last=len(known) > MOST_TOLD))
        return events


def model_changed(usual: ReportedModel, new: ReportedModel, *, last: bool = False) -> AlertEvent:
    """The event of one new variant; its id follows from the variant alone, so that it is told once. `last`: the
    event says that no further variant of this judge is told."""
    variant = "\n".join((new.judge_id, new.model, new.fingerprint, "judge_changed"))
    return AlertEvent(
        event_id=hashlib.sha256(variant.encode("utf-8", "replace")).hexdigest()[:32],
        series=SeriesKey(
            rule=HEALTH_RULE,
            environment="",
            app="",
            judge_name=new.judge_id.rpartition("@")[0],
            judge_id=new.judge_id,
        ),
        kind="judge_changed",
        severity="ticket",
        heuristic=False,
        at=new.first_at,
        summary=f"judge {new.judge_id.rpartition('@')[0]} is answered by {_named(new)} instead of {_named(usual)}: "
        "its verdicts may differ from now on"
        + (f". This is change {MOST_TOLD} of this judge, and the last that is told" if last else ""),
        evidence={
            "model": new.model,
            "fingerprint": new.fingerprint,
            "before": {"model": usual.model, "fingerprint": usual.fingerprint},
        },
    )


def _named(one: ReportedModel) -> str:
    # What a provider reports is text from outside: one line of bounded length.
    name = " ".join(one.model.split())[:80]
    return f"{name} ({' '.join(one.fingerprint.split())[:40]})" if one.fingerprint else name
