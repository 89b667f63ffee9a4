"""Alert rules of the settings: a rate that must not fall, with a promise about false alarms."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Final, Literal

from pydantic import Discriminator, Field, Tag, TypeAdapter, field_validator, model_validator

from tracejudge.alerts.durations import parse_duration
from tracejudge.alerts.event import Severity
from tracejudge.alerts.rules.rule_base import BudgetKind, RuleBase


class MinimumRule(RuleBase):
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


class DriftRule(RuleBase):
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


class MaxDropRule(RuleBase):
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


class ThresholdRule(RuleBase):
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


class VolumeRule(RuleBase):
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
