"""What is folded between score rows, in order of time: people's actions on alerts, and finished anchor rounds."""

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
    """The positions up to which actions and rounds were folded, and those read but not folded yet.

    `unsaved`: whether the positions have moved since the last `to_state`.
    """

    def __init__(self) -> None:
        self._acted: tuple[datetime, str] | None = None  # (instant, id) of the last action taken
        self._rounds: datetime | None = None  # when the last round taken was finished
        self._waiting: deque[Action | AnchorRound] = deque()
        self.unsaved = False

    def read(self, store: Store, *, until: datetime) -> None:
        """Reads the actions and rounds beyond the positions, up to `until`."""
        found: list[Action | AnchorRound] = list(read_actions(store, after=self._acted, until=until))
        found += store.anchors.rounds.finished(after=self._rounds, until=until)
        self._waiting = deque(sorted(found, key=_order))

    def next_before(self, judged_at: datetime | None) -> Action | AnchorRound | None:
        """Takes the next action or round up to the instant `judged_at` (None: without a bound); None when there is
        none."""
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
    """The instant of an action or round: rows judged before it are folded first."""
    return one.at if isinstance(one, Action) else one.finished_at or one.round_at


def _order(one: Action | AnchorRound) -> tuple[datetime, int, str, str]:
    if isinstance(one, Action):
        return (one.at, 0, one.action_id, "")
    return (instant_of(one), 1, one.set_id, one.judge_id)
