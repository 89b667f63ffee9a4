"""What a release must reach, written down in the user's own repository."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Share = Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)]


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Threshold(_Section):
    """Limits for one judge, on all cases or on a slice of them (`where`); at least one limit must be given.

    `minimum` and `max_invalid` are shares; `max_drop` is the largest fall below the baseline, as a share, or "noise":
    no more than the same code falls by itself, by a baseline of several runs.
    """

    judge: Annotated[str, Field(min_length=1)]
    where: dict[Literal["app", "version", "category"], str] = Field(default_factory=dict)
    minimum: Share | None = None
    max_drop: Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)] | Literal["noise"] | None = None
    max_invalid: Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)] | None = None

    @model_validator(mode="after")
    def _has_a_limit(self) -> Threshold:
        if self.minimum is None and self.max_drop is None and self.max_invalid is None:
            raise ValueError("has no limit: write minimum, max_drop or max_invalid")
        return self


class Thresholds(_Section):
    """The file. A check fails when its whole interval lies beyond its limit; with `strict` it passes only when the
    whole interval lies on the right side. Below `min_cases` settled cases it is undecided, unless `too_few` decides.
    """

    confidence: Annotated[float, Field(ge=0.5, lt=1)] = 0.95
    strict: bool = False
    min_cases: Annotated[int, Field(ge=1)] = 20
    too_few: Literal["undecided", "pass", "fail"] = "undecided"
    max_latency_p95_ms: Annotated[float, Field(gt=0)] | None = None
    thresholds: Annotated[tuple[Threshold, ...], Field(min_length=1)]
