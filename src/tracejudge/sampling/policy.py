"""What share of which traffic every judge sees: a value read from settings."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict, Field

from tracejudge.sampling.condition import Condition


class Stratum(BaseModel):
    """A class of traffic with rates of its own; the first that matches is the trace's stratum."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    when: Condition
    rate: float | None = None
    judges: tuple[str, ...] = ()
    rates: dict[str, float] = Field(default_factory=dict)


class Rule(BaseModel):
    """Keeps more of what matches (`rate`) or none of it (`never`)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    when: Condition
    rate: float | None = None
    never: bool = False
    judges: tuple[str, ...] = ()


class SamplingPolicy(BaseModel):
    """`[sampling]` of the settings. Empty, it keeps everything."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rate: float = 1.0
    judges: dict[str, float] = Field(default_factory=dict)
    strata: tuple[Stratum, ...] = ()
    rules: tuple[Rule, ...] = ()

    def with_full_rate(self, judge_names: Iterable[str]) -> SamplingPolicy:
        """The policy in which those of `judge_names` that have no rate of their own see every trace."""
        names = [name for name in judge_names if name not in self.judges]
        return self.model_copy(update={"judges": {**self.judges, **dict.fromkeys(names, 1.0)}})

    def fingerprint(self) -> str:
        """12 hexadecimal digits that change with anything that could change a decision."""
        raise NotImplementedError
