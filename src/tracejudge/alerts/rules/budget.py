"""How the alarm budget of an (environment, app) is shared by its quality series, and another by its health series.

    part of a rule      half of the budget goes to the rules that watch everything at once, half to those that watch
                        slices, each half in equal parts; where there is one kind only, it has the whole
    share of a series   the part of its rule, divided by the slices of the rule seen so far

The shares of all series sum to 1 at most, and only shrink as slices appear: then sum_k share_k M_k minus the hours
passed stays a supermartingale, and with alarm levels of 24 D / share_k hours the mean time to the first false alarm of
all of them together is at least D days. Health series (`measures.py`, volume) share a budget of their own in the same
way; rules that promise nothing are outside of both.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from tracejudge.alerts.event import SeriesKey
from tracejudge.alerts.rules.promise import Promises
from tracejudge.alerts.rules.rule import Rule
from tracejudge.alerts.rules.rule_base import BudgetKind

BUDGETS: Final[tuple[BudgetKind, ...]] = ("quality", "health")
OVERALL_HALF: Final = 0.5
"""What rules without slices have together, where others slice: most falls concern everything, and that one series has
all of the evidence."""


def parts_of(
    rules: Sequence[Rule], *, environment: str, app: str, budget: BudgetKind = "quality"
) -> Mapping[str, float]:
    """By name, the part of the budget of each rule that could watch something there; they sum to 1."""
    there = [
        rule for rule in rules if rule.budget == budget and rule.environment == environment and rule.app in (None, app)
    ]
    overall = [rule.name for rule in there if not rule.group_by]
    sliced = [rule.name for rule in there if rule.group_by]
    half = OVERALL_HALF if overall and sliced else 1.0
    parts = {name: half / len(overall) for name in overall}
    return parts | {name: (1.0 - half if overall else 1.0) / len(sliced) for name in sliced}


def promised_per_hour(rules: Sequence[Rule], promises: Promises, *, environment: str, app: str) -> Mapping[str, float]:
    """By name, at most how many false alarms an hour each rule that promises raises there. The parts of each budget sum
    to one; rules that promise differently have each their part of their own promise."""
    parts = {
        name: part
        for budget in BUDGETS
        for name, part in parts_of(rules, environment=environment, app=app, budget=budget).items()
    }
    return {
        rule.name: parts[rule.name] / promises.hours(rule, environment=environment, app=app)
        for rule in rules
        if rule.name in parts
    }


class Budget:
    """The shares as they are now. A new JudgeId takes the place of the old one, so adopting a judge changes nothing."""

    def __init__(
        self, rules: tuple[Rule, ...], *, promises: Promises | None = None, keys: Iterable[SeriesKey] = ()
    ) -> None:
        self._rules = rules
        self._promises = promises or Promises()
        self._hours: dict[tuple[str, str, str], float] = {}
        self._parts: dict[tuple[str, str], Mapping[str, float]] = {}
        self._slices: defaultdict[tuple[str, str, str], set[tuple[object, ...]]] = defaultdict(set)
        for key in keys:
            self.add(key)

    def add(self, key: SeriesKey) -> None:
        """A series that takes part from now on."""
        self._slices[key.environment, key.app, key.rule].add((key.judge_name, key.group))

    def share(self, key: SeriesKey) -> float:
        """The part of the budget that is the series' own, in (0, 1]."""
        place = (key.environment, key.app)
        parts = self._parts.get(place)
        if parts is None:
            parts = self._parts[place] = {
                name: part
                for budget in BUDGETS
                for name, part in parts_of(self._rules, environment=key.environment, app=key.app, budget=budget).items()
            }
        slices = self._slices.get((*place, key.rule))
        return parts.get(key.rule, 1.0) / max(1, len(slices) if slices is not None else 0)

    def alarm_hours(self, key: SeriesKey, rule: Rule) -> float:
        """The evidence A, in hours, at which the series fires."""
        place = (key.environment, key.app, key.rule)
        hours = self._hours.get(place)
        if hours is None:
            hours = self._hours[place] = self._promises.hours(rule, environment=key.environment, app=key.app)
        return hours / self.share(key)
