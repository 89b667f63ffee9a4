"""Is the fall worth a page? A second detector beside the first, whose null is a fall of half of `page_drop`.

    b_page = b - extra, so that b_page lies page_drop / 2 below the level the fall is counted from
    severity page                                         when its evidence reaches the alarm level A as well

It folds every row as the first one does and goes on while the alert is open, where the first stands still: an alert
that opened as a ticket becomes a page when the evidence for a larger fall is there, and only then. While the fall is at
most half of `page_drop`, pages have the promise of the rule by themselves: at most one in A hours on average, however
often tickets are opened, and justly so. An estimate of the fall, or a bound of one, would promise nothing: an alert
fires where the rate looks worst.

Half, as with `min_drop`: with all of it a fall of just that size would take for ever to page.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tracejudge.alerts.detecting.bets import Bets
from tracejudge.alerts.detecting.detector import DropDetector
from tracejudge.alerts.detecting.hour_effect import HourSoFar
from tracejudge.alerts.detecting.sums import Place
from tracejudge.alerts.rules.rule import DriftRule, MaxDropRule, Rule

_LOWEST_SHARE: Final = 0.5  # of the first boundary: for a rate near 0 half of page_drop may be more than there is


class PageEvidence:
    """The evidence, in hours, that a series has fallen far enough for a page."""

    __slots__ = ("_bets", "_of", "detector", "extra")

    def __init__(self, extra: float) -> None:
        self.extra = extra
        self.detector: DropDetector | None = None
        self._of: Bets | None = None
        self._bets: Bets | None = None

    @property
    def hours(self) -> float:
        """Compare it with the alarm level of the series."""
        return self.detector.evidence_hours if self.detector is not None else 0.0

    def pass_time(self, hours: float) -> None:
        """Event time went on by `hours` without an observation."""
        if self.detector is not None:
            self.detector.pass_time(hours)

    def observe(
        self,
        bets: Bets,
        *,
        passed: bool,
        weight: float,
        deff: float,
        hours: float,
        place: Place,
        hour: HourSoFar | None = None,
    ) -> None:
        """Folds one verdict; `bets` are those of the first detector for this row, the rest as of it."""
        if self._bets is None or self._of is not bets:
            boundary = max(bets.boundary - self.extra, _LOWEST_SHARE * bets.boundary)
            self._of, self._bets = bets, Bets(boundary, prior=bets.prior, phi=bets.phi, spread=bets.spread)
        if self.detector is None:
            self.detector = DropDetector(self._bets)
        self.detector.observe(
            passed=passed, weight=weight, deff=deff, hours=hours, place=place, bets=self._bets, hour=hour
        )

    def scale(self, factor: float) -> None:
        """Takes the evidence times a factor of at most 1."""
        if self.detector is not None:
            self.detector.scale(factor)

    def reset(self) -> None:
        """Forgets all evidence."""
        if self.detector is not None:
            self.detector.reset()

    def to_state(self) -> dict[str, Any]:
        """JSON values; `from_state` continues exactly."""
        return {"extra": self.extra, "detector": self.detector.to_state() if self.detector is not None else None}

    def take_up(self, state: Mapping[str, Any] | None) -> None:
        """Continues from a state; evidence about a fall of another size counts for nothing."""
        if state is not None and state["extra"] == self.extra and state["detector"] is not None:
            self.detector = DropDetector.from_state(state["detector"])


def page_evidence_of(rule: Rule) -> PageEvidence | None:
    """What the rule's pages go by; None where every alert is of the rule's severity from the start."""
    if rule.severity == "ticket" or rule.type in ("threshold", "volume"):
        return None
    told = 0.0  # of the fall, that the first boundary leaves out already
    if isinstance(rule, DriftRule):
        told = rule.min_drop / 2.0
    elif isinstance(rule, MaxDropRule):
        told = rule.max_drop
    extra = rule.page_drop / 2.0 - told
    return PageEvidence(extra) if extra > 0.0 else None
