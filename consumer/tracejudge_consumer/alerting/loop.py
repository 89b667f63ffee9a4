"""The alert loop: one leader folds stored scores into alerts and sees that every notification is delivered.

A tick goes through these steps; the process may be killed after any of them:

1. take or renew the lease; without it do nothing
2. read score rows in (judged_at, trace_id) order, up to the last whole step that ended `settle_s` before the store's
   now, and fold them step by step (alerts/order.py)
3. store the snapshots of what changed, together with the cursor and the unpublished events. A process killed before
   this point has published nothing, and the rows are folded again; after it the events are final
4. store the events, put their notifications into the outbox, deliver what is pending there

Repeating steps 3 and 4 changes nothing, but that the notification in transit may be sent twice.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

from tracejudge.alerts import (
    AlertEvent,
    DriftPolicy,
    Engine,
    Notifier,
    Promises,
    Rule,
    SeriesSnapshot,
    SeriesStatus,
    event_from_json,
    event_to_json,
)
from tracejudge.alerts.judges.hold_mark import is_held
from tracejudge.alerts.order import STEP_S, step_of
from tracejudge.alerts.series.watched import MAX_SLICES_PER_RULE
from tracejudge.alerts.telling.channels import ChannelPolicy
from tracejudge.clock import Clock
from tracejudge.sampling import SamplingPolicy
from tracejudge.store import Cursor, Store
from tracejudge_consumer.alerting.actions import read_actions
from tracejudge_consumer.alerting.adoption import overlap_of
from tracejudge_consumer.alerting.deliveries import Deliveries
from tracejudge_consumer.alerting.evidence import AlertEvidence
from tracejudge_consumer.alerting.leadership import Leadership
from tracejudge_consumer.alerting.memory import LOOP_STATE, LoopMemory
from tracejudge_consumer.alerting.resting import Resting, resting
from tracejudge_consumer.alerting.row_folder import RowFolder
from tracejudge_consumer.alerting.staleness import catching_up
from tracejudge_consumer.alerting.store_upkeep import StoreUpkeep

logger = logging.getLogger(__name__)

LEASE: Final = "alert-loop"
_FORMAT: Final = 1
_SAVE_EVERY_ROWS: Final = 30_000  # while catching up: a save costs as much as some thousand rows


class AlertLoop:
    """Call `tick` every few seconds from any number of processes: the holder of the store's lease does the work.

    `holder` must be unique to the process. A row counts once it has rested for `settle_s` (and its step is whole); rows
    stored up to `lookback_s` behind the cursor are still found, once a minute. `policy` is the sampling policy that the
    governors keep to, `promises` how many false alarms all rules together may give, `drift` how judges are watched,
    `channels` by name what a notifier is sent and how often; `evidence` explains alerts before they are sent;
    `unanswerable` knows of which alerts no round of anchors can tell any more. Not thread-safe.
    """

    def __init__(
        self,
        *,
        store: Store,
        rules: Sequence[Rule],
        notifiers: Sequence[Notifier],
        clock: Clock,
        holder: str,
        settle_s: float = 30.0,
        step_s: int | None = None,
        lookback_s: float = 900.0,
        lease_ttl_s: float = 60.0,
        checkpoint: Callable[[str], None] = lambda _: None,
        policy: SamplingPolicy | None = None,
        promises: Promises | None = None,
        drift: DriftPolicy | None = None,
        channels: Mapping[str, ChannelPolicy] | None = None,
        evidence: AlertEvidence | None = None,
        unanswerable: Callable[[AlertEvent], bool] = lambda _: False,
    ) -> None:
        self._store = store
        self._rules = tuple(rules)
        self._promises = promises
        self._drift = drift
        self._clock = clock
        self._settle = timedelta(seconds=settle_s)
        # A loop whose rows do not rest does not sort them either.
        self._step_s = min(STEP_S, int(settle_s)) if step_s is None else step_s
        self._lookback = timedelta(seconds=lookback_s)
        self._checkpoint = checkpoint
        self._leadership = Leadership(
            store, LEASE, holder=holder, ttl_s=lease_ttl_s, clock=clock, checkpoint=checkpoint
        )
        self._memory = LoopMemory(store, self._leadership)
        self._deliveries = Deliveries(
            store=store,
            notifiers=notifiers,
            policies=channels,
            clock=clock,
            save=self._save_channels,
            checkpoint=checkpoint,
        )
        self._upkeep = StoreUpkeep(store, clock, policy=policy)
        self._evidence = evidence
        self._unanswerable = unanswerable
        self._engine: Engine | None = None
        self._folded: datetime | None = None
        self._forget()
        Engine(self._rules)  # two rules of one name are a fault of the settings: said now, not at the first tick

    @property
    def leading(self) -> bool:
        """Whether this process held the lease at the end of its last tick.

        When it did not, another process leads, or the lease ran out during the tick and the next tick asks for it.
        """
        return self._leadership.leading

    @property
    def late_rows(self) -> int:
        """Rows folded so far that turned up behind the cursor."""
        return self._folder.late

    @property
    def channels(self) -> Mapping[str, bool]:
        """By channel name, whether the channel is dead; empty while another process leads."""
        return self._deliveries.dead if self.leading else {}

    @property
    def mute(self) -> bool:
        """Whether alerts wait and reach nobody, as every channel is dead; False while another process leads."""
        return self.leading and self._deliveries.mute

    @property
    def held(self) -> list[AlertEvent]:
        """The alerts that are held back, as of the last tick; empty while another process leads."""
        return self._engine.judges.held if self._engine is not None else []

    def status(self) -> list[SeriesStatus]:
        """Every series, as of the last tick; empty while another process leads."""
        return self._engine.status() if self._engine is not None else []

    def resting(self) -> Resting | None:
        """The scores that the last tick found too fresh to fold; None for none, or while another process leads."""
        if self._folded is None or not self.leading:
            return None
        return resting(self._store, folded=self._folded, settle=self._settle, step_s=self._step_s)

    def tick(self) -> list[AlertEvent]:
        """Does one round and returns the events it published; none while another process leads.

        Raises ServiceUnavailable when the store does not answer: nothing is lost, call it again later.
        """
        # The lease is taken at the top of a tick only: under a new one the state is read from the store first.
        if not self._still_leading() and not self._leadership.take():
            return []
        try:
            return self._round()
        except BaseException:  # raised again, Ctrl-C as well
            # What was folded may or may not have been stored, so the next tick begins with what is in the store.
            self._forget()
            raise

    def close(self) -> None:
        """Gives the lease back, so that another process may lead at once."""
        self._forget()
        self._leadership.give_back()

    def _still_leading(self) -> bool:
        """Renews the lease when due. False when it is lost: what was folded is dropped, and the round must end."""
        held = self._leadership.keep()
        if not held:
            self._forget()
        return held

    def _forget(self) -> None:
        self._engine = None
        self._folder = RowFolder(
            self._store, self._clock, rules=self._rules, lookback=self._lookback, step_s=self._step_s
        )
        self._unpublished: list[AlertEvent] = []
        self._warned = False

    # ------------------------------------------------------------------ one round

    def _round(self) -> list[AlertEvent]:
        engine = self._engine if self._engine is not None else self._restore()
        until = step_of(self._store.now() - self._settle, step_s=self._step_s)
        if not self._fold(engine, until=until):
            return []
        self._folded = until
        silences = [action for action in read_actions(self._store) if action.verb == "silence"]
        timed = engine.tick(self._store.now(), folded=until, silences=silences)
        timed += engine.judges.wait_no_more(self._unanswerable, at=until)
        if timed:
            self._unpublished += timed
            self._save(engine.snapshot(changed_only=True))
        if not self._still_leading():
            return []  # the unpublished events were stored with the cursor: the next leader publishes them
        published = self._publish(engine)
        self._deliveries.deliver(still_leading=self._still_leading, catching_up=partial(self._catching_up, engine))
        if self._still_leading():
            self._upkeep.run_if_due()
            if self._evidence is not None:
                self._evidence.catch_up()
                self._evidence.sweep_if_due()
        return published

    def _catching_up(self, engine: Engine) -> AbstractSet[str]:
        """Alerts about old answers, while there are verdicts that rest: more of them are being judged."""
        found = catching_up(engine.status(), now=self._clock.now())
        return found if found and self.resting() is not None else frozenset()

    def _fold(self, engine: Engine, *, until: datetime) -> bool:
        """Folds the rows judged up to `until`; False when the lease was lost meanwhile."""
        unsaved = 0
        for page in self._folder.pages(until=until):
            if page.up_to is not None:
                self._unpublished += self._folder.fold(engine, page)
                self._checkpoint("folded")
                unsaved += len(page.fresh)
                self._warn_of_unwatched(engine)
            if unsaved >= _SAVE_EVERY_ROWS:
                self._save(engine.snapshot(changed_only=True))
                unsaved = 0
            if not self._still_leading():
                return False
        self._unpublished += self._folder.fold_rest(engine)
        if unsaved or self._folder.unsaved:
            self._save(engine.snapshot(changed_only=True))
        return True

    def _warn_of_unwatched(self, engine: Engine) -> None:
        """Warns once while this process leads: an unbounded number of apps is a producer's mistake, or an attack."""
        if engine.unwatched and not self._warned:
            self._warned = True
            logger.warning(
                "alert loop: a rule has more than %d slices over all applications; rows of further ones are not "
                "watched by it. Name its app, or group by something with fewer values",
                MAX_SLICES_PER_RULE,
            )

    def _publish(self, engine: Engine) -> list[AlertEvent]:
        events = self._unpublished
        if not events:
            return []
        still_open = {status.alert_event_id for status in engine.status()}
        if self._evidence is not None:
            events = self._evidence.explained(events, still_open=still_open)
            self._checkpoint("explained")
        inserted = self._store.alert_events.insert(events)
        if inserted.rejected:
            logger.error("alert loop: %d events were refused by the store", len(inserted.rejected))
        self._checkpoint("events stored")
        since = min(event.at for event in events)
        silences = [action for action in read_actions(self._store) if action.end is None or action.end > since]
        # An alert that is held back is sent once its judge is steady, under the same id.
        sent = [event for event in events if not is_held(event)]
        self._deliveries.enqueue(sent, still_open=still_open, silences=silences)
        self._checkpoint("outbox stored")
        self._unpublished = []
        self._save([])
        return events

    # ------------------------------------------------------------------ snapshots

    def _save(self, taken: Sequence[SeriesSnapshot]) -> None:
        """Stores the engine's snapshots and the loop's own."""
        state = {
            "format": _FORMAT,
            **self._folder.to_state(),
            "unpublished": [event_to_json(event) for event in self._unpublished],
        }
        self._memory.save(taken, cursor=self._folder.cursor, state=state)
        self._checkpoint("snapshots stored")

    def _save_channels(self, taken: Sequence[SeriesSnapshot]) -> None:
        self._memory.save_beside(taken)
        self._checkpoint("channels stored")

    def _restore(self) -> Engine:
        engine = Engine(
            self._rules,
            promises=self._promises,
            drift=self._drift,
            overlap=partial(overlap_of, self._store),
        )
        stored = self._memory.load()
        events = engine.restore(SeriesSnapshot(name, row.state) for name, row in stored.items() if name != LOOP_STATE)
        loop = stored.get(LOOP_STATE)
        if loop is not None:
            self._read_state(loop.cursor, loop.state)
        self._unpublished += events
        # Everything is stored again under our fencing number, so that a former leader that does not know it has lost
        # the lease writes in vain.
        channels = self._deliveries.restore({name: row.state for name, row in stored.items()})
        self._save([*engine.snapshot(), *channels])
        self._engine = engine
        return engine

    def _read_state(self, cursor: Cursor | None, state: Mapping[str, Any]) -> None:
        if state.get("format") != _FORMAT:
            logger.warning("alert loop: its snapshot has another format; all scores are folded again")
            return
        self._folder.restore(cursor, state)
        self._unpublished = [event_from_json(event) for event in state["unpublished"]]
