"""What share of which traffic every judge sees: a frozen value, read from `[sampling]` of the settings.

[sampling]
rate = 1.0                       # of judges without a rate of their own
[sampling.judges]
faithfulness = 0.1
[[sampling.strata]]              # the first that matches is the trace's stratum; its rate replaces the base rate
name = "gold"
when = { field = "tags.tier", is = "gold" }
rates = { faithfulness = 0.5 }
[[sampling.rules]]               # every one that matches can raise the chance, or rule the trace out
name = "errors"
when = { field = "status", is = "error" }
rate = 1.0
[[sampling.rules]]
name = "health checks"
when = { field = "query", matches = "ping*" }
never = true
[[sampling.rules]]
name = "first day of a release"
when = { field = "version_age_h", below = 24 }
rate = 0.5
[[sampling.governors]]           # lowers the rates as far as a goal needs it; see governor.py
name = "faithfulness an hour"
judge = "faithfulness"
max_per_h = 200
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from tracejudge.sampling.condition import Condition
from tracejudge.sampling.epoch import SMALLEST
from tracejudge.sampling.fields import VERSION_AGE
from tracejudge.sampling.governor import Governor

MIN_RATE: Final = SMALLEST
"""One in a million. Below, a single trace would stand for more traffic than any window holds."""


def _share(value: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("is not a number: write a share from 0 to 1, such as 0.1 for one in ten")
    if not 0.0 <= value <= 1.0:
        raise ValueError("is not from 0 to 1: write a share, such as 0.1 for one in ten")
    if 0.0 < value < MIN_RATE:
        raise ValueError(f"is below the smallest share, {MIN_RATE}: write 0 for none")
    return float(value)


Rate = Annotated[float, BeforeValidator(_share)]
RuleName = Annotated[str, Field(min_length=1, max_length=128)]


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Stratum(_Table):
    """A class of traffic, named on every score it yields.

    `rate` replaces the base rate of the judges in `judges` (of all, where that is empty), `rates` that of the judge it
    names. Without either the stratum only gives its traces their name. `floor_per_h`: every governor leaves each of its
    judges so many of the stratum an hour, in expectation, and raises the rate in a quiet hour where it takes that.
    """

    name: RuleName
    when: Condition
    rate: Rate | None = None
    judges: tuple[str, ...] = ()
    rates: dict[str, Rate] = Field(default_factory=dict)
    floor_per_h: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None

    def rate_of(self, judge_name: str) -> float | None:
        """The rate for one judge; None leaves its base rate."""
        if judge_name in self.rates:
            return self.rates[judge_name]
        return self.rate if concerns(self.judges, judge_name) else None

    @model_validator(mode="after")
    def _judges_need_a_rate(self) -> Stratum:
        if self.judges and self.rate is None:
            raise ValueError(
                "judges says whom `rate` is for, and there is no rate: add it, or write rates = { NAME = 0.1 }"
            )
        return self


class Rule(_Table):
    """Keeps at least the share `rate` of what matches, or with `never` none of it, for `judges` (all, where empty)."""

    name: RuleName
    when: Condition
    rate: Rate | None = None
    never: bool = False
    judges: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _one_effect(self) -> Rule:
        if self.never == (self.rate is not None):
            raise ValueError("a rule has either a rate or never = true")
        return self


class FeedbackTrigger(_Table):
    """Traces with feedback below `value_below` are judged after the fact by `judges`, in run "feedback"."""

    value_below: Annotated[float, Field(allow_inf_nan=False)] = 0.5
    judges: Annotated[tuple[str, ...], Field(min_length=1)]


class SamplingPolicy(_Table):
    """Strata, rules and rates. Empty, it keeps everything."""

    rate: Rate = 1.0
    judges: dict[str, Rate] = Field(default_factory=dict)
    strata: tuple[Stratum, ...] = ()
    rules: tuple[Rule, ...] = ()
    governors: tuple[Governor, ...] = ()
    feedback: FeedbackTrigger | None = None

    def base_rate(self, judge_name: str) -> float:
        """The judge's share of what falls into no stratum with a rate of its own."""
        return self.judges.get(judge_name, self.rate)

    def own_rate(self, judge_name: str, stratum: str) -> float:
        """The judge's share of a stratum ("" or an unknown name: the rest), before rules and governors."""
        found = next((each for each in self.strata if each.name == stratum), None)
        own = None if found is None else found.rate_of(judge_name)
        return self.base_rate(judge_name) if own is None else own

    def floors_per_h(self) -> dict[str, float]:
        """By stratum, how many traces an hour its governed judges see at least, in expectation."""
        return {each.name: each.floor_per_h for each in self.strata if each.floor_per_h is not None}

    def _conditions(self) -> list[Condition]:
        return [*(each.when for each in self.strata), *(each.when for each in self.rules)]

    def looks_at(self) -> frozenset[str]:
        """The fields of a trace that conditions ask for."""
        return frozenset().union(*(when.names() for when in self._conditions()))

    @property
    def looks_at_version_age(self) -> bool:
        """True when a condition asks how young a version is, which the epochs say."""
        return VERSION_AGE in self.looks_at()

    @property
    def has_epochs(self) -> bool:
        """True when what is decided depends on the epoch of a trace."""
        return bool(self.governors) or self.looks_at_version_age

    def with_full_rate(self, judge_names: Iterable[str]) -> SamplingPolicy:
        """The policy in which those of `judge_names` without a base rate of their own see every trace.

        For judges without a model: they cost nothing, so the common rate is not meant for them.
        """
        free = {name: 1.0 for name in judge_names if name not in self.judges}
        return self.model_copy(update={"judges": {**self.judges, **free}})

    def judge_names(self) -> frozenset[str]:
        """Every judge that the policy names, to be compared with those that exist."""
        named = set(self.judges)
        for stratum in self.strata:
            named.update(stratum.judges, stratum.rates)
        for rule in self.rules:
            named.update(rule.judges)
        named.update(governor.judge for governor in self.governors)
        named.update(self.feedback.judges if self.feedback is not None else ())
        return frozenset(named)

    def fingerprint(self) -> str:
        """12 hexadecimal digits that change with anything written in the policy, and with nothing else."""
        # Defaults are left out, so that a field added by a later release keeps the fingerprints of policies without it.
        content = self.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @model_validator(mode="after")
    def _floors_need_a_governor(self) -> SamplingPolicy:
        if not self.governors and (floors := sorted(self.floors_per_h())):
            raise ValueError(
                f"strata: {floors[0]!r} has floor_per_h, which is kept by governors, and there are none: add "
                "[[sampling.governors]], or give the stratum a rate"
            )
        return self

    @field_validator("strata", "rules", "governors")
    @classmethod
    def _names_differ(cls, items: tuple[Any, ...]) -> tuple[Any, ...]:
        names = [item.name for item in items]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"{name!r} is the name of two of them: explanations and rates need one name each")
        return items


def concerns(judges: tuple[str, ...], judge_name: str) -> bool:
    """True when a list of judge names means this judge; an empty list means all."""
    return not judges or judge_name in judges
