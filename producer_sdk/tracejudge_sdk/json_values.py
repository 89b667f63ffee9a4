"""What JSON can hold: a check for the wire, and a coercion for whatever a service hands in.

The wire refuses what JSON cannot hold, because silently changing somebody's record is worse than saying no. The client
cannot say no to a running service, so it turns such values into text or number and marks the trace `lossy`.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from datetime import date, datetime, time, timedelta
from typing import Any, Final

MAX_DEPTH: Final = 64
"""Containers inside each other on the wire; serialisers of several languages give up somewhere above it."""

MAX_INT_BITS: Final = 1024
"""Whole numbers on the wire; Python itself reads no more than 4300 digits."""

COERCED_DEPTH: Final = 8
COERCED_ITEMS: Final = 1000
COERCED_TEXT_CHARS: Final = 1000  # of a repr; texts that are texts already are never cut here

CUT_MARK: Final = "...[cut]"
"""Ends every text that is cut here, before redaction sees it: it then looks at the end with other eyes."""

_PLAIN: Final = (str, int, bool, type(None))


def check_json(value: Any) -> None:
    """Raises ValueError, naming the place, when `value` is not what JSON text in UTF-8 can hold and give back."""
    _check(value, "", MAX_DEPTH)


def _check(value: Any, place: str, depth: int) -> None:
    kind = type(value)
    if kind is str:
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError as error:
                raise _refusal(place, f"text with a lone surrogate at character {error.start}") from error
    elif kind is bool or value is None:
        pass
    elif kind is int:
        if value.bit_length() > MAX_INT_BITS:
            raise _refusal(place, f"whole number of {value.bit_length()} bits, the limit is {MAX_INT_BITS}")
    elif kind is float:
        if not math.isfinite(value):
            raise _refusal(place, f"{value!r} is not a JSON number: write null")
    elif kind is dict or kind is list or kind is tuple:
        if depth == 0:
            raise _refusal(place, f"nested deeper than {MAX_DEPTH}")
        for key, item in value.items() if kind is dict else enumerate(value):
            if kind is dict:
                if type(key) is not str:
                    raise _refusal(place, f"key of type {type(key).__name__}, not a text")
                _check(key, place, depth)
            _check(item, f"{place}.{key}", depth - 1)
    else:
        raise _refusal(place, f"{kind.__name__} is not a JSON value: turn it into a text or a number first")


def _refusal(place: str, what: str) -> ValueError:
    place = scrub_text(place.removeprefix("."))
    return ValueError(f"{place if len(place) <= 80 else '...' + place[-77:]}: {what}" if place else what)


def scrub_surrogates(value: Any) -> Any:
    """A copy of a JSON value in which every lone surrogate is U+FFFD. Raises RecursionError when nested too deep."""
    if isinstance(value, str):
        return scrub_text(value)
    if isinstance(value, dict):
        return {scrub_surrogates(key): scrub_surrogates(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [scrub_surrogates(item) for item in value]
    return value


def scrub_text(text: str) -> str:
    """The text with U+FFFD for every lone surrogate; halves that make a pair become the character they mean."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def coerce_json(value: Any) -> tuple[Any, bool]:
    """`value` as a JSON value, and whether something was lost or changed its type on the way. Never raises.

    Kept: None, bool, whole and finite numbers, texts, lists, tuples (as lists), mappings with text keys. Changed:
    NaN and infinities to null; dates and times to ISO 8601, durations to seconds; sets to sorted lists; enum members
    to their values; numpy scalars and small arrays to numbers and lists; bytes to text with escapes; keys to text;
    everything else to its repr, cut at 1000 characters. A cycle, the ninth level and what comes after 1000 items
    become a short text that says so.
    """
    coercion = _Coercion()
    try:
        return coercion.convert(value, COERCED_DEPTH), coercion.lossy
    except Exception:  # noqa: BLE001 - any foreign method may raise anything; the trace must survive it
        return f"<{type(value).__name__}>", True


