"""The progress of a replay run: the position (`place`) up to which every trace is decided and stored.

The position only saves look-ups. Which verdicts are settled is known from the scores themselves, so a position that was
lost or lags behind costs time and never money.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from tracejudge.judging import PanelResult
from tracejudge.replay.sources import Place
from tracejudge.scores import Decision, Outcome

_TO_COME = frozenset({Decision.UNDECIDED, Decision.OVER_BUDGET, Decision.SHED})


@dataclass(slots=True)
class Behind:
    """Counts of the part of the source behind the cursor, in traces and in (trace, judge) pairs."""

    place: Place | None = None
    traces: int = 0
    texts_expired: int = 0
    settled: int = 0
    decided: int = 0  # without being settled: invalid, not applicable

    def as_dict(self) -> dict[str, Any]:
        """JSON values."""
        names = ("traces", "texts_expired", "settled", "decided")
        return {"place": self.place, **{name: getattr(self, name) for name in names}}


@dataclass(slots=True, eq=False)
class OpenPage:
    """A page with unanswered questions. `left` counts them, plus one until all questions of the page are put."""

    place: Place
    counts: Behind
    left: int = 1
    to_come: bool = field(default=False)  # a question of it is left to a later attempt

    def take(self, answered: Answered) -> None:
        """Adds the results of some of its questions."""
        self.counts.settled += answered.settled
        self.counts.decided += answered.decided
        self.to_come = self.to_come or answered.to_come


@dataclass(slots=True)
class Answered:
    """The results of some questions of one page."""

    questions: int = 0
    settled: int = 0
    decided: int = 0  # without being settled
    to_come: bool = False  # a question is left to a later attempt

    def add(self, result: PanelResult) -> None:
        """Adds the result of one question."""
        self.questions += 1
        for score in result.scores:
            if score.outcome is Outcome.INVALID:
                self.decided += 1
            else:
                self.settled += 1
        for row in result.ledger:
            if row.decision in _TO_COME:
                self.to_come = True
            else:
                self.decided += 1


class Progress:
    """The open pages in their order; the position moves over finished pages, up to the first unfinished one."""

    def __init__(self, behind: Behind) -> None:
        self.behind = behind
        self._open: deque[OpenPage] = deque()
        self._stuck = False

    def begin(self, page: OpenPage) -> None:
        """Adds the next page."""
        if not self._stuck:
            self._open.append(page)

    def settle(self, page: OpenPage, count: int = 1) -> bool:
        """Takes `count` questions of a page as answered and stored; True when the position has moved."""
        page.left -= count
        moved = False
        while self._open and self._open[0].left == 0:
            if self._open[0].to_come:
                # The position never moves over this page, so later pages need not be remembered.
                self._stuck = True
                self._open.clear()
                break
            done = self._open.popleft()
            self.behind = Behind(
                place=done.place,
                traces=self.behind.traces + done.counts.traces,
                texts_expired=self.behind.texts_expired + done.counts.texts_expired,
                settled=self.behind.settled + done.counts.settled,
                decided=self.behind.decided + done.counts.decided,
            )
            moved = True
        return moved
