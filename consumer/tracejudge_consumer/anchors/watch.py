"""Rounds of anchors: made when they are due, by the process that leads the alert loop, within a budget of their own.

Due: when the last round is old enough; at once when another model was reported for the judge since then, or one of its
quality alerts fired which the last round does not answer (`alerts/judges/answered.py`), or that round is an hour old.
Verdicts are kept as they come, so a round that was interrupted is finished by whoever leads next; only a finished one
is folded.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from tracejudge.alerts import AlertEvent
from tracejudge.alerts.judges.answered import answered_from
from tracejudge.anchoring.judging import AnchorRun, judge_anchors
from tracejudge.anchors import AnchorRound, AnchorsChanged, AnchorSet, Cause, Verdict
from tracejudge.errors import NotFound, ServiceUnavailable, TraceJudgeError
from tracejudge.judging import JudgeSpec, RunCaps
from tracejudge.scores import ANCHOR_RUN, JudgeId
from tracejudge.store import Store
from tracejudge_consumer.alerting.staleness import STALE_AFTER
from tracejudge_consumer.anchors.lease import anchor_lease
from tracejudge_consumer.process.shutdown import LAST_ROUND_S

if TYPE_CHECKING:
    from tracejudge.judging import Panel

_LOG = logging.getLogger(__name__)

ALERT_AFTER: Final = timedelta(hours=1)
"""Where the last round is so old, an alert asks for another one though that one was made within the fall: when a fall
began is an estimate, and one that the product began may go on with the judge."""

ASKED_APART: Final = timedelta(minutes=10)
"""Between the beginnings of rounds that alerts of one judge ask for: a storm of falls one after another is one question
each ten minutes, until the day's calls are used up."""

_BESIDE: Final = timedelta(minutes=1)  # where a round is made by hand
_AGAIN_AFTER: Final = timedelta(minutes=10)  # where a judge was gone or a cap was reached
_LOOK_S: Final = 0.2

MakePanel = Callable[[JudgeSpec, RunCaps], "Panel"]


