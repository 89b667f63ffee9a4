"""The engine's state as JSON values, one snapshot per series: a shortcut, as it can be folded again from the scores."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tracejudge.alerts.event import SeriesKey
from tracejudge.alerts.rules.rule import RULE, Rule
from tracejudge.alerts.series.health import JudgeHealth, JudgePlace
from tracejudge.alerts.series.kinds import kind_of
from tracejudge.alerts.series.state import Series

FORMAT: Final = 1
"""Version of the state; a snapshot of another format is ignored, and the series starts anew."""

RETIRED: Final[Mapping[str, Any]] = {"format": FORMAT, "kind": "retired"}


@dataclass(frozen=True, slots=True)
class SeriesSnapshot:
    """The whole state of one series, as JSON values. `name` is unique and stable."""

    name: str
    state: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SeriesFound:
    """The stored state of a series, with the rule it was watched under."""

    key: SeriesKey
    rule: Rule
    state: Mapping[str, Any]

    def series(self, rule: Rule) -> Series:
        """The series, continued under `rule`."""
        return kind_of(rule).from_state(self.state, key=self.key, rule=rule)


@dataclass(frozen=True, slots=True)
class HealthFound:
    """The stored state of a judge's health."""

    place: JudgePlace
    health: JudgeHealth


def of_series(series: Series) -> SeriesSnapshot:
    """The state of a series."""
    key = series.key
    state = {
        "format": FORMAT,
        "kind": "series",
        "key": {
            "rule": key.rule,
            "environment": key.environment,
            "app": key.app,
            "judge_name": key.judge_name,
            "judge_id": key.judge_id,
            "group": [list(pair) for pair in key.group],
        },
        "rule": series.rule.model_dump(mode="json"),
        "series": series.to_state(),
    }
    return SeriesSnapshot(series_name(key), state)


def of_health(place: JudgePlace, health: JudgeHealth) -> SeriesSnapshot:
    """The state of a judge's health."""
    state = {"format": FORMAT, "kind": "health", "place": list(place), "health": health.to_state()}
    return SeriesSnapshot(health_name(place), state)


def read(snapshot: SeriesSnapshot) -> SeriesFound | HealthFound | None:
    """The content of a snapshot; None when it is retired, of another format or of another kind."""
    state = snapshot.state
    if state.get("format") != FORMAT:
        return None
    if state["kind"] == "health":
        return HealthFound(JudgePlace(*state["place"]), JudgeHealth.from_state(state["health"]))
    if state["kind"] != "series":
        return None
    key = dict(state["key"])
    key["group"] = tuple((field, value) for field, value in key["group"])
    return SeriesFound(SeriesKey(**key), RULE.validate_python(state["rule"]), state["series"])


def series_name(key: SeriesKey) -> str:
    """Names the snapshot of a series."""
    return "series:" + _hash(key.rule, key.environment, key.app, key.judge_name, key.judge_id, key.group)


def health_name(place: JudgePlace) -> str:
    """Names the snapshot of a judge's health."""
    return "health:" + _hash(*place)


def _hash(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts, separators=(",", ":")).encode()).hexdigest()[:32]
