"""Settings of a governor, which adapts a judge's sampling rate to a limit: `[[sampling.governors]]`.

[[sampling.governors]]
name = "faithfulness"
judge = "faithfulness"
max_per_h = 200              # at most so many judged an hour
[[sampling.governors]]
name = "faithfulness money"
judge = "faithfulness"
max_usd_per_day = 20.0       # at most so much a day
[[sampling.governors]]
name = "shop precision"
judge = "faithfulness"
app = "shop"                 # only the traffic of this app
within_points = 2.0          # no more than it takes to know a day's pass rate within so many points
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

AIM: Final = 0.85
"""Of a hard cap: the hash's own scatter and a forecast that is a little wrong must not reach it."""

MARGIN: Final = 1.1
"""Of the number a wanted interval takes: the rate and the weights of tomorrow are not those of today."""

Period = Literal["hour", "day"]


class Governor(BaseModel):
    """Lowers a judge's rates as far as one goal needs it, for one app or all. Several may govern one judge: the
    lowest chance stands."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, Field(min_length=1, max_length=128)]
    judge: Annotated[str, Field(min_length=1)]
    app: Annotated[str, Field(min_length=1)] | None = None
    max_per_h: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    max_usd_per_day: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    within_points: Annotated[float, Field(ge=0.1, le=50, allow_inf_nan=False)] | None = None

    @model_validator(mode="after")
    def _one_goal(self) -> Governor:
        goals = [name for name in ("max_per_h", "max_usd_per_day", "within_points") if getattr(self, name) is not None]
        if len(goals) != 1:
            seen = " and ".join(goals) or "none"
            raise ValueError(
                f"governor {self.name!r} has {seen} of max_per_h, max_usd_per_day, within_points: give exactly one, "
                "and a governor for each further goal"
            )
        return self

    @property
    def period(self) -> Period:
        """Over which stretch of event time, in whole UTC hours or days, the goal is kept."""
        return "hour" if self.max_per_h is not None else "day"

    def governs(self, judge: str, app: str) -> bool:
        """True when it has a say in whether this judge sees traffic of this app."""
        return judge == self.judge and self.app in (None, app)
