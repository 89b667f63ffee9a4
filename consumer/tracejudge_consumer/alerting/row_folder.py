"""Folds stored score rows into the alert engine, with people's actions and anchor rounds in their place among the rows.

The order is that of time: an action or a finished round is folded after the rows that were judged before it and before
those that were judged after it, however the rows are paged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from tracejudge.alerts import Action, AlertEvent, Engine, Rule
from tracejudge.alerts.order import in_order
from tracejudge.clock import Clock
from tracejudge.scores import Score, TraceFacts, TraceKey
from tracejudge.store import Cursor, Store
from tracejudge_consumer.alerting.adoption import seeds
from tracejudge_consumer.alerting.between_rows import BetweenRows, instant_of
from tracejudge_consumer.alerting.fresh_rows import FreshRows, Rows


class RowFolder:
    """The position reached in the store's score rows, actions and anchor rounds. Not thread-safe.

    `lookback`: rows stored up to so far behind the cursor are still found. `step_s`: length in seconds of the steps
    within which rows are sorted by event time (alerts/order.py); 0 sorts nothing. The methods that read the store raise
    ServiceUnavailable.
    """

    def __init__(self, store: Store, clock: Clock, *, rules: Sequence[Rule], lookback: timedelta, step_s: int) -> None:
        self._store = store
        self._rules = rules
        self._step_s = step_s
        self._rows = FreshRows(store, clock, lookback=lookback, step_s=step_s)
        self._between = BetweenRows()

    @property
    def cursor(self) -> Cursor | None:
        """The last score row that was read."""
        return self._rows.cursor

    @property
    def late(self) -> int:
        """Rows folded so far that turned up behind the cursor."""
        return self._rows.late

    @property
    def unsaved(self) -> bool:
        """Whether an action or a round was folded since the last `to_state`."""
        return self._between.unsaved

    def pages(self, *, until: datetime) -> Iterator[Rows]:
        """The rows judged up to `until`, the end of a step, that were not folded yet, page by page.

        Hand each page to `fold` and, after the last one, call `fold_rest`.
        """
        self._between.read(self._store, until=until)
        yield from self._rows.pages(until=until)

    def fold(self, engine: Engine, page: Rows) -> list[AlertEvent]:
        """Folds a page, and the actions and rounds up to its last row; nothing while no step of it is whole."""
        return [] if page.up_to is None else self._fold(engine, page.fresh, up_to=page.up_to)

    def fold_rest(self, engine: Engine) -> list[AlertEvent]:
        """Folds the actions and rounds that come after the last row."""
        return self._fold(engine, [], up_to=None)

    def _fold(self, engine: Engine, rows: list[Score], *, up_to: datetime | None) -> list[AlertEvent]:
        facts = self._facts(engine, rows)
        events: list[AlertEvent] = []
        while (one := self._between.next_before(up_to)) is not None:
            at = instant_of(one)
            before = [row for row in rows if row.judged_at < at]
            events += engine.fold(in_order(before, step_s=self._step_s), facts=facts)
            rows = rows[len(before) :]
            if isinstance(one, Action):
                if one.verb == "adopt":
                    for key, seed in seeds(self._store, self._rules, one).items():
                        engine.seed(key, seed.hours, heuristic=seed.heuristic, at=one.at)
                events += engine.apply(one)
            else:
                events += engine.fold_round(one)
        return events + engine.fold(in_order(rows, step_s=self._step_s), facts=facts)

    def _facts(self, engine: Engine, rows: Sequence[Score]) -> Mapping[TraceKey, TraceFacts] | None:
        """What the rules need to know of the rows' traces; None where they need nothing."""
        if not rows or not engine.asks_traces:
            return None
        return self._store.traffic.facts({row.key: row.event_time for row in rows}, fields=engine.trace_fields)

    def to_state(self) -> dict[str, Any]:
        """JSON values, without the cursor; `restore` continues exactly."""
        return {**self._rows.to_state(), **self._between.to_state()}

    def restore(self, cursor: Cursor | None, state: Mapping[str, Any]) -> None:
        """Continues from a cursor and the state that was stored with it."""
        self._rows.take_up(cursor, state)
        self._between = BetweenRows.from_state(state)
