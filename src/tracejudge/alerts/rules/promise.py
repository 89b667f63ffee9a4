"""The one knob: how often all quality series of an (environment, app) together may raise a false alarm.

Health series have the same promise again, for themselves. A rule may have one of its own: then its part of the budget
(`budget.py`) is a part of that promise instead, and those of the other rules stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from tracejudge.alerts.durations import parse_false_alarms
from tracejudge.alerts.rules.rule import Rule

USUAL: Final = "1 per 30d"


def _parses(text: str) -> str:
    parse_false_alarms(text)
    return text


FalseAlarms = Annotated[str, AfterValidator(_parses)]


class PlacePromise(BaseModel):
    """The promise of one application of an environment, or of all of an environment that have none of their own."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    environment: Annotated[str, Field(min_length=1)] = "production"
    app: Annotated[str, Field(min_length=1)] | None = None
    false_alarms: FalseAlarms


class Promises:
    """The promises about false alarms, by environment and app. Of several the closest stands: a rule's own, the
    application's, the environment's, the common one. Raises ValueError when a place has two."""

    def __init__(self, common: str = USUAL, places: Sequence[PlacePromise] = ()) -> None:
        self.common = _parses(common)
        self._places: dict[tuple[str, str | None], str] = {}
        for one in places:
            if (one.environment, one.app) in self._places:
                where = f"app {one.app!r} of {one.environment!r}" if one.app else f"environment {one.environment!r}"
                raise ValueError(f"{where} has two promises; leave one of them")
            self._places[one.environment, one.app] = one.false_alarms

    def of(self, rule: Rule, *, environment: str, app: str | None) -> str:
        """The promise for a rule in one (environment, app), as written in the settings: `N per DURATION`."""
        if rule.false_alarms is not None:
            return rule.false_alarms
        return self.of_place(environment, app)

    def of_place(self, environment: str, app: str | None) -> str:
        """That of a place, without regard to what rules have of their own."""
        return self._places.get((environment, app)) or self._places.get((environment, None)) or self.common

    def hours(self, rule: Rule, *, environment: str, app: str | None) -> float:
        """Its mean number of hours of event time between two false alarms."""
        return parse_false_alarms(self.of(rule, environment=environment, app=app)) / timedelta(hours=1)
