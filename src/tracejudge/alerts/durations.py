"""Spans of time and promises as people write them in settings: `24h`, `1 per 30d`."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

_UNITS: Final = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}
_DURATION: Final = re.compile(r"\s*(\d{1,6})\s*([mhdw])\s*", re.ASCII)
_FALSE_ALARMS: Final = re.compile(r"\s*(\d{1,4})\s+per\s+(\d{1,6}\s*[mhdw])\s*", re.ASCII)
_SHORTEST, _LONGEST = timedelta(days=1), timedelta(days=3650)


def parse_duration(text: str) -> timedelta:
    """The span written as a whole number and a unit: `90m`, `24h`, `30d`, `4w`.

    Raises ValueError, saying how to write one.

    >>> parse_duration("24h")
    datetime.timedelta(days=1)
    """
    match = _DURATION.fullmatch(text)
    if match is None or int(match[1]) == 0:
        raise ValueError(f"{text!r} is not a duration; write a whole number above 0 and m, h, d or w, such as '24h'")
    return int(match[1]) * _UNITS[match[2]]


def parse_false_alarms(text: str) -> timedelta:
    """The promised mean time between false alarms, from `N per DURATION`.

    Raises ValueError when the text has another form, or promises less than a day or more than ten years between two.

    >>> parse_false_alarms("2 per 30d")
    datetime.timedelta(days=15)
    """
    match = _FALSE_ALARMS.fullmatch(text)
    if match is None or int(match[1]) == 0:
        raise ValueError(f"{text!r} is not a number of false alarms; write it as '1 per 30d'")
    between = parse_duration(match[2]) / int(match[1])
    if not _SHORTEST <= between <= _LONGEST:
        raise ValueError(
            f"{text!r} means one false alarm in {between / timedelta(days=1):g} days; "
            "choose between one a day ('1 per 1d') and one in ten years ('1 per 3650d')"
        )
    return between
