"""Detects a judge that moves before its usual agreement is known: a sign test of its first rounds against the very
first.

A learned agreement takes a round or two, and a judge that moves in them would be learned as it is. But two rounds of a
judge that did not move are exchangeable, however unsure it is: an anchor that changed its verdict is as likely to have
gone from pass to fail as the other way. So of the anchors that changed, the number that went one way is binomial with
1/2, and McNemar's exact two-sided test needs no agreement. It is blind to flips that are as many either way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from tracejudge.alerts.series.state import Turn

TOLD_AT: Final = 0.001
"""The p-value of the first look at which a judge has moved: 11 flips one way and none the other. Look k gets
2 / (k (k + 1)) of it, which sums to 2 over all looks there can ever be: one judge in 500 that did not move is told so
once in its life, beside a promise of one false alarm in 30 days."""

STEADY_ABOVE: Final = 0.05
"""The p-value above which a judge that moved is steady again; far from `TOLD_AT`, so that none goes to and fro."""

ENOUGH: Final = 0.5
"""The share of the anchors that a round must have verdicts on to call a judge steady: few verdicts tell nothing."""


def flips(then: Mapping[str, bool], now: Mapping[str, bool]) -> tuple[int, int]:
    """How many anchors passed and fail now, and how many the other way.

    >>> flips({"a": True, "b": True, "c": False}, {"a": False, "b": True, "d": True})
    (1, 0)
    """
    both = then.keys() & now.keys()
    return sum(then[case] and not now[case] for case in both), sum(now[case] and not then[case] for case in both)


def sign_test(failed: int, passed: int) -> float:
    """McNemar's exact two-sided p-value; 1 where nothing flipped."""
    if failed + passed == 0:
        return 1.0
    from scipy.stats import binomtest  # here: it takes a second to import, and most commands never ask

    return float(binomtest(failed, failed + passed, 0.5).pvalue)


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyMove:
    """A judge that moved before its agreement was known."""

    at: datetime
    event_id: str = ""  # of the event that said so; empty until it is made


@dataclass(slots=True, kw_only=True)
class Flips:
    """The looks at a judge so far, and whether it has moved by one of them."""

    looks: int = 0
    moved: EarlyMove | None = None
    dismissed: bool = False  # a person said that it has not moved: nothing is asked until the next accept

    def see(self, then: Mapping[str, bool], now: Mapping[str, bool], *, armed: bool, at: datetime) -> Turn | None:
        """Holds a finished round against the first; FIRED where the judge has moved, RESOLVED where it is as before.

        `armed` says that the agreement is known: no look any more, but a judge that moved may still get steady. The
        move stays in `moved` until `close`.
        """
        both = then.keys() & now.keys()
        if not both:
            return None
        p = sign_test(*flips(then, now))
        if self.moved is not None:
            return Turn.RESOLVED if p > STEADY_ABOVE and len(both) >= ENOUGH * len(then) else None
        if armed or self.dismissed:
            return None
        self.looks += 1
        if p > 2.0 * TOLD_AT / (self.looks * (self.looks + 1)):
            return None
        self.moved = EarlyMove(at=at)
        return Turn.FIRED

    def close(self, *, dismissed: bool = False) -> None:
        """Ends the move."""
        self.moved = None
        self.dismissed = self.dismissed or dismissed

    def to_state(self) -> dict[str, Any]:
        """JSON values; `from_state` continues exactly."""
        moved = None if self.moved is None else [self.moved.at.isoformat(), self.moved.event_id]
        return {"looks": self.looks, "moved": moved, "dismissed": self.dismissed}

    @classmethod
    def from_state(cls, state: Mapping[str, Any] | None) -> Flips:
        """None is of an older snapshot, which has none."""
        if state is None:
            return cls()
        moved = state["moved"]
        return cls(
            looks=state["looks"],
            moved=None if moved is None else EarlyMove(at=datetime.fromisoformat(moved[0]), event_id=moved[1]),
            dismissed=state["dismissed"],
        )
