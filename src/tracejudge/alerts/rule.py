"""What a user asks to be told about: a rate that must not fall, with a promise about false alarms."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Final, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    StringConstraints,
    Tag,
    TypeAdapter,
    field_validator,
    model_validator,
)

from tracejudge.alerts.durations import parse_duration, parse_false_alarms
from tracejudge.alerts.event import Severity
from tracejudge.alerts.measures import WITH_LIMIT, Measure
from tracejudge.alerts.slices import GroupField

HEALTH_RULE: Final = "evaluator-health"
"""The rule named in events about a judge's own health; no user's rule may take this name."""

CHANNEL_RULE: Final = "channel-health"
"""The rule named in events about a channel that takes no alerts."""

_BACKFILL_S: Final = 86_400.0
"""An outage that lasts longer is told as no data meanwhile."""

BudgetKind = Literal["quality", "health"]
"""Health series have a budget of their own: they must not make alerts on quality slower."""

Name = Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:-]*$")]


class _Rule(BaseModel):
    """What every rule says.

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
            raise ValueError(f"{name!r} is taken by the watch over judges and channels themselves; choose another name")
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
        if text != "never" and parse_duration(text) < timedelta(minutes=5):
            raise ValueError(
                f"{text!r} is below the limit of 5 minutes; write a longer time, such as '24h', or 'never'"
            )
        return text

    @field_validator("backfill_after")
    @classmethod
    def _backfill_after_parses(cls, text: str | None) -> str | None:
        if text is not None and text != "never":
            parse_duration(text)
        return text

    @field_validator("remind_after")
    @classmethod
    def _remind_after_parses(cls, text: str) -> str:
        if text != "never" and parse_duration(text) < timedelta(minutes=10):
            raise ValueError(
                f"{text!r} is below the limit of 10 minutes; write a longer time, such as '4h', or 'never'"
            )
        return text

    @model_validator(mode="after")
    def _measure_has_its_limit(self) -> _Rule:
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
        """The rate whose loss is told; None where it is learned."""
        return None

    @property
    def measured(self) -> tuple[object, ...]:
        """What is counted, as part of the question."""
        return () if self.measure == "quality" else (self.measure, self.at_most, self.backfill_s)

    @property
    def reminder(self) -> timedelta | None:
        """How long an open alert is left alone before it is told again; None: for ever."""
        return None if self.remind_after == "never" else parse_duration(self.remind_after)

    @property
    def silence_limit(self) -> timedelta | None:
        """How long no row may come before the series has no data; None: any time."""
        return None if self.no_data_after == "never" else parse_duration(self.no_data_after)

    def watches(self, *, environment: str, app: str, judge_name: str) -> bool:
        """Whether rows of this judge, environment and application belong to the rule."""
        return judge_name == self.judge and environment == self.environment and (self.app is None or app == self.app)


class MinimumRule(_Rule):
    """The pass rate of a judge must not be below `minimum`."""

    type: Literal["minimum"] = "minimum"
    minimum: float = Field(ge=0.01, le=0.999, allow_inf_nan=False)  # outside, one failure or none would decide

    @property
    def fixed_boundary(self) -> float | None:
        """The minimum."""
        return self.minimum

    @property
    def question(self) -> tuple[object, ...]:
        """What evidence is about: under another question it counts for nothing."""
        return (self.type, self.group_by, self.minimum, *self.measured)

    @property
    def demand(self) -> str:
        """The rule in words."""
        return f"not below {100 * self.minimum:g} %"


class DriftRule(_Rule):
    """The pass rate of a judge must not fall below what it has been.

    What it has been is learned from the series itself, with its season, and goes on growing behind a lag of two days.
    Falls smaller than `min_drop` (a share: 0.03 is 3 points) are not worth telling.
    """

    type: Literal["drift"]
    min_drop: float = Field(default=0.0, ge=0.0, le=0.5, allow_inf_nan=False)

    @property
    def question(self) -> tuple[object, ...]:
        """What evidence is about: under another question it counts for nothing."""
        return (self.type, self.group_by, self.min_drop, *self.measured)

    @property
    def demand(self) -> str:
        """The rule in words."""
        least = f" by {100 * self.min_drop:g} points or more" if self.min_drop else ""
        return f"not falling{least}"