class RoundBrokenOff(TraceJudgeError):
    """A round was no longer wanted, and its judge did not answer in the while that it had."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnchorPlan:
    """Which set is judged by whom, how often, and for how much a day (UTC)."""

    set_name: str
    specs: tuple[JudgeSpec, ...]
    every: timedelta
    max_calls_per_day: int
    max_usd_per_day: float | None = None


class AnchorWatch:
    """Makes the rounds that are due. For one thread; blocks while judges are asked."""

    def __init__(self, *, store: Store, plan: AnchorPlan, make_panel: MakePanel) -> None:
        self._store = store
        self._plan = plan
        self._make_panel = make_panel
        self._not_before: dict[JudgeId, datetime] = {}
        self._complained = ""

    def run_due(self, *, still_wanted: Callable[[], bool] = lambda: True) -> list[AnchorRound]:
        """The rounds that were finished now. Raises ServiceUnavailable while the store is away."""
        try:
            anchors = self._store.anchors.load(self._plan.set_name)
        except (NotFound, AnchorsChanged) as error:
            if str(error) != self._complained:
                _LOG.error("anchors: %s", error)
            self._complained = str(error)
            return []
        done = []
        for spec in self._plan.specs:
            now = self._store.now()
            if not still_wanted() or now < self._not_before.get(spec.judge_id(), now):
                continue
            if due_round(self._store, anchors, spec, every=self._plan.every, now=now) is None:
                continue
            finished = self._under_lease(anchors, spec, now=now, still_wanted=still_wanted)
            if finished is not None:
                done.append(finished)
        return done

    def cannot_tell_of(self, event: AlertEvent) -> bool:
        """Whether no round will tell today whether the judge of this alert has moved: what anchors may cost is used up,
        and no round has begun that would."""
        spec = next((one for one in self._plan.specs if one.judge_id() == event.series.judge_id), None)
        if spec is None or not spec.calls_model:
            return False
        left, since = self._left_today(self._store.now()), answered_from(event)
        if (left.max_calls != 0 and left.max_usd != 0.0) or since is None:
            return False
        try:
            set_id = self._store.anchors.find(self._plan.set_name)
        except NotFound:
            return False
        return all(one.round_at < since for one in self._store.anchors.rounds.of(set_id, spec.judge_id(), limit=1))

    def _under_lease(
        self, anchors: AnchorSet, spec: JudgeSpec, *, now: datetime, still_wanted: Callable[[], bool]
    ) -> AnchorRound | None:
        with anchor_lease(self._store, anchors.set_id, spec.judge_id()) as lease:
            if lease is None:
                _LOG.info("anchors: %s is judged by %r in another process now", anchors.set_id, spec.name)
                self._not_before[spec.judge_id()] = now + _BESIDE
                return None
            # Another process may have finished one between the look and the lease.
            due = due_round(self._store, anchors, spec, every=self._plan.every, now=now)
            if due is None:
                return None
            return self._make(due, anchors, spec, now=now, still_wanted=lambda: still_wanted() and lease.keep())

    def _make(
        self, due: AnchorRound, anchors: AnchorSet, spec: JudgeSpec, *, now: datetime, still_wanted: Callable[[], bool]
    ) -> AnchorRound | None:
        caps = self._left_today(now)
        if spec.calls_model and caps.max_calls == 0:
            self._not_before[spec.judge_id()] = now + _AGAIN_AFTER
            _LOG.warning("anchors: max_calls_per_day is used up, judge %r waits", spec.name)
            return None
        _LOG.info("anchors: %s by %s, %s", anchors.set_id, spec.judge_id(), due.cause)
        run, finished = make_round(
            self._store, self._make_panel(spec, caps), spec, anchors, due, still_wanted=still_wanted
        )
        if finished is None:
            self._not_before[spec.judge_id()] = now + _AGAIN_AFTER
            why = "; ".join(run.gone) or "a cap was reached, or another process leads"
            _LOG.warning("anchors: %d of %d anchors are left by %r: %s", run.left, len(anchors.anchors), spec.name, why)
        return finished

    def _left_today(self, now: datetime) -> RunCaps:
        day = now.replace(hour=0, minute=0, second=0, microsecond=0)
        spent = self._store.calls.of_run(ANCHOR_RUN, since=day)
        usd = self._plan.max_usd_per_day
        return RunCaps(
            max_calls=max(0, self._plan.max_calls_per_day - spent.calls),
            max_usd=None if usd is None else max(0.0, usd - spent.usd),
        )


def due_round(
    store: Store, anchors: AnchorSet, spec: JudgeSpec, *, every: timedelta, now: datetime
) -> AnchorRound | None:
    """The round that is due, with the verdicts it has already; None when none is."""
    judge_id = spec.judge_id()
    rounds = store.anchors.rounds.of(anchors.set_id, judge_id, limit=20)
    last = next((one for one in reversed(rounds) if one.finished_at is not None), None)
    begun = rounds[-1] if rounds and rounds[-1].finished_at is None else None
    if begun is not None and now - begun.round_at < every:
        return begun  # interrupted: whoever began it is gone, or it would be finished
    cause: Cause | None = "schedule"
    if last is not None and now - last.round_at < every:
        events = store.alert_events.all(since=last.round_at, judge_id=judge_id)
        asked = next((one.round_at for one in reversed(rounds) if one.cause == "alert"), None)
        cause = _cause(events, judge_id, last=last, asked=asked, now=now)
    return None if cause is None else new_round(anchors, spec, now=now, cause=cause)


def new_round(anchors: AnchorSet, spec: JudgeSpec, *, now: datetime, cause: Cause) -> AnchorRound:
    """A round that begins now."""
    return AnchorRound(
        set_id=anchors.set_id,
        judge_name=spec.name,
        judge_id=spec.judge_id(),
        round_at=now,
        cause=cause,
        heuristic=spec.heuristic,
    )


def make_round(
    store: Store,
    panel: Panel,
    spec: JudgeSpec,
    anchors: AnchorSet,
    begun: AnchorRound,
    *,
    still_wanted: Callable[[], bool] = lambda: True,
    progress: Callable[[int], None] = lambda _: None,
) -> tuple[AnchorRun, AnchorRound | None]:
    """Goes on with a round, and closes the panel: what came of it, and the finished round, None where anchors are
    left. `progress` is told how many verdicts there are. Raises RoundBrokenOff some seconds after `still_wanted` said
    no, when the judge has not answered by then."""

    def keep(verdicts: Mapping[str, Verdict]) -> None:
        store.anchors.rounds.save(replace(begun, verdicts=verdicts))
        progress(len(verdicts))

    async def judge() -> AnchorRun:
        judging = asyncio.ensure_future(
            judge_anchors(
                panel, spec, anchors, store=store, known=begun.verdicts, progress=keep, still_wanted=still_wanted
            )
        )
        try:
            await _while_wanted(judging, still_wanted)
            if judging.cancelled():
                raise RoundBrokenOff(f"anchors: {spec.name!r} did not answer in time, its round is left for later")
            return judging.result()
        finally:
            judging.cancel()
            await asyncio.wait([judging])
            await panel.close()

    run = asyncio.run(judge())
    if run.left or run.gone:
        return run, None
    finished = replace(
        begun,
        verdicts=run.verdicts,
        finished_at=store.now(),
        model_reported=run.model_reported,
        fingerprint=run.fingerprint,
    )
    store.anchors.rounds.save(finished)
    return run, finished


async def _while_wanted(work: asyncio.Future[AnchorRun], still_wanted: Callable[[], bool]) -> None:
    """Waits for `work`. What is no longer wanted has a while for the calls under way, which cost money, and is then
    cancelled."""
    unwanted_at: float | None = None
    while not work.done():
        await asyncio.wait([work], timeout=_LOOK_S)
        if still_wanted():
            unwanted_at = None
        elif unwanted_at is None:
            unwanted_at = time.monotonic()
        elif time.monotonic() - unwanted_at >= LAST_ROUND_S:
            work.cancel()


@contextmanager
def watching_anchors(
    watch: AnchorWatch | None, stop: threading.Event, *, leading: Callable[[], bool], tick_s: float
) -> Iterator[None]:
    """Makes due rounds on a thread of its own until `stop` is set or the block ends, while this process leads.

    What stands in the way of a round is logged, once, and tried again: alerts go on without it. A fault of the thread
    sets `stop`, and is raised at the end of the block.
    """
    if watch is None:
        yield
        return
    faults: list[BaseException] = []
    over = threading.Event()

    def wanted() -> bool:
        return leading() and not stop.is_set() and not over.is_set()

    def work() -> None:
        told = ""
        try:
            while not stop.is_set() and not over.is_set():
                if wanted():
                    try:
                        watch.run_due(still_wanted=wanted)
                    except ServiceUnavailable as error:
                        _LOG.warning("anchors wait: %s", error)
                    except RoundBrokenOff as error:
                        _LOG.warning("%s", error)
                    except TraceJudgeError as error:
                        if str(error) != told:
                            _LOG.error("anchors: no round could be made, it is tried again: %s", error)
                        told = str(error)
                over.wait(min(tick_s, 1.0) if not leading() else tick_s)
        except BaseException as error:  # noqa: BLE001 - raised again at the end of the block, by its thread
            faults.append(error)
            stop.set()

    thread = threading.Thread(target=work, name="tracejudge-anchors")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    if faults:
        raise faults[0]


def _cause(
    events: Sequence[AlertEvent], judge_id: JudgeId, *, last: AnchorRound, asked: datetime | None, now: datetime
) -> Cause | None:
    mine = [event for event in events if event.series.judge_id == judge_id and event.at > last.round_at]
    if any(event.kind == "judge_changed" and "fingerprint" in event.evidence for event in mine):
        return "model_changed"
    if asked is not None and now - asked < ASKED_APART:
        return None
    # Of alerts that nobody is told of, as they are history by now, nobody wants to know more either.
    asking = [answered_from(event) for event in mine if now - event.at <= STALE_AFTER]
    old = now - last.round_at >= ALERT_AFTER
    return "alert" if any(since is not None and (old or since > last.round_at) for since in asking) else None
