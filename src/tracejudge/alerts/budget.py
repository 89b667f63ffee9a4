"""How the alarm budget of an (environment, app) is shared by its quality series."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from tracejudge.alerts.event import SeriesKey
from tracejudge.alerts.rule import Rule


class Budget:
    """Equal parts: one in the number of rules that watch something there, or of series seen, whichever is more.

    A new JudgeId takes the place of the old one, so adopting a judge changes nothing. Parts only shrink as series
    appear: then sum_k share_k M_k minus the hours passed stays a supermartingale, and with alarm levels of
    24 D / share_k hours the mean time to the first false alarm of all of them together is at least D days.
    """

    def __init__(self, rules: tuple[Rule, ...], *, keys: Iterable[SeriesKey] = ()) -> None:
        self._rules = rules
        self._slices: defaultdict[tuple[str, str], set[tuple[object, ...]]] = defaultdict(set)
        self._shares: dict[tuple[str, str], float] = {}
        for key in keys:
            self.add(key)

    def add(self, key: SeriesKey) -> None:
        """A series that takes part from now on."""
        place = (key.environment, key.app)
        self._slices[place].add((key.rule, key.judge_name, key.group))
        self._shares.pop(place, None)

    def share(self, key: SeriesKey) -> float:
        """The part of the budget that is the series' own, in (0, 1]."""
        place = (key.environment, key.app)
        share = self._shares.get(place)
        if share is None:
            rules = sum(rule.environment == key.environment and rule.app in (None, key.app) for rule in self._rules)
            share = self._shares[place] = 1.0 / max(1, rules, len(self._slices[place]))
        return share

    def alarm_hours(self, key: SeriesKey, rule: Rule) -> float:
        """The evidence A, in hours, at which the series fires."""
        return rule.hours_between_false_alarms / self.share(key)