class MaxDropRule(_Rule):
    """The pass rate of a judge must not be more than `max_drop` below what it was in the first `reference` time.

    That baseline is frozen once it is complete, so that a slow decline cannot pass into it.
    """

    type: Literal["max_drop"]
    max_drop: float = Field(gt=0.0, le=0.9, allow_inf_nan=False)  # a share: 0.03 is 3 points
    reference: str = "14d"

    @field_validator("reference")
    @classmethod
    def _reference_parses(cls, text: str) -> str:
        if not timedelta(hours=1) <= parse_duration(text) <= timedelta(days=28):
            raise ValueError(f"{text!r} is not between 1 hour and 28 days; write it as '14d'")
        return text

    @property
    def question(self) -> tuple[object, ...]:
        """What evidence is about: under another question it counts for nothing."""
        return (self.type, self.group_by, self.max_drop, self.reference, *self.measured)

    @property
    def demand(self) -> str:
        """The rule in words."""
        return f"not more than {100 * self.max_drop:g} points below its first {self.reference}"


class ThresholdRule(_Rule):
    """The rate of each window of `window` must not be below `below`: what other tools call an alert. It promises
    nothing; how often it fires by chance is shown beside it (`tracejudge alerts rules`).

    `min_effective_samples` is of each window. With `severity = "page"` it pages when a window is `page_drop` below.
    """

    type: Literal["threshold"]
    below: float = Field(ge=0.01, le=0.999, allow_inf_nan=False)
    window: str = "1h"

    @field_validator("window")
    @classmethod
    def _window_parses(cls, text: str) -> str:
        if not timedelta(minutes=5) <= parse_duration(text) <= timedelta(days=7):
            raise ValueError(f"{text!r} is not between 5 minutes and 7 days; write it as '1h'")
        return text

    @property
    def window_span(self) -> timedelta:
        """The length of a window."""
        return parse_duration(self.window)

    @property
    def budget(self) -> BudgetKind | None:
        """None: it promises nothing."""
        return None

    @property
    def fixed_boundary(self) -> float | None:
        """The threshold."""
        return self.below

    @property
    def question(self) -> tuple[object, ...]:
        """What evidence is about: under another question it counts for nothing."""
        return (self.type, self.group_by, self.below, self.window, *self.measured)

    @property
    def demand(self) -> str:
        """The rule in words."""
        return f"no {self.window} below {100 * self.below:g} %"


class VolumeRule(_Rule):
    """The number of judged traces an hour must not change by `min_change` or more, against what that hour of the week
    has been: 0.5 is half of it, or twice. Half of the change is within what is never told.
    """

    type: Literal["volume"]
    min_change: float = Field(default=0.5, ge=0.1, le=0.9, allow_inf_nan=False)

    @model_validator(mode="after")
    def _counts_rows(self) -> VolumeRule:
        if self.measure != "quality":
            raise ValueError(f"measure: a rule of type volume counts traces, it has no {self.measure!r}; remove it")
        return self

    @property
    def budget(self) -> BudgetKind | None:
        """That of health."""
        return "health"

    @property
    def question(self) -> tuple[object, ...]:
        """What evidence is about: under another question it counts for nothing."""
        return (self.type, self.group_by, self.min_change)

    @property
    def demand(self) -> str:
        """The rule in words."""
        return f"as many an hour as usual, within {100 * self.min_change:g} %"


Rule = MinimumRule | DriftRule | MaxDropRule | ThresholdRule | VolumeRule
"""Any rule: what the library works with."""


def _type_of(value: object) -> str:
    return str(value.get("type", "minimum")) if isinstance(value, Mapping) else str(getattr(value, "type", "minimum"))


RULE_TYPES: Final = ("minimum", "drift", "max_drop", "threshold", "volume")

AnyRule = Annotated[
    Annotated[MinimumRule, Tag("minimum")]
    | Annotated[DriftRule, Tag("drift")]
    | Annotated[MaxDropRule, Tag("max_drop")]
    | Annotated[ThresholdRule, Tag("threshold")]
    | Annotated[VolumeRule, Tag("volume")],
    Discriminator(
        _type_of,
        custom_error_type="rule_type",
        custom_error_message="is not a type of rule; write minimum, drift, max_drop, threshold or volume",
    ),
]
"""Any rule, as it stands in settings and snapshots; one without `type` is a minimum."""

RULE: Final[TypeAdapter[Rule]] = TypeAdapter(AnyRule)


def effective_severity(rule: Rule, *, heuristic: bool) -> Severity:
    """The severity that alerts of the rule really have: a ticket where a heuristic judge may not page, else its own.

    >>> effective_severity(MinimumRule(name="r", judge="lexical", minimum=0.8, severity="page"), heuristic=True)
    'ticket'
    """
    heuristic = heuristic and rule.budget == "quality"  # how long judging took is a fact, whoever judged
    return "ticket" if heuristic and not rule.heuristic_may_page else rule.severity
