"""The registry of series: which are admitted, each one's share of the promise, which are silent, which are retired."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from tracejudge.alerts.event import SeriesKey
from tracejudge.alerts.rules.budget import Budget
from tracejudge.alerts.rules.promise import Promises
from tracejudge.alerts.rules.rule import Rule
from tracejudge.alerts.rules.slices import OTHER, is_other
from tracejudge.alerts.series.keys import Family, family_of, order_of, recency
from tracejudge.alerts.series.state import Series

MAX_SLICES_PER_RULE: Final = 1000
"""Most slices of a rule over all applications, whose names come from producers. Rows beyond it are counted and not
watched. A new JudgeId in a slice does not count again."""

RETIRE_AFTER: Final = timedelta(days=30)
"""A series without an alert and without a row for this long is retired; its share of the promise goes to the others."""


class Retired(NamedTuple):
    """The series that were retired, and those whose share of the promise has grown by it."""

    gone: list[SeriesKey]
    grown: list[SeriesKey]


class _Slice(NamedTuple):
    """A slice of a rule, whatever JudgeIds have judged in it."""

    family: Family
    group: tuple[tuple[str, str], ...]


class Watched:
    """The series of some rules, by their keys."""

    def __init__(self, rules: Sequence[Rule], promises: Promises | None = None) -> None:
        self._rules = tuple(rules)
        self._promises = promises or Promises()
        self.series: dict[SeriesKey, Series] = {}
        self.silent: dict[Family, SeriesKey] = {}  # by silent family, the series that raised the no_data event
        self.shares = 0  # version: rises whenever a share may have changed
        self._budget = Budget(self._rules, promises=self._promises)
        self._slices: defaultdict[_Slice, dict[SeriesKey, None]] = defaultdict(dict)
        self._by_name = {rule.name: rule for rule in self._rules}
        self._per_rule: Counter[str] = Counter()
        self._named: Counter[tuple[str, str, str]] = Counter()  # slices but for OTHER, by (rule, environment, app)

    def __iter__(self) -> Iterator[Series]:
        """The series in the order of their keys."""
        return iter(self.series[key] for key in sorted(self.series, key=order_of))

    def has_room(self, key: SeriesKey) -> bool:
        """Whether a series of this key may be added."""
        if _slice_of(key) in self._slices:
            return True
        if self._per_rule[key.rule] >= MAX_SLICES_PER_RULE:
            return False
        rule = self._by_name.get(key.rule)
        return rule is None or not key.group or is_other(key) or self._named[_place(key)] < rule.max_series

    def room_of(self, key: SeriesKey) -> SeriesKey | None:
        """The key under which rows of `key` are watched: `key`, that of the OTHER values, or None without room."""
        if self.has_room(key):
            return key
        other = replace(key, group=tuple((name, OTHER) for name, _ in key.group))
        return other if key.group and self.has_room(other) else None

    def add(self, series: Series) -> None:
        """Watches a series from now on."""
        key = series.key
        self.series[key] = series
        series.promise = self._promises.of(series.rule, environment=key.environment, app=key.app)
        place = _slice_of(key)
        if place not in self._slices:
            self._count(key, 1)
        self._slices[place][key] = None
        self._budget.add(key)
        self.shares += 1
        if series.silent:
            self.silent[family_of(key)] = key

    def share(self, key: SeriesKey) -> float:
        """The series' share of the promise of its (environment, app), in (0, 1]."""
        return self._budget.share(key)

    def alarm_hours(self, series: Series) -> float:
        """The evidence, in hours, at which the series fires."""
        return self._budget.alarm_hours(series.key, series.rule)

    def predecessor(self, key: SeriesKey) -> Series | None:
        """The series of the same slice under another JudgeId, the one with the latest row; None when there is none."""
        same = (self.series[other] for other in self._slices.get(_slice_of(key), ()) if other.judge_id != key.judge_id)
        return max((one for one in same if one.last_judged_at is not None), key=recency, default=None)

    def latest(self) -> list[tuple[Family, Series]]:
        """By family, in order, the series with the latest row: an older JudgeId or a rare group is not silence."""
        found: dict[Family, Series] = {}
        for key, series in self.series.items():
            if series.last_judged_at is None:
                continue
            family = family_of(key)
            other = found.get(family)
            if other is None or recency(series) > recency(other):
                found[family] = series
        return sorted(found.items(), key=lambda item: item[0])

    def retire(self, now: datetime) -> Retired:
        """Retires the series that have no alert and had no row for `RETIRE_AFTER`.

        The others get their shares and fire at less evidence from then on. So the evidence they have by now is scaled
        down alike: the sum of share x evidence would jump otherwise, which would break the promise.
        """
        keep = set(self.silent.values())
        old = [
            key
            for key, series in self.series.items()
            if series.last_judged_at is not None
            and now - series.last_judged_at > RETIRE_AFTER
            and series.alert is None
            and key not in keep
        ]
        if not old:
            return Retired([], [])
        before = {key: self.share(key) for key in self.series}
        self._forget(old)
        return Retired(old, self.scaled_from(before))

    def scaled_from(self, before: Mapping[SeriesKey, float]) -> list[SeriesKey]:
        """Scales down the evidence of series whose share is larger than `before`; returns their keys."""
        grown = []
        for key, series in self.series.items():
            share = self.share(key)
            if share > before[key]:
                series.scale_evidence(before[key] / share)
                grown.append(key)
        return grown

    def _count(self, key: SeriesKey, by: int) -> None:
        self._per_rule[key.rule] += by
        if not is_other(key):
            self._named[_place(key)] += by

    def _forget(self, keys: Iterable[SeriesKey]) -> None:
        for key in keys:
            del self.series[key]
            place = _slice_of(key)
            self._slices[place].pop(key)
            if not self._slices[place]:
                del self._slices[place]
                self._count(key, -1)
        self._budget = Budget(self._rules, promises=self._promises, keys=self.series)
        self.shares += 1


def _place(key: SeriesKey) -> tuple[str, str, str]:
    return (key.rule, key.environment, key.app)


def _slice_of(key: SeriesKey) -> _Slice:
    return _Slice(family_of(key), key.group)
