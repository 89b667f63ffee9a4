"""Reads score rows that were not folded yet, in the order in which they were judged, and keeps the cursor.

Rows come in whole steps (alerts/order.py), so that each step can be sorted by itself. Once a minute the rows some way
behind the cursor are read again, for those that were stored after rows judged later than they.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Any, Final, NamedTuple

from tracejudge.alerts import SeenRows
from tracejudge.alerts.order import step_of
from tracejudge.clock import Clock
from tracejudge.scores import Score
from tracejudge.store import Cursor, Store

logger = logging.getLogger(__name__)

_PAGE: Final = 10_000
_REREAD_EVERY_S: Final = 60.0
_LARGEST_STEP: Final = 1_000_000  # rows judged within half a minute that are put in order together


class Rows(NamedTuple):
    """Rows of whole steps. `fresh` are those not folded yet; `up_to` is when the last row read was judged, fresh or
    not, and None where no step is whole yet."""

    fresh: list[Score]
    up_to: datetime | None


class FreshRows:
    """Reads the rows of a store from `cursor` on, or from the beginning where it is None.

    `late` counts the rows that turned up behind the cursor so far. With a `step_s` of 0 each row is a step of its own.
    """

    def __init__(self, store: Store, clock: Clock, *, lookback: timedelta, step_s: int) -> None:
        self._store = store
        self._clock = clock
        self._lookback = lookback
        self._step_s = step_s
        self.cursor: Cursor | None = None
        self.late = 0
        self._seen = SeenRows()
        self._reread_at: float | None = None
        self._told_of_clock = False

    def pages(self, *, until: datetime) -> Iterator[Rows]:
        """The rows judged up to `until`, the end of a step, page by page. Raises ServiceUnavailable.

        The cursor is moved before a page is given: a caller that does not fold the page has to `take_up` a stored
        cursor again.
        """
        self._tell_of_clock(until)
        place, held = self._begin(), list[Score]()  # held: rows of a step that may go on in the next page
        while page := self._store.scores.since(place, until=until, limit=_PAGE, words=False):
            place = Cursor(page[-1].judged_at, page[-1].trace_id)
            whole, held = self._whole_steps(held + page)
            yield self._fresh(whole)
        if held:
            yield self._fresh(held)

    def _tell_of_clock(self, until: datetime) -> None:
        behind = self.cursor is not None and self.cursor.judged_at - until > self._lookback
        if behind and self.cursor is not None and not self._told_of_clock:
            logger.error(
                "alert loop: verdicts are folded up to %s UTC, and now are read up to %s only: the store's clock was "
                "set back (or settle_s raised). Nobody is alerted until it has caught up, and verdicts judged in "
                "between may be passed over: look at `tracejudge rates`",
                self.cursor.judged_at.strftime("%Y-%m-%d %H:%M:%S"),
                until.strftime("%Y-%m-%d %H:%M:%S"),
            )
        self._told_of_clock = behind

    def _begin(self) -> Cursor | None:
        """Where to read from: the cursor, or, once a minute, `lookback` before it."""
        cursor, now = self.cursor, self._clock.monotonic()
        if cursor is None or (self._reread_at is not None and now - self._reread_at < _REREAD_EVERY_S):
            return cursor
        self._reread_at = now
        start = self._seen.known_from(cursor.judged_at, back=self._lookback)
        return Cursor(start, "") if start < cursor.judged_at else cursor

    def _whole_steps(self, rows: list[Score]) -> tuple[list[Score], list[Score]]:
        """Splits off the last step, of which more rows may come; not where there are more than a million rows."""
        if len(rows) > _LARGEST_STEP or self._step_s == 0:
            return rows, []
        last = step_of(rows[-1].judged_at, step_s=self._step_s)
        cut = next((k for k in range(len(rows), 0, -1) if rows[k - 1].judged_at < last), 0)
        return rows[:cut], rows[cut:]

    def _fresh(self, rows: list[Score]) -> Rows:
        if not rows:
            return Rows([], None)
        cursor, last = self.cursor, Cursor(rows[-1].judged_at, rows[-1].trace_id)
        fresh = [score for score in rows if self._seen.add(score)]
        late = 0
        if cursor is not None:  # rows are in order: those behind the cursor come first
            late = sum(1 for _ in takewhile(lambda one: (one.judged_at, one.trace_id) <= cursor, fresh))
        if late:
            self.late += late
            logger.info("alert loop: %d rows turned up behind the cursor and are folded on arrival", late)
        if cursor is None or last > cursor:
            self.cursor = last
            self._seen.forget_before(last.judged_at - self._lookback)
        return Rows(fresh, last.judged_at)

    def to_state(self) -> dict[str, Any]:
        """JSON values, without the cursor; `take_up` continues exactly."""
        return {"seen": self._seen.to_state(), "late_rows": self.late}

    def take_up(self, cursor: Cursor | None, state: Mapping[str, Any]) -> None:
        """Continues from a stored cursor and state."""
        self.cursor = cursor
        self._seen = SeenRows.from_state(state["seen"])
        self.late = state["late_rows"]
