"""Keys of series: which rows make up one series, which series form a family, and how series are ordered."""

from __future__ import annotations

from typing import NamedTuple

from tracejudge.alerts.event import SeriesKey
from tracejudge.alerts.rules.rule import Rule
from tracejudge.alerts.rules.rule_base import HEALTH_RULE
from tracejudge.alerts.rules.slices import group_of
from tracejudge.alerts.series.state import Series
from tracejudge.scores import Score, TraceFacts


class Family(NamedTuple):
    """The series that fall silent together: all groups and JudgeIds of a rule's judge in one (environment, app)."""

    rule: str
    environment: str
    app: str
    judge_name: str


def family_of(key: SeriesKey) -> Family:
    return Family(key.rule, key.environment, key.app, key.judge_name)


def key_of(rule: Rule, score: Score, facts: TraceFacts | None = None) -> SeriesKey:
    return SeriesKey(
        rule=rule.name,
        environment=score.environment,
        app=score.app,
        judge_name=score.judge_name,
        judge_id=score.judge_id,
        group=group_of(rule.group_by, score, facts) if rule.group_by else (),
    )


def judge_key(score: Score) -> SeriesKey:
    """The key of events about a judge's health in one (environment, app), as opposed to its verdicts."""
    return SeriesKey(
        rule=HEALTH_RULE,
        environment=score.environment,
        app=score.app,
        judge_name=score.judge_name,
        judge_id=score.judge_id,
    )


def order_of(key: SeriesKey) -> tuple[object, ...]:
    return (key.rule, key.environment, key.app, key.judge_name, key.judge_id, key.group)


def recency(series: Series) -> tuple[object, ...]:
    return (series.last_judged_at, order_of(series.key))
