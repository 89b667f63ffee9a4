"""The one leader that folds stored scores into alerts and sees that every notification is delivered.

A tick goes through steps, each of which may be the last of a process that is killed:

1. hold the lease; without it do nothing
2. read score rows in (judged_at, trace_id) order, up to the last whole step that ended `settle_s` before the store's
   now, and fold them step by step (alerts/order.py)
3. store the snapshots of what changed, together with the cursor and the events not yet published: the point of no
   return. Until then nobody has heard of these events and the rows are folded again; from then on they are facts
4. store the events, put their notifications into the outbox, deliver what is pending there

Steps 3 and 4 may be repeated without a change, up to the notification that was in transit.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

from tracejudge.alerts import (
    Action,
    AlertEvent,
    DriftPolicy,
    Engine,
    Notifier,
    Rule,
    SeenRows,
    SeriesSnapshot,
    SeriesStatus,
    event_from_json,
    event_to_json,
)
from tracejudge.alerts.channels import ChannelPolicy
from tracejudge.alerts.order import STEP_S, in_order, step_of
from tracejudge.clock import Clock
from tracejudge.sampling import SamplingPolicy
from tracejudge.scores import Score, TraceKey
from tracejudge.store import AlertSnapshot, Cursor, Lease, Store
from tracejudge_consumer.adoption import overlap_of, seeds
from tracejudge_consumer.alert_actions import read_actions
from tracejudge_consumer.alert_evidence import AlertEvidence
from tracejudge_consumer.between_rows import BetweenRows, instant_of
from tracejudge_consumer.deliveries import Deliveries
from tracejudge_consumer.store_upkeep import StoreUpkeep

logger = logging.getLogger(__name__)

LEASE: Final = "alert-loop"
LOOP_STATE: Final = "alert-loop"  # the snapshot that holds the cursor; all others are the engine's
_FORMAT: Final = 1
_PAGE: Final = 5000
_SAVE_EVERY_ROWS: Final = 20_000  # while catching up: a save costs as much as some thousand rows
_REREAD_EVERY_S: Final = 60.0
_LARGEST_STEP: Final = 1_000_000  # rows judged within half a minute that are put in order together


class AlertLoop:
    """Call `tick` every few seconds from any number of processes: the holder of the store's lease does the work.

    `holder` must be unique to the process. Rows stored up to `lookback_s` behind the cursor are still found, once a
    minute. `policy` is what its governors are to keep to, `drift` how judges are watched; `channels` says by name what
    notifiers hear of, and how often; `evidence` explains alerts before they are told. Not thread-safe.
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
        drift: DriftPolicy | None = None,
        channels: Mapping[str, ChannelPolicy] | None = None,
        evidence: AlertEvidence | None = None,
    ) -> None:
        self._store = store
        self._rules = tuple(rules)
        self._drift = drift
        self._clock = clock
        self._holder = holder
        self._settle = timedelta(seconds=settle_s)
        # A loop that waits for nothing puts nothing in order either.
        self._step_s = min(STEP_S, int(settle_s)) if step_s is None else step_s
        self._lookback = timedelta(seconds=lookback_s)
        self._lease_ttl_s = lease_ttl_s
        self._checkpoint = checkpoint
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
        self._lease: Lease | None = None
        self._renewed_at = 0.0
        self._engine: Engine | None = None
        self._forget()
        Engine(self._rules)  # two rules of one name are a fault of the settings: said now, not at the first tick

    @property
    def leading(self) -> bool:
        """Whether this process holds the lease, as of its last tick.

        False right after a tick: another process leads, or the lease ran out during the round and the next tick asks.
        """
        return self._lease is not None

    @property
    def late_rows(self) -> int:
        """Rows folded so far that turned up behind the cursor."""
        return self._late_rows

    def status(self) -> list[SeriesStatus]:
        """Every series, as of the last tick; empty while another process leads."""
        return self._engine.status() if self._engine is not None else []

    def tick(self) -> list[AlertEvent]:
        """One round: the events newly published by this process; empty while another process leads.

        Raises ServiceUnavailable when the store does not answer: tick again later. Nothing is lost by it.
        """
        if not self._lead():
            return []
        try:
            return self._round()
        except BaseException:  # Ctrl-C as well; it goes on its way
            # What was folded may not have been stored: the store knows, so the next tick asks it.
            self._forget()
            raise

    def close(self) -> None:
        """Gives the lease back, so that another process may lead at once."""
        lease, self._lease = self._lease, None
        self._forget()
        if lease is not None:
            self._store.leases.release(lease)

    # ------------------------------------------------------------------ leading

    def _lead(self) -> bool:
        """Keeps the lease or takes it. At the top of a tick only: a new lease begins with what is stored."""
        if self._still_leading():
            return True
        now = self._clock.monotonic()
        self._lease = self._store.leases.acquire(LEASE, self._holder, self._lease_ttl_s)
        self._renewed_at = now
        if self._lease is not None:
            logger.info("alert loop: leading with fencing number %d", self._lease.fencing)
        self._checkpoint("lease")
        return self._lease is not None

    def _still_leading(self) -> bool:
        """Keeps the lease. False: it is lost, nothing folded so far is to be relied on, and the round is over."""
        now = self._clock.monotonic()
        if self._lease is None:
            return False
        if now - self._renewed_at < self._lease_ttl_s / 3:
            return True
        held = self._store.leases.renew(self._lease, self._lease_ttl_s)
        if held is None:
            logger.warning("alert loop: lease lost after fencing number %d", self._lease.fencing)
            self._forget()
        self._lease, self._renewed_at = held, now
        self._checkpoint("lease")
        return held is not None

    def _forget(self) -> None:
        self._engine = None
        self._cursor: Cursor | None = None
        self._between = BetweenRows()
        self._seen = SeenRows()
        self._unpublished: list[AlertEvent] = []
        self._late_rows = 0
        self._reread_at: float | None = None
        self._saved_at: datetime | None = None

    # ------------------------------------------------------------------ one round

    def _round(self) -> list[AlertEvent]:
        engine = self._engine if self._engine is not None else self._restore()
        if not self._fold(engine):
            return []
        silences = engine.tick(self._store.now())
        if silences:
            self._unpublished += silences
            self._save(engine.snapshot(changed_only=True))
        if not self._still_leading():
            return []  # what is unpublished was stored with the cursor: whoever leads next publishes it
        published = self._publish(engine)
        self._deliveries.deliver(still_leading=self._still_leading)
        if self._still_leading():
            self._upkeep.run_if_due()
            if self._evidence is not None:
                self._evidence.sweep_if_due()
        return published

    def _fold(self, engine: Engine) -> bool:
        """Folds all rows there are; False when the lease was lost meanwhile."""
        until = step_of(self._store.now() - self._settle, step_s=self._step_s)
        place, unsaved = self._begin(), 0
        held: list[Score] = []  # of a step that may go on in the next page
        self._between.read(self._store, until=until)
        while page := self._store.scores.since(place, until=until, limit=_PAGE):
            place = Cursor(page[-1].judged_at, page[-1].trace_id)
            rows, held = self._whole_steps(held + page)
            unsaved += self._fold_rows(engine, rows)
            if unsaved >= _SAVE_EVERY_ROWS:
                self._save(engine.snapshot(changed_only=True))
                unsaved = 0
            if not self._still_leading():
                return False
        unsaved += self._fold_rows(engine, held)  # steps end before `until`: this one is whole
        self._fold_page(engine, [])
        if unsaved or self._between.unsaved:
            self._save(engine.snapshot(changed_only=True))
        return True

    def _fold_rows(self, engine: Engine, rows: list[Score]) -> int:
        """Folds those not folded before and moves the cursor behind them; their number."""
        if not rows:
            return 0
        cursor, last = self._cursor, Cursor(rows[-1].judged_at, rows[-1].trace_id)
        fresh = [score for score in rows if self._seen.add(score)]
        late = 0 if cursor is None else sum((s.judged_at, s.trace_id) <= cursor for s in fresh)
        if late:
            self._late_rows += late
            logger.info("alert loop: %d rows turned up behind the cursor and were folded on arrival", late)
        self._fold_page(engine, fresh, up_to=last.judged_at)
        if cursor is None or last > cursor:
            self._cursor = last
            self._seen.forget_before(last.judged_at - self._lookback)
        self._checkpoint("folded")
        return len(fresh)

    def _whole_steps(self, rows: list[Score]) -> tuple[list[Score], list[Score]]:
        """Whole steps, and the rows of the last one, of which more may come; beyond a million rows it is cut."""
        if len(rows) > _LARGEST_STEP or self._step_s == 0:
            return rows, []
        last = step_of(rows[-1].judged_at, step_s=self._step_s)
        cut = next((k for k in range(len(rows), 0, -1) if rows[k - 1].judged_at < last), 0)
        return rows[:cut], rows[cut:]

    def _fold_page(self, engine: Engine, rows: list[Score], *, up_to: datetime | None = None) -> None:
        """Folds rows in their order, each action of a person and each round of anchors between those judged before and
        after it; `up_to` is when the last row that was read was judged, folded before or not.

        Without it all that is left is taken: no row that was judged before is to come.
        """
        latencies = self._latencies(engine, rows)
        while (one := self._between.next_before(up_to)) is not None:
            at = instant_of(one)
            before = [row for row in rows if row.judged_at < at]
            self._unpublished += engine.fold(in_order(before, step_s=self._step_s), latencies=latencies)
            rows = rows[len(before) :]
            if isinstance(one, Action):
                if one.verb == "adopt":
                    for key, hours in seeds(self._store, self._rules, one).items():
                        engine.seed(key, hours, at=one.at)
                self._unpublished += engine.apply(one)
            else:
                self._unpublished += engine.fold_round(one)
        self._unpublished += engine.fold(in_order(rows, step_s=self._step_s), latencies=latencies)

    def _latencies(self, engine: Engine, rows: Sequence[Score]) -> Mapping[TraceKey, float] | None:
        """How long the app took, where a rule wants to know."""
        if not rows or not engine.measures_latency:
            return None
        return self._store.traffic.latencies_ms({row.key: row.event_time for row in rows})

    def _begin(self) -> Cursor | None:
        """Where to read from: the cursor, or once a minute a stretch before it."""
        cursor, now = self._cursor, self._clock.monotonic()
        if cursor is None or (self._reread_at is not None and now - self._reread_at < _REREAD_EVERY_S):
            return cursor
        self._reread_at = now
        start = self._seen.known_from(cursor.judged_at, back=self._lookback)
        return Cursor(start, "") if start < cursor.judged_at else cursor

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
        # An alert that is held back is told once its judge is steady, under the same id.
        told = [event for event in events if not event.evidence.get("held")]
        self._deliveries.enqueue(told, still_open=still_open, silences=silences)
        self._checkpoint("outbox stored")
        self._unpublished = []
        self._save([])
        return events

    # ------------------------------------------------------------------ snapshots

    def _save(self, taken: Sequence[SeriesSnapshot]) -> None:
        """Stores the engine's snapshots and the loop's own in one insert, the loop's last."""
        state = {
            "format": _FORMAT,
            "seen": self._seen.to_state(),
            "unpublished": [event_to_json(event) for event in self._unpublished],
            "late_rows": self._late_rows,
            **self._between.to_state(),
        }
        now, fencing = self._next_save()
        self._store.alert_snapshots.save_all(
            [
                *(AlertSnapshot(name=s.name, cursor=None, state=s.state, saved_at=now, fencing=fencing) for s in taken),
                AlertSnapshot(name=LOOP_STATE, cursor=self._cursor, state=state, saved_at=now, fencing=fencing),
            ]
        )
        self._checkpoint("snapshots stored")

    def _save_channels(self, taken: Sequence[SeriesSnapshot]) -> None:
        """Stores the states of channels alone: they hang on no row."""
        now, fencing = self._next_save()
        self._store.alert_snapshots.save_all(
            [AlertSnapshot(name=s.name, cursor=None, state=s.state, saved_at=now, fencing=fencing) for s in taken]
        )
        self._checkpoint("channels stored")

    def _next_save(self) -> tuple[datetime, int]:
        """The instant and the fencing number of a save."""
        if self._lease is None:
            raise RuntimeError("no lease; only the leader saves")
        now = self._store.now()
        # Of two snapshots under one fencing number the later stands: the store's clock may have been set back.
        if self._saved_at is not None:
            now = max(now, self._saved_at + timedelta(milliseconds=1))
        self._saved_at = now
        return now, self._lease.fencing

    def _restore(self) -> Engine:
        engine = Engine(self._rules, drift=self._drift, overlap=partial(overlap_of, self._store))
        stored = self._store.alert_snapshots.load_all()
        events = engine.restore(SeriesSnapshot(name, row.state) for name, row in stored.items() if name != LOOP_STATE)
        loop = stored.get(LOOP_STATE)
        if loop is not None:
            self._saved_at = loop.saved_at
            self._read_state(loop.cursor, loop.state)
        self._unpublished += events
        # Everything again under our fencing number: a former leader that does not know it is none writes in vain.
        channels = self._deliveries.restore({name: row.state for name, row in stored.items()})
        self._save([*engine.snapshot(), *channels])
        self._engine = engine
        return engine

    def _read_state(self, cursor: Cursor | None, state: Mapping[str, Any]) -> None:
        if state.get("format") != _FORMAT:
            logger.warning("alert loop: its snapshot has another format; all scores are folded again")
            return
        self._cursor = cursor
        self._seen = SeenRows.from_state(state["seen"])
        self._unpublished = [event_from_json(event) for event in state["unpublished"]]
        self._late_rows = state["late_rows"]
        self._between = BetweenRows.from_state(state)