class _Coercion:
    def __init__(self) -> None:
        self.lossy = False
        self._items_left = COERCED_ITEMS
        self._open: set[int] = set()  # containers around the present one, to see cycles

    def convert(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if kind in _PLAIN:
            if kind is int and value.bit_length() > MAX_INT_BITS:
                return self._lost(f"<int of {value.bit_length()} bits>")
            if kind is str and not value.isascii() and (clean := scrub_text(value)) != value:
                return self._lost(clean)
            return value
        if kind is float:
            return value if math.isfinite(value) else self._lost(None)
        if kind is dict or kind is list or kind is tuple:
            return self._container(value, depth)
        self.lossy = True
        return self._odd(value, depth)

    def _lost(self, value: Any) -> Any:
        self.lossy = True
        return value

    def _container(self, value: Any, depth: int) -> Any:
        if id(value) in self._open:
            return self._lost("<cycle>")
        if depth == 0:
            return self._lost(f"<{type(value).__name__} nested too deep>")
        self._open.add(id(value))
        try:
            if isinstance(value, Mapping):
                return self._mapping(value, depth)
            found: list[Any] = []
            # A copy, since the service may go on changing its list meanwhile.
            items = list(value)
            for item in items:
                if self._items_left <= 0:
                    found.append(self._lost(f"<{len(items) - len(found)} more>"))
                    break
                self._items_left -= 1
                found.append(self.convert(item, depth - 1))
            return found
        finally:
            self._open.discard(id(value))

    def _mapping(self, value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        items = list(value.items())
        for key, item in items:
            if self._items_left <= 0:
                found["<more>"] = self._lost(len(items) - len(found))
                break
            self._items_left -= 1
            if type(key) is not str:
                self.lossy = True
                key = self._text_key(key)
            elif not key.isascii():
                key = self.convert(key, depth)
            found[key] = self.convert(item, depth - 1)
        return found

    def _text_key(self, key: Any) -> str:
        plain = self.convert(key, 0)
        return plain if isinstance(plain, str) else str(plain)

    def _odd(self, value: Any, depth: int) -> Any:
        if isinstance(value, enum.Enum):
            return self.convert(value.value, depth)
        if isinstance(value, str):
            return self.convert(str.__str__(value), depth)
        if isinstance(value, int):
            return self.convert(int(value), depth)
        if isinstance(value, float):
            return self.convert(float(value), depth)
        if isinstance(value, (datetime, date, time)):
            return value.isoformat()
        if isinstance(value, timedelta):
            return value.total_seconds()
        if isinstance(value, (bytes, bytearray, memoryview)):
            return _short(bytes(value[: COERCED_TEXT_CHARS + 1]).decode("utf-8", "backslashreplace"))
        if isinstance(value, AbstractSet):
            # Sorted, because the order of a set differs between two runs of the same service.
            return self._container(sorted(value, key=lambda item: (type(item).__name__, safe_repr(item))), depth)
        if isinstance(value, (Mapping, list, tuple)):
            return self._container(value, depth)
        if type(value).__module__.partition(".")[0] == "numpy":
            return self._numpy(value, depth)
        return safe_repr(value)

    def _numpy(self, value: Any, depth: int) -> Any:
        # By its methods alone: the SDK does not import numpy.
        if int(getattr(value, "size", 1)) > self._items_left:
            return f"<{type(value).__name__} of {value.size}>"
        plain = value.tolist()
        return safe_repr(value) if type(plain) is type(value) else self.convert(plain, depth)


def _short(text: str) -> str:
    if len(text) <= COERCED_TEXT_CHARS:
        return text
    return text[: COERCED_TEXT_CHARS - len(CUT_MARK)] + CUT_MARK


def safe_repr(value: Any) -> str:
    """repr cut at 1000 characters and free of lone surrogates; never raises."""
    try:
        return scrub_text(_short(repr(value)))
    except Exception:  # noqa: BLE001 - a repr may raise anything, RecursionError included
        return f"<{type(value).__name__}: repr failed>"
