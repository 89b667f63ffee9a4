"""What stands among the score rows in order of time: what people did about alerts, and rounds of anchors."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from tracejudge.alerts import Action
from tracejudge.anchors import AnchorRound
from tracejudge.store import Store
from tracejudge_consumer.alerting.actions import read_actions


class BetweenRows:
    """The places up to which actions and rounds were folded, and those that are still to come.

    `unsaved` says that some were taken since the places were last written down.
    """

    def __init__(self) -> None:
        self._acted: tuple[datetime, str] | None = None  # the last action that was taken
        self._rounds: datetime | None = None  # when the last round that was taken had been finished
        self._waiting: deque[Action | AnchorRound] = deque()
        self.unsaved = False

    def read(self, store: Store, *, until: datetime) -> None:
        """Reads what there is behind the places, up to an instant."""
        found: list[Action | AnchorRound] = list(read_actions(store, after=self._acted, until=until))
        found += store.anchors.rounds.finished(after=self._rounds, until=until)
        self._waiting = deque(sorted(found, key=_order))

    def next_before(self, judged_at: datetime | None) -> Action | AnchorRound | None:
        """Takes what comes next, if it was there by the instant at which a row was judged; None: whatever is left."""
        if not self._waiting or (judged_at is not None and instant_of(self._waiting[0]) > judged_at):
            return None
        one = self._waiting.popleft()
        if isinstance(one, Action):
            self._acted = (one.at, one.action_id)
        else:
            self._rounds = one.finished_at
        self.unsaved = True
        return one

    def to_state(self) -> dict[str, Any]:
        """JSON values; `from_state` continues exactly."""
        self.unsaved = False
        return {
            "acted": None if self._acted is None else [self._acted[0].isoformat(), self._acted[1]],
            "rounds": None if self._rounds is None else self._rounds.isoformat(),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> BetweenRows:
        between = cls()
        acted, rounds = state.get("acted"), state.get("rounds")  # older snapshots have none
        between._acted = None if acted is None else (datetime.fromisoformat(acted[0]), acted[1])
        between._rounds = None if rounds is None else datetime.fromisoformat(rounds)
        return between


def instant_of(one: Action | AnchorRound) -> datetime:
    """Rows judged before it come first."""
    return one.at if isinstance(one, Action) else one.finished_at or one.round_at


def _order(one: Action | AnchorRound) -> tuple[datetime, int, str, str]:
    if isinstance(one, Action):
        return (one.at, 0, one.action_id, "")
    return (instant_of(one), 1, one.set_id, one.judge_id)
