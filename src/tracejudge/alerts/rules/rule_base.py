"""What every rule says, whatever it is about: whom it watches, how often it may be wrong, and how bad an alert is."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator, model_validator

from tracejudge.alerts.durations import parse_duration, parse_false_alarms
from tracejudge.alerts.event import Severity
from tracejudge.alerts.rules.measures import WITH_LIMIT, Measure
from tracejudge.alerts.rules.slices import GroupField

HEALTH_RULE: Final = "evaluator-health"
"""The rule named in events about a judge's own health; no user's rule may take this name."""

CHANNEL_RULE: Final = "channel-health"
"""The rule named in events about a channel that takes no alerts."""

_BACKFILL_S: Final = 86_400.0
"""An outage that lasts longer is told as no data meanwhile."""

BudgetKind = Literal["quality", "health"]
"""Health series have a budget of their own: they must not make alerts on quality slower."""

Name = Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:-]*$")]


class RuleBase(BaseModel):
    """The settings common to all rules.

    Each application of the environment, each JudgeId and each combination of the `group_by` values is a series of its
    own. How often they may fire falsely is a promise about all of them together (`promise.py`).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Name
    judge: str = Field(min_length=1)
    environment: str = "production"
    app: str | None = None  # None: every application, each a series of its own
    group_by: tuple[GroupField, ...] = ()
    max_series: int = Field(default=100, ge=1, le=1000)  # of an application; further values are one series, (other)
    false_alarms: str | None = None  # None: its part of the promise of all rules; else of one of its own
    min_effective_samples: float = Field(default=20, ge=1, le=100_000, allow_inf_nan=False)
    severity: Severity = "ticket"  # "page": where the fall is large enough; else a ticket
    page_drop: float = Field(default=0.03, ge=0.0, le=0.5, allow_inf_nan=False)  # a share; half of it never pages
    measure: Measure = "quality"
    at_most: float | None = Field(default=None, gt=0, allow_inf_nan=False)  # the limit of a measure that has one
    backfill_after: str | None = None  # of measure lag_s: judged so late it is a backfill; None: 24h, above at_most
    remind_after: str = "never"  # of an alert that is open and that nobody acknowledged
    heuristic_may_page: bool = False  # a judge without a model opens tickets only, unless told to page
    no_data_after: str = "24h"  # of silence, all groups together; "never" turns it off

    @field_validator("name")
    @classmethod
    def _name_is_free(cls, name: str) -> str:
        if name in (HEALTH_RULE, CHANNEL_RULE):
            raise ValueError(f"{name!r} is reserved for the monitoring of judges and channels; choose another name")
        return name

    @field_validator("group_by")
    @classmethod
    def _grouped_once(cls, fields: tuple[GroupField, ...]) -> tuple[GroupField, ...]:
        if len(set(fields)) != len(fields):
            raise ValueError(f"{list(fields)!r} names a field twice; name each field once")
        return fields

    @field_validator("false_alarms")
    @classmethod
    def _false_alarms_parse(cls, text: str | None) -> str | None:
        if text is not None:
            parse_false_alarms(text)
        return text

    @field_validator("no_data_after")
    @classmethod
    def _no_data_after_parses(cls, text: str) -> str:
        return _long_or_never(text, minutes=5, such_as="24h")

    @field_validator("backfill_after")
    @classmethod
    def _backfill_after_parses(cls, text: str | None) -> str | None:
        if text is not None and text != "never":
            parse_duration(text)
        return text

    @field_validator("remind_after")
    @classmethod
    def _remind_after_parses(cls, text: str) -> str:
        return _long_or_never(text, minutes=10, such_as="4h")

    @model_validator(mode="after")
    def _measure_has_its_limit(self) -> RuleBase:
        unit = WITH_LIMIT.get(self.measure)
        if unit is not None and self.at_most is None:
            raise ValueError(f"at_most: measure {self.measure!r} needs one, in {unit}: above it a trace is a bad one")
        if unit is None and self.at_most is not None:
            raise ValueError(f"at_most: measure {self.measure!r} has no limit; remove it")
        if self.measure != "lag_s" and self.backfill_after is not None:
            raise ValueError(f"backfill_after: is about measure 'lag_s', and this is {self.measure!r}; remove it")
        if self.backfill_after is not None and (self.at_most or 0.0) >= (self.backfill_s or math.inf):
            raise ValueError(
                f"at_most: {self.at_most} seconds are not below backfill_after, {self.backfill_after!r}: no trace "
                "would ever be late; write a longer backfill_after, or 'never'"
            )
        return self

    @property
    def backfill_s(self) -> float | None:
        """How late a trace may be judged, in seconds, and still say something about lag; None: any time, or the rule is
        about something else."""
        if self.measure != "lag_s" or self.at_most is None or self.backfill_after == "never":
            return None
        if self.backfill_after is None:
            return _BACKFILL_S if self.at_most < _BACKFILL_S else None
        return parse_duration(self.backfill_after).total_seconds()

    @property
    def budget(self) -> BudgetKind | None:
        """With which rules it shares the promise of an (environment, app); None where it promises nothing."""
        return "quality" if self.measure == "quality" else "health"

    @property
    def fixed_boundary(self) -> float | None:
        """The boundary below which a drop is reported; None where it is learned."""
        return None

    @property
    def measured(self) -> tuple[object, ...]:
        """The measure of the rule, as part of its question."""
        return () if self.measure == "quality" else (self.measure, self.at_most, self.backfill_s)

    @property
    def reminder(self) -> timedelta | None:
        """The time after which a reminder of an open alert is sent; None: never."""
        return None if self.remind_after == "never" else parse_duration(self.remind_after)

    @property
    def silence_limit(self) -> timedelta | None:
        """How long no row may come before the series has no data; None: any time."""
        return None if self.no_data_after == "never" else parse_duration(self.no_data_after)

    def watches(self, *, environment: str, app: str, judge_name: str) -> bool:
        """Whether rows of this judge, environment and application belong to the rule."""
        return judge_name == self.judge and environment == self.environment and (self.app is None or app == self.app)


def _long_or_never(text: str, *, minutes: int, such_as: str) -> str:
    if text != "never" and parse_duration(text) < timedelta(minutes=minutes):
        raise ValueError(
            f"{text!r} is below the limit of {minutes} minutes; write a longer time, such as {such_as!r}, or 'never'"
        )
    return text
