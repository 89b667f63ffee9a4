"""Values on their way into columns and back: strict, because the driver would coerce or lose the batch.

Instants travel as integers (milliseconds or microseconds since 1970): the driver's own conversions depend on the host's
time zone and cut parameters to seconds. NaN and infinities never enter a column.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta, timezone
from enum import Enum
from typing import Any, Final

EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
_LATEST: Final = datetime(2200, 1, 1, tzinfo=timezone.utc)  # DateTime64 ends in 2299, the index granule's date in 2149+
_MICROSECOND: Final = timedelta(microseconds=1)


class RowRefused(ValueError):
    """A value that a column must not take. `reason` is a short stable code."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


def _ill_typed(name: str, value: object, wanted: str) -> RowRefused:
    shown = repr(value)
    return RowRefused("ill_typed", f"{name}: {shown[:80]} is not {wanted}")


def text(name: str, value: object) -> str:
    """A text; lone surrogates, which UTF-8 cannot hold, become U+FFFD."""
    if isinstance(value, Enum):
        value = value.value
    if not isinstance(value, str):
        raise _ill_typed(name, value, "a text")
    try:
        value.encode()
    except UnicodeEncodeError:
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return value


def optional_text(name: str, value: object) -> str | None:
    """A text or None."""
    return None if value is None else text(name, value)


def real(name: str, value: object) -> float:
    """A finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _ill_typed(name, value, "a number")
    if not math.isfinite(value):
        raise RowRefused("out_of_range", f"{name}: {value!r} is not finite")
    return float(value)


def optional_real(name: str, value: object) -> float | None:
    """A finite number or None."""
    return None if value is None else real(name, value)


def probability(name: str, value: object) -> float:
    """A number in (0, 1]."""
    number = real(name, value)
    if not 0.0 < number <= 1.0:
        raise RowRefused("out_of_range", f"{name}: {number!r} is not in (0, 1]")
    return number


def share(name: str, value: object) -> float:
    """A number in [0, 1]: the chance of a trace that was not judged, which may have had none."""
    number = real(name, value)
    if not 0.0 <= number <= 1.0:
        raise RowRefused("out_of_range", f"{name}: {number!r} is not in [0, 1]")
    return number


def whole(name: str, value: object, *, low: int = 0, high: int = 2**63 - 1) -> int:
    """A whole number in [low, high]."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise _ill_typed(name, value, "a whole number")
    if not low <= value <= high:
        raise RowRefused("out_of_range", f"{name}: {value!r} is not in [{low}, {high}]")
    return value


def flag(name: str, value: object) -> bool:
    """A truth value; the texts `true` and `false` mean what they say (a driver takes any text for true)."""
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if not isinstance(value, bool):
        raise _ill_typed(name, value, "true or false")
    return value


def microseconds(name: str, value: object) -> int:
    """An aware instant as microseconds since 1970."""
    if not isinstance(value, datetime):
        raise _ill_typed(name, value, "an instant")
    if value.tzinfo is None or value.utcoffset() is None:
        raise RowRefused("naive_datetime", f"{name}: {value!r} has no time zone: pass an aware datetime")
    if not EPOCH <= value < _LATEST:
        raise RowRefused("out_of_range", f"{name}: {value!r} is not in [1970, 2200)")
    return (value - EPOCH) // _MICROSECOND


def milliseconds(name: str, value: object) -> int:
    """An aware instant as milliseconds since 1970, cut like the wire's."""
    return microseconds(name, value) // 1000


def from_microseconds(value: int) -> datetime:
    """The instant, aware, UTC."""
    return EPOCH + timedelta(microseconds=value)


def from_milliseconds(value: int) -> datetime:
    """The instant, aware, UTC."""
    return EPOCH + timedelta(milliseconds=value)


def bound_instant(name: str, value: datetime) -> str:
    """An instant as a parameter for `{x:DateTime64(6, 'UTC')}`. Raises ValueError for a naive one."""
    if value.tzinfo is None or value.utcoffset() is None:
        raise ValueError(f"{name}: {value!r} has no time zone: pass an aware datetime")
    return value.astimezone(timezone.utc).strftime("%Y-%m-%d %H:%M:%S.%f")


_MUST_ESCAPE: Final = re.compile(r"[\\'`\t\n]")
_ESCAPES: Final = str.maketrans({one: f"\\{one}" for one in "\\'`\t\n"})


class BoundTexts:
    """Texts as one parameter for `{x:Array(String)}`. The driver would look at each character of each by itself."""

    __slots__ = ("_literal",)

    def __init__(self, texts: Iterable[str]) -> None:
        listed = list(texts)
        if _MUST_ESCAPE.search("".join(listed)):
            listed = [one.translate(_ESCAPES) for one in listed]
        self._literal = "['" + "','".join(listed) + "']" if listed else "[]"

    def __str__(self) -> str:
        return self._literal


def to_json(name: str, value: object) -> str:
    """JSON text that always is UTF-8 and never holds NaN; what JSON cannot hold becomes its text."""
    if not value and isinstance(value, dict):
        return "{}"  # of most passages
    if _quick_json is not None and (data := _quick_json(value)) is not None:
        return data
    try:
        data = _JSON.encode(value)
        data.encode()
    except UnicodeEncodeError:
        return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        if isinstance(error, RecursionError) or "Circular" in str(error):
            raise RowRefused("ill_typed", f"{name}: nested too deeply for JSON") from error
        return json.dumps(_plain(value), ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return data


def _quick() -> Callable[[object], str | None] | None:
    """With orjson (`tracejudge[fast]`), which takes a fifth of the time: the JSON text of plain values, None for what
    only the closer look below knows how to say."""
    try:
        import orjson
    except ImportError:
        return None
    options = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_SUBCLASS
    dumps = orjson.dumps

    def quick(value: object) -> str | None:
        try:
            return dumps(value, None, options).decode()
        except TypeError:  # orjson's own errors are TypeErrors
            return None

    return quick


_quick_json: Final = _quick()
_JSON: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _plain(value: object) -> object:
    if isinstance(value, Enum):
        return _plain(value.value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value)


def from_json(value: str) -> dict[str, Any]:
    """The object that `to_json` wrote; an empty one where the text has expired."""
    loaded = json.loads(value) if value else {}
    return loaded if isinstance(loaded, dict) else {}
