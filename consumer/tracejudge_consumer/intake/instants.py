"""Instants of other forms: texts in a format, and numbers since 1970 in a unit.

A text says what it means; a number in the wrong unit is an instant too, decades away. So one of a number is refused
where no answer can have been served: before 2000, or more than a day ahead of this machine's clock.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any, Final
from zoneinfo import ZoneInfo

from pydantic import TypeAdapter, ValidationError

from tracejudge_consumer.intake.mapping_settings import TimeSource

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
_EARLIEST: Final = datetime(2000, 1, 1, tzinfo=timezone.utc)
_AHEAD: Final = timedelta(days=1)
_PER_SECOND: Final = {"epoch_s": 1, "epoch_ms": 1_000, "epoch_us": 1_000_000, "epoch_ns": 1_000_000_000}
_ISO: Final = TypeAdapter(datetime)


def instant_of(value: Any, source: TimeSource, *, now: Callable[[], datetime]) -> datetime:
    """Raises ValueError for what is no instant, in words that go on after "the path leads to"."""
    if source.format in _PER_SECOND:
        return plausible(_number(value), source.format, now())
    if not isinstance(value, str):
        raise ValueError(f'{value!r:.60}: a number needs format = "epoch_s" or "epoch_ms"')
    try:
        if source.format != "iso":
            moment = datetime.strptime(value, source.format)  # noqa: DTZ007 - the zone is looked after below
        elif value[4:5] == "-":
            moment = _ISO.validate_python(value)
        else:
            raise ValueError("not a date")
    except (ValueError, ValidationError):
        units = '; a number needs format = "epoch_s" or "epoch_ms"' if value.strip().isdecimal() else ""
        raise ValueError(f"{value!r:.60}, which is not an instant of format {source.format!r}{units}") from None
    if moment.tzinfo is None:
        if source.zone is None:
            raise ValueError(f'{value!r:.60}, which names no time zone: set zone = "UTC", or the zone it is written in')
        moment = moment.replace(tzinfo=ZoneInfo(source.zone))
    return moment


def plausible(value: int | float, unit: str, now: datetime) -> datetime:
    """The instant that a number stands for. Raises ValueError where no answer was served then, with the unit meant."""
    moment = _since_epoch(value, unit)
    latest = now + _AHEAD
    if moment is not None and _EARLIEST <= moment <= latest:
        return moment
    if moment is None:
        found = f"{value!r:.60}, which is beyond the calendar as {unit}"
    else:
        side = "before 2000" if moment < _EARLIEST else "more than a day in the future"
        found = f"{value!r:.60}, which as {unit} is {moment:%Y-%m-%dT%H:%M:%SZ}, {side}"
    for other in _PER_SECOND:
        meant = _since_epoch(value, other)
        if meant is not None and _EARLIEST <= meant <= latest:
            raise ValueError(f'{found}; as {other} it is {meant:%Y-%m-%dT%H:%M:%SZ}: set format = "{other}"')
    raise ValueError(f"{found}: set format to its unit ({', '.join(_PER_SECOND)}), or fix what writes it")


def _number(value: Any) -> int | float:
    if isinstance(value, str):
        try:
            value = int(value) if value.lstrip("-").isdigit() else float(value)
        except ValueError:
            raise ValueError(f"{value!r:.60}, which is not a number") from None
    if type(value) is int or type(value) is float:
        return value
    raise ValueError(f"{value!r:.60}, which is not a number")


def _since_epoch(value: int | float, unit: str) -> datetime | None:
    """None beyond the calendar."""
    per_second = _PER_SECOND[unit]
    try:
        # Whole numbers stay whole: a float of nanoseconds since 1970 is off by a hundred of them.
        microseconds = value * 1_000_000 // per_second if type(value) is int else round(value * 1_000_000 / per_second)
        return _EPOCH + timedelta(microseconds=microseconds)
    except (OverflowError, ValueError):
        return None
