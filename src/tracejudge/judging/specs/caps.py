"""Hard caps as values: calls and money, in an hour or a day (whole ones, UTC), of one judge or of all together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, Literal, NamedTuple

ALL_JUDGES: Final = ""
"""The scope of a cap on all judges together."""


class Span(NamedTuple):
    """One window of a cap: from `start` up to, not including, `end`."""

    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Cap:
    """One cap. `name` is that of its setting; `scope` a judge's name, or ALL_JUDGES."""

    name: str
    scope: str
    unit: Literal["calls", "usd"]
    window: Literal["hour", "day"]
    limit: float

    def span(self, now: datetime) -> Span:
        """The window that `now` lies in."""
        start = now.replace(minute=0, second=0, microsecond=0)
        if self.window == "hour":
            return Span(start, start + timedelta(hours=1))
        start = start.replace(hour=0)
        return Span(start, start + timedelta(days=1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """The caps of one judge, or of all judges together. None: no such cap."""

    max_calls_per_h: float | None = field(default=None, metadata={"unit": "calls", "window": "hour"})
    max_calls_per_day: float | None = field(default=None, metadata={"unit": "calls", "window": "day"})
    max_usd_per_h: float | None = field(default=None, metadata={"unit": "usd", "window": "hour"})
    max_usd_per_day: float | None = field(default=None, metadata={"unit": "usd", "window": "day"})

    def of(self, scope: str) -> Iterator[Cap]:
        """The caps that are set."""
        for name, one in self.__dataclass_fields__.items():
            limit = getattr(self, name)
            if limit is not None:
                yield Cap(name=name, scope=scope, unit=one.metadata["unit"], window=one.metadata["window"], limit=limit)

    def __str__(self) -> str:
        """For people: "200 calls/h, $5/day"; "" where there is none."""
        return ", ".join(
            (f"${cap.limit:g}/" if cap.unit == "usd" else f"{cap.limit:,.0f} calls/") + cap.window.replace("hour", "h")
            for cap in self.of(ALL_JUDGES)
        )

    @property
    def in_money(self) -> str:
        """The setting of a cap that counts money, which needs prices; "" where there is none."""
        return next((cap.name for cap in self.of(ALL_JUDGES) if cap.unit == "usd"), "")

    @property
    def any(self) -> bool:
        """True when there is a cap."""
        return any(True for _ in self.of(ALL_JUDGES))


NO_CAPS: Final = Caps()
