"""Where a JudgeId that comes in the place of another one begins: it has series of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tracejudge.alerts.event import SeriesKey
from tracejudge.alerts.rules.rule import Rule
from tracejudge.alerts.series.keys import key_of
from tracejudge.alerts.series.state import Series
from tracejudge.scores import Score


def learned_baselines(score: Score, rules: Iterable[Rule], series: Mapping[SeriesKey, Series]) -> list[Series]:
    """The series that the row is the first of and that learn a baseline; slices are left out, there may be many."""
    found = (series.get(key_of(rule, score)) for rule in rules if not rule.group_by)
    return [one for one in found if one is not None and one.baseline is not None and one.rule.budget == "quality"]
